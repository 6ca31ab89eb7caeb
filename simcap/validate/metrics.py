"""`simcap validate metrics`: the latencies that a running router recorded, against the prediction at its own load.

Enters: what was observed between two dumps, seconds between them, scenario, profile. Leaves: a `Validation`. A histogram
bounds a quantile and does not give it: with N requests the q quantile lies, with probability 1 - a, between the order
statistics of ranks Binomial(N, q) at a/2 and 1 - a/2 (exact for independent requests), hence between the lower edge of
the first one's bucket and the upper edge of the other's. M observations beyond one a request (rules that matched) can
stand anywhere: they move the upper rank by M. a = 0.05 over all quantiles compared (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from scipy.special import bdtrik

from profiles.document import nearest
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import loader
from scenarios.schema import Scenario
from sim import replicate
from sim.result import Interval, Point
from sim.streams import Streams
from sim.work import draw_work
from simcap.validate.exposition import Observed
from simcap.validate.record import Estimate, Row, Validation, now, reference, this_machine

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
ALPHA = 0.05
TYPE_OF = {"intent": "domain"}  # scenario signal -> the router's signal type, where it is not the same word
DRAWN = 5000  # requests drawn to see which share of them runs each signal
UNEVEN = 0.1  # signals that disagree by more about how many requests there were are named

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Verdict:
    """A quantile. `range_s`: what the buckets bound, endless above where the highest bucket holds it."""

    signal: str
    figure: str
    range_s: tuple[float, float]
    predicted: Interval

    @property
    def word(self) -> str:
        """Where the prediction lies: `inside`, `below` or `above` the measured range."""
        low, high = (end if end is not None else self.predicted.mean for end in (self.predicted.lo, self.predicted.hi))
        if low is None or high is None:  # endless: requests fail in the simulation
            return "above" if math.isfinite(self.range_s[1]) else "inside"
        if high < self.range_s[0]:
            return "below"
        return "above" if low > self.range_s[1] else "inside"


@dataclass(frozen=True)
class Compared:
    """All of it. `rate_rps`: what was offered. `counted`: signals of which every request was recorded."""

    rate_rps: float
    point: Point
    verdicts: tuple[Verdict, ...]
    observed: Mapping[str, Observed]  # by scenario signal
    counted: frozenset[str]
    notes: tuple[str, ...]

    @property
    def missed(self) -> list[Verdict]:
        return [one for one in self.verdicts if one.signal in self.counted and one.word != "inside"]


def match(scenario: Scenario, found: Mapping[str, Observed], named: Mapping[str, str]) -> dict[str, Observed]:
    """What was observed of each signal of the scenario. `named`: scenario signal -> signal type, where the user says."""
    for name in named:
        if name not in scenario.signals:
            raise InputError(f"--signal {name}={named[name]}: no such signal; {nearest(name, scenario.signals)}")
    matched = {}
    for name in scenario.signals:
        kind = named.get(name) or TYPE_OF.get(name) or name.replace("-", "_")
        if kind not in found:
            raise InputError(
                f"signal {name}: the dumps have no new observation of signal type {kind!r}; "
                f"{nearest(kind, found)}. Say which one it is with --signal {name}=TYPE"
            )
        matched[name] = found[kind]
    return matched


def compare(
    scenario: str,
    overrides: Sequence[str],
    profile: Profile,
    observed: Mapping[str, Observed],
    seconds: float,
    *,
    seed: int,
    rps: float | None = None,
    progress: Progress | None = None,
) -> Compared:
    """Run the scenario at the rate that the router had, and look where its quantiles lie."""
    wanted = loader.load(scenario, overrides)
    if wanted.load.kind != "rps":
        raise InputError(
            f"scenario {wanted.name}: its load is {wanted.load.kind}; a router's rate is requests a second: "
            "take a scenario with load.rps"
        )
    share = _shares(wanted, profile, seed)
    exact = {name: one.requests for name, one in observed.items() if one.requests is not None and share[name] > 0}
    rate = _rate(exact, share, seconds) if rps is None else rps
    at = loader.load(scenario, [*overrides, f"load.rps=[{rate!r}]"])
    point = replicate.run(at, profile, seed, progress=progress)[0].points[0]
    alpha = ALPHA / (len(QUANTILES) * len(observed))
    verdicts = tuple(
        Verdict(name, figure, quantile_range(one, q, alpha), point.signals[name].latency_s[figure])
        for name, one in observed.items()
        for figure, q in QUANTILES.items()
        if name in point.signals
    )
    notes = tuple(_notes(observed, exact, share, rate, seconds, point))
    return Compared(rate, point, verdicts, observed, frozenset(exact), notes)


def _shares(scenario: Scenario, profile: Profile, seed: int) -> dict[str, float]:
    """Share of requests that runs each signal."""
    needed = draw_work(scenario, profile, Streams(seed, 0), DRAWN).needed
    return dict(zip(scenario.signals, needed.mean(axis=0).tolist(), strict=True))


def _rate(exact: Mapping[str, int], share: Mapping[str, float], seconds: float) -> float:
    if not exact:
        raise InputError(
            "none of these signals is recorded once a request, so the rate is not in the dumps: say it with --rps"
        )
    return sum(exact.values()) / sum(share[name] for name in exact) / seconds


def quantile_range(observed: Observed, q: float, alpha: float) -> tuple[float, float]:
    """Bounds of the q quantile over requests, in seconds, at level 1 - alpha; see the module."""
    extra = observed.extra or 0
    n = observed.observations - extra
    low, high = _rank(alpha / 2, n, q), _rank(1 - alpha / 2, n, q) + 1
    edges, cumulative = (0.0, *observed.edges_s), list(accumulate(observed.counts))
    bottom = edges[_bucket(cumulative, low)] if low >= 1 else 0.0
    top = edges[_bucket(cumulative, high + extra) + 1] if high <= n else math.inf
    return bottom, top


def _rank(probability: float, n: int, q: float) -> int:
    """The smallest k with P(Binomial(n, q) <= k) >= probability."""
    return max(int(np.ceil(bdtrik(probability, n, q) - 1e-9)), 0)


def _bucket(cumulative: Sequence[int], rank: int) -> int:
    """Position of the bucket that holds the observation of this rank, counted from 1."""
    return next(k for k, count in enumerate(cumulative) if count >= rank)


def _notes(
    observed: Mapping[str, Observed],
    exact: Mapping[str, int],
    share: Mapping[str, float],
    rate: float,
    seconds: float,
    point: Point,
) -> Iterator[str]:
    yield f"Offered: {rate:.4g} requests/s; dumps {seconds:g} s apart."
    yield (
        f"Ranges are where the quantile lies with {1 - ALPHA:.0%} over all of them, were requests independent; "
        "in a busy queue they are not, and the truth can lie a little outside."
    )
    for name in observed:
        if name not in exact:
            yield f"{name}: the router records it for matches only; shown, not judged."
    rates = {name: count / share[name] / seconds for name, count in exact.items()}
    if rates and max(rates.values()) > (1 + UNEVEN) * min(rates.values()):
        told = ", ".join(f"{name} {value:.4g}" for name, value in rates.items())
        yield f"Signals disagree about the rate (requests/s: {told}): does the scenario run each for the right share?"
    if point.saturated:
        yield "The scenario cannot take this load: its queue grows without end, and its latencies only say how long it ran."


def validation(
    compared: Compared, scenario: str, profile: Profile, path: Path, command: str, unused: Sequence[str] = ()
) -> Validation:
    """The record. `unused`: signal types of the dumps that the scenario does not hold."""
    rows = [row for name in compared.observed for row in _rows(compared, name)]
    left = (f"Not in the scenario: {', '.join(unused)}.",) if unused else ()
    return Validation(
        schema="simcap.validation/1",
        kind="metrics",
        profile=reference(profile.name, path),
        scenario=scenario,
        date=now(),
        machine=this_machine(),
        command=command,
        verdict="attention" if compared.missed else "pass",
        summary=summary(compared),
        rows=tuple(rows),
        notes=(*compared.notes, *left),
    )


def _rows(compared: Compared, name: str) -> Iterator[Row]:
    one = compared.observed[name]
    requests = one.requests if one.requests is not None else one.observations
    where = f"{name} ({one.signal_type}), {requests} requests at {compared.rate_rps:.4g} requests/s"
    for verdict in compared.verdicts:
        if verdict.signal == name:
            low, high = verdict.range_s
            yield Row(
                where=where,
                figure=verdict.figure,
                measured=Estimate(lo=low, hi=high if math.isfinite(high) else None),
                predicted=_estimate(verdict.predicted),
                counted=name in compared.counted,
                remark=verdict.word,
            )
    predicted = compared.point.signals[name].latency_s["mean"] if name in compared.point.signals else None
    measured = one.sum_s / one.observations
    if predicted is not None and predicted.mean is not None and measured > 0:
        yield Row(
            where=where,
            figure="mean",
            measured=Estimate(value=measured),
            predicted=_estimate(predicted),
            error=predicted.mean / measured - 1,
            counted=False,
            remark="exact mean of what was recorded; no bar",
        )


def _estimate(interval: Interval) -> Estimate | None:
    return None if interval.mean is None else Estimate(value=interval.mean, lo=interval.lo, hi=interval.hi)


def summary(compared: Compared) -> str:
    """The one sentence."""
    judged = [one for one in compared.verdicts if one.signal in compared.counted]
    if not compared.missed:
        return (
            f"All {len(judged)} predicted quantiles lie inside what the router's histograms allow, "
            f"at {compared.rate_rps:.4g} requests/s."
        )
    told = "; ".join(f"{one.signal} {one.figure} is {one.word}" for one in compared.missed)
    return f"{len(compared.missed)} of {len(judged)} predicted quantiles lie outside what the histograms allow: {told}."
