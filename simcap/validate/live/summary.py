"""From judged points to what a person is told: median errors, which bars hold, what was found, and the record's rows.

Enters: `Judged`s. Leaves: `Group`s (median and worst absolute error of a kind of load), findings (a wrong law, a moved
machine, a missed bar), and `Row`s of the validation record, one for each point, run, figure and basis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simcap.validate.live import figures
from simcap.validate.live.judge import Judged
from simcap.validate.record import Estimate, Row

Basis = Literal["law", "prediction"]
Loop = Literal["closed", "open"]
Structure = Literal["pool", "shared"]

WRONG_LAW = 0.2
"""Median law error of p50 or throughput over the points from which on the scenario's structure is not what ran. The right one
errs by some per cent, a wrong one by 40 to 70 % (docs/explanation/accuracy-live has both measured)."""

LAW_BARS: dict[tuple[Structure, Loop], dict[str, float]] = {
    ("pool", "closed"): {"p50": 0.05, "p95": 0.05, "p99": 0.05, "throughput": 0.05},
    ("pool", "open"): {"p50": 0.10, "p95": 0.10, "p99": 0.10, "throughput": 0.05},
    ("shared", "closed"): {"p50": 0.10, "p95": 0.10, "p99": 0.10, "throughput": 0.05},
}
"""What the median over points may be. Open loads on shared cores have no bar: they are shown."""

PREDICTION_BARS: dict[Loop, dict[str, float]] = {
    "closed": {"p50": 0.10, "p95": 0.15, "p99": 0.15},
    "open": {"p50": 0.20, "p95": 0.25, "p99": 0.25},
}


@dataclass(frozen=True)
class Group:
    """One kind of load on one basis. median, worst: absolute errors by figure; of: how many points of how many runs."""

    basis: Basis
    loop: Loop
    median: dict[str, float]
    worst: dict[str, float]
    bars: dict[str, float]
    of: int

    @property
    def missed(self) -> list[str]:
        return [figure for figure, bar in self.bars.items() if self.median[figure] > bar]


def groups(judged: Sequence[Judged], structure: Structure) -> list[Group]:
    """Law over all points, prediction over those that count."""
    found = []
    for loop in ("closed", "open"):
        mine = [j for j in judged if j.recording.point.loop == loop]
        with_law = [j for j in mine if j.law is not None]
        counted = [j for j in mine if j.counted]
        law_bars = LAW_BARS.get((structure, loop), {})
        found += _group("law", loop, with_law, lambda j, f: j.error(j.law or {}, f), law_bars)
        bars = PREDICTION_BARS[loop]
        found += _group("prediction", loop, counted, lambda j, f: j.error(j.prediction.mean, f), bars)
    return found


def _group(
    basis: Basis, loop: Loop, mine: Sequence[Judged], error: Callable[[Judged, str], float], bars: dict[str, float]
) -> list[Group]:
    if not mine:
        return []
    table = {figure: np.abs([error(j, figure) for j in mine]) for figure in figures.FIGURES}
    median = {figure: float(np.median(values)) for figure, values in table.items()}
    return [Group(basis, loop, median, {f: float(v.max()) for f, v in table.items()}, bars, len(mine))]


@dataclass(frozen=True)
class Coverage:
    """inside: of `of` counted figures, how many lay in the predicted 95 % interval. Latencies only."""

    inside: int
    of: int


def coverage(judged: Sequence[Judged]) -> Coverage:
    pairs = [(j, f) for j in judged if j.counted for f in figures.LATENCIES]
    return Coverage(sum(j.prediction.lo[f] <= j.measured[f] <= j.prediction.hi[f] for j, f in pairs), len(pairs))


def wrong_law(judged: Sequence[Judged]) -> str | None:
    """A sentence when the scenario's structure is not what ran."""
    mine = [j for j in judged if j.law is not None]
    if not mine:
        return None
    found = {f: float(np.median([abs(j.error(j.law or {}, f)) for j in mine])) for f in ("p50", "throughput")}
    if max(found.values()) <= WRONG_LAW:
        return None
    told = ", ".join(f"{f} {e:.0%}" for f, e in found.items())
    return (
        f"wrong law: with the very service times of this run the simulated node is off by {told} (median over "
        f"{len(mine)} points); its pools, locks, sessions or threads are not what ran"
    )


def moved(judged: Sequence[Judged]) -> str | None:
    """A sentence when most points were played on a machine that was not as it was calibrated, or not ours alone."""
    perturbed = [j for j in judged if any(r != "unstable here" for r in j.remarks)]
    if 2 * len(perturbed) <= len(judged):
        return None
    speeds = [factor for j in perturbed if j.speed for factor in (j.speed.during, j.speed.together)]
    others = [c for j in perturbed if (c := j.recording.played.record.other_cores) is not None]
    told = f"machine moved or shared at {len(perturbed)} of {len(judged)} points"
    if speeds:
        told += f": the sentinel took {min(speeds):.2f} to {max(speeds):.2f} times as long as in calibration"
    if others:
        told += f"; others used up to {max(others):.2f} cores"
    return f"{told}. Calibrate again on the machine as it is now, or leave it to the run"


def rows_of(judged: Sequence[Judged]) -> list[Row]:
    """For the record."""
    rows = []
    for j in judged:
        where = f"{j.recording.point.label}, run {j.recording.run}"
        for figure in figures.FIGURES:
            unit, (lo, hi) = figures.UNITS[figure], j.interval[figure]
            measured = Estimate(value=j.measured[figure], lo=lo, hi=hi)
            if j.law is not None:
                rows.append(
                    Row(
                        where=where,
                        figure=figure,
                        unit=unit,
                        basis="law",
                        measured=measured,
                        predicted=Estimate(value=j.law[figure]),
                        error=j.error(j.law, figure),
                        remark=f"own work is {j.law_basis}",
                    )
                )
            p = j.prediction
            rows.append(
                Row(
                    where=where,
                    figure=figure,
                    unit=unit,
                    measured=measured,
                    predicted=Estimate(value=p.mean[figure], lo=p.lo[figure], hi=p.hi[figure]),
                    error=j.error(p.mean, figure),
                    counted=j.counted,
                    remark="; ".join([*j.remarks, *([f"speed factor {j.speed.during:.2f}"] if j.speed else [])]),
                )
            )
    return rows


def missed(group: Group) -> str:
    """A bar that does not hold, with the figures."""
    parts = [f"{f} {group.median[f]:.1%} (bar {group.bars[f]:.0%})" for f in group.missed]
    return f"{group.basis} error, {group.loop} loop: median over {group.of} points {', '.join(parts)}"


def sentence(groups: Sequence[Group], covered: Coverage, judged: Sequence[Judged]) -> str:
    """The record's summary."""
    parts = []
    for group in groups:
        three = " / ".join(f"{100 * group.median[f]:.1f}" for f in figures.LATENCIES)
        parts.append(f"{group.basis} {group.loop} {three} %")
    counted = sum(j.counted for j in judged)
    inside = (
        f"; {covered.inside} of {covered.of} counted latencies in the predicted 95 % interval" if covered.of else ""
    )
    return (
        f"median errors of p50 / p95 / p99: {'; '.join(parts)}; {counted} of {len(judged)} predictions counted{inside}"
    )


def notes(judged: Sequence[Judged]) -> list[str]:
    """What a reader must know: the generator's lateness, and what a law error without a basis is missing."""
    late = [float(np.percentile(j.recording.played.late_s, 99)) for j in judged if j.recording.point.loop == "open"]
    found = []
    if late:
        found.append(
            f"the load generator was late by up to {1000 * max(late):.1f} ms at p99 of a point; its own times were simulated"
        )
    for loop in ("closed", "open"):
        both = [j for j in judged if j.equal_shares is not None and j.recording.point.loop == loop]
        if both:
            three = " / ".join(
                f"{100 * float(np.median([abs(j.error(j.equal_shares or {}, f)) for j in both])):.1f}"
                for f in figures.FIGURES[:4]
            )
            found.append(
                f"with equal shares instead of run queues the law error, {loop}, would be {three} % (p50 / p95 / p99 / throughput)"
            )
    if any(j.law is None for j in judged):
        found.append(
            "law error not identifiable: sessions of several threads share the cores, and only one thread's CPU time is seen"
        )
    return found
