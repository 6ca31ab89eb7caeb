"""`simcap validate published`: what was published, through the simulator, cell by cell.

Enters: rows of published figures and a profile. Leaves: a `Validation`. Three classifiers are the router's: C requests at
one instant, intent and jailbreak on one lock, pii on another (docs/explanation/published-fit.md says why a burst). One
model is one session and C clients that ask again at once, without the router. Error = simulated / published - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import loader
from scenarios.schema import Scenario
from sim import replicate
from sim.result import Interval, Point
from simcap.validate import contradictions
from simcap.validate.published_rows import HEADS, PublishedRow, known
from simcap.validate.record import Estimate, Row, Validation, now, reference, this_machine

BURST = "published_fa_concurrency"
LIMIT = 0.08
"""The bar of an experiment of whole requests: mean absolute error over its cells at one concurrency."""

REMARKS = {
    "check": "unseen",
    "given": "given",
    "solved": "solved",
    "fitted": "fitted",
    "outlier": "outlier",
    "copied": "copied",
    "other source": "other source",
    "nominal length": "nominal",
}
LEGEND = (
    "unseen: used by no fit. solved, fitted: the profile was made from it. outlier: in no mean. session: unseen, of one session "
    "without the router; no bar is set for it. other source: of a figure that the profile copies from elsewhere. nominal: "
    "printed with a length that is not the real one; in no mean."
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Cell:
    """A published figure and the simulated one."""

    row: PublishedRow
    simulated: Interval

    @property
    def error(self) -> float:
        if self.simulated.mean is None:  # endless: requests failed
            return float("inf")
        return self.simulated.mean / self.row.value - 1

    @property
    def counted(self) -> bool:
        """A latency of whole requests that no fit has seen: the mechanism is on trial, and nothing else."""
        return self.row.role in {"check", "given"} and self.row.models == 3

    @property
    def remark(self) -> str:
        if self.row.role == "check" and self.row.models == 1:
            return "session"
        return REMARKS[self.row.role]


@dataclass(frozen=True)
class Group:
    """An experiment at one concurrency: mean absolute error over `cells` cells, fitted ones included or not."""

    experiment: str
    concurrency: int
    cells: int
    error: float
    fitted_too: bool

    @property
    def sentence(self) -> str:
        which = "fitted ones included" if self.fitted_too else "none of them fitted"
        return (
            f"{self.experiment}, concurrency {self.concurrency}: mean absolute error {self.error:.1%} over "
            f"{self.cells} cells, {which}"
        )


def compare(
    rows: Sequence[PublishedRow], profile: Profile, seed: int, progress: Progress | None = None
) -> tuple[list[Cell], list[PublishedRow]]:
    """Simulate every row that the profile can run, figures that it merely copies left out; also returns those it cannot."""
    can = [row for row in rows if row.role != "copied" and known(profile, row)]
    cannot = [row for row in rows if not known(profile, row)]
    found: list[Cell] = []
    setups = [list(group) for _, group in groupby(sorted(can, key=_setup), key=_setup)]
    for done, group in enumerate(setups):
        if progress:
            progress(done, len(setups))
        points = _points(group, profile, seed)
        found += [Cell(row, _figure(points[row.concurrency], row.figure)) for row in group]
    return found, cannot


def _setup(row: PublishedRow) -> tuple[str, int, str, str, str, int]:
    return (row.experiment, row.models, row.provider, row.artifact, row.model, row.tokens)


def _points(group: Sequence[PublishedRow], profile: Profile, seed: int) -> dict[int, Point]:
    concurrencies = sorted({row.concurrency for row in group})
    made = (_burst if group[0].models == 3 else _session)(group[0], concurrencies)
    try:
        points = replicate.run(made, profile, seed)[0].points
    except InputError as error:
        raise InputError(f"{group[0].where}: cannot be simulated: {error}") from None
    return {int(point.load): point for point in points}


def _burst(row: PublishedRow, concurrencies: list[int]) -> Scenario:
    """The shipped scenario of the published experiment, with this file, provider, length and bursts."""
    each = [f"signals.{head}.{key}={value}" for head in HEADS[:3] for key, value in _file(row).items()]
    sizes = [f"classes.prompt.tokens.tokens={row.tokens}", f"load.burst_size={concurrencies}"]
    return loader.load(BURST, [*each, *sizes, f"node.cpu_workers={max(16, *concurrencies)}"])


def _file(row: PublishedRow) -> dict[str, str]:
    return {"artifact": row.artifact, "provider": row.provider}


def _session(row: PublishedRow, clients: list[int]) -> Scenario:
    """One session and nothing else."""
    return Scenario.model_validate(
        {
            "schema": "simcap.scenario/1",
            "name": "published-session",
            "question": "What does one session serve?",
            "node": {"cpu_workers": max(clients)},
            "router": {"cpu": {"base_s": 0}},
            "signals": {"one": {"model": row.model, **_file(row)}},
            "stages": [["one"]],
            "classes": {"prompt": {"weight": 1, "tokens": {"law": "fixed", "tokens": row.tokens}}},
            "arrivals": {"process": "closed", "think_time_s": 0},
            "load": {"clients": clients},
            "slo": {"latency_ms": 1000},
            "measurement": {"requests": 2000},
        }
    )


def _figure(point: Point, figure: str) -> Interval:
    return point.throughput_rps if figure == "throughput" else point.latency_s[figure]


def groups(cells: Sequence[Cell]) -> Iterator[Group]:
    """Means by experiment and concurrency, of whole requests: of what was not fitted, and with what was fitted."""
    whole = [cell for cell in cells if cell.row.models == 3 and cell.row.role not in {"outlier", "nominal length"}]
    keys = sorted({(cell.row.experiment, cell.row.concurrency) for cell in whole})
    for experiment, concurrency in keys:
        mine = [c for c in whole if (c.row.experiment, c.row.concurrency) == (experiment, concurrency)]
        unseen = [cell for cell in mine if cell.counted]
        if unseen:
            yield Group(experiment, concurrency, len(unseen), _mean(unseen), fitted_too=False)
        seen = [cell for cell in mine if cell.row.role in {"fitted", "check"}]
        if any(cell.row.role == "fitted" for cell in seen) and unseen:
            yield Group(experiment, concurrency, len(seen), _mean(seen), fitted_too=True)


def _mean(cells: Sequence[Cell]) -> float:
    return float(np.mean([abs(cell.error) for cell in cells]))


def validation(
    cells: Sequence[Cell], cannot: Sequence[PublishedRow], profile: Profile, path: Path, command: str
) -> Validation:
    """The record. It needs attention when an experiment of whole requests misses the bar at some concurrency."""
    means = list(groups(cells))
    missed = [group for group in means if group.error > LIMIT]
    return Validation(
        schema="simcap.validation/1",
        kind="published",
        profile=reference(profile.name, path),
        date=now(),
        machine=this_machine(),
        command=command,
        verdict="attention" if missed or not means else "pass",
        summary=_summary(cells, means, missed),
        rows=tuple(_record_row(cell) for cell in cells),
        notes=tuple(_notes(cells, cannot, means, profile)),
    )


def _summary(cells: Sequence[Cell], means: Sequence[Group], missed: Sequence[Group]) -> str:
    if not means:
        return "Nothing published for this profile is left that no fit has seen: its error is not known."
    if missed:
        return f"Above the bar of {LIMIT:.0%}: {'; '.join(group.sentence for group in missed)}."
    unseen = [group for group in means if not group.fitted_too]
    told = ", ".join(f"{g.error:.1%} at concurrency {g.concurrency} ({g.cells} cells)" for g in unseen)
    worst = max((cell for cell in cells if cell.counted), key=lambda cell: abs(cell.error))
    return (
        f"Mean absolute error over published latencies that no fit has seen: {told}; the worst is {worst.error:+.1%} "
        f"({worst.row.where}, {worst.row.figure})."
    )


def _record_row(cell: Cell) -> Row:
    finite = cell.simulated.mean is not None
    return Row(
        where=f"{cell.row.experiment}: {cell.row.where}",
        figure=cell.row.figure,
        unit="requests/s" if cell.row.figure == "throughput" else "s",
        measured=Estimate(value=cell.row.value),
        predicted=Estimate(value=cell.simulated.mean, lo=cell.simulated.lo, hi=cell.simulated.hi) if finite else None,
        error=cell.error if finite else None,
        counted=cell.counted,
        remark=cell.remark if finite else f"{cell.remark}; simulated requests fail",
    )


def _notes(
    cells: Sequence[Cell], cannot: Sequence[PublishedRow], means: Sequence[Group], profile: Profile
) -> Iterator[str]:
    yield LEGEND
    for group in means:
        yield f"{group.sentence}."
    for cell in cells:
        if cell.row.role == "outlier":
            yield f"Outlier: {cell.row.where}, {cell.row.figure}: {cell.error:+.0%} ({cell.row.doubt})."
    for where in dict.fromkeys(row.where for row in cannot):
        yield f"Not compared, the profile does not hold it: {where}."
    for one in contradictions.of(profile.name):
        yield f"Sources contradict one another: {one.sentence()}"
