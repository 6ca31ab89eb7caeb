"""Differences between runs, each later one against the first, at the loads that they share.

Enters: results of runs (`of_results`), or the figures of every replication (`of_samples`, from `simcap.replications`). Leaves: a
`Comparison`, `simcap.comparison/1`. Latencies in seconds, rates in requests a second, shares 0 to 1.

Paired (`of_samples`): replication r of both variants has the same random numbers, so what is averaged is the difference
within each replication, with a t interval on R - 1 degrees of freedom. Unpaired (`of_results`): a result holds means and
half widths only, so the interval is Welch's, with degrees of freedom after Welch and Satterthwaite; for runs of one seed
it is wider than need be. Shares are compared by difference; all else by ratio, through the logarithm (for unpaired runs
through its first-order spread, s/m).

Every interval is at 95 % by itself. Capacity is what a comparison is made for, and is judged by its own interval. Of the
many other figures some intervals leave out 0 by chance: one is called `different` only if it stays so when all of them
are counted (Holm 1979), and `unclear` if it does by itself alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.special import stdtr, stdtrit

from profiles.document import Strict
from profiles.errors import InputError
from scenarios.arrivals import LoadKind
from sim.result import Interval, Point, Result
from simcap.replications import FIGURES, Sample, Values
from simcap.report import words

LEVEL = 0.05  # chance of a wrong `different`: of capacity, and of any other figure of two equal variants
SHARES = frozenset({"slo_attainment"})
CAPACITY = "capacity"

Verdict = Literal["different", "unclear", "none found", "same", "unknown"]


class Difference(Strict):
    """One figure of one variant against the first variant's. `load` is None for capacity.

    `first`, `other`: means. `change` with `lo` and `hi`: relative (0.05 is 5 % more), for shares the difference itself.
    None where a figure has no end or no spread is known; `why` says so. `p`: probability of so large a change by chance.
    """

    figure: str
    load: float | None
    first: float | None
    other: float | None
    change: float | None
    lo: float | None
    hi: float | None
    p: float | None
    verdict: Verdict
    why: str | None = None


class Against(Strict):
    """All differences of one variant against the first."""

    name: str
    differences: tuple[Difference, ...]


class Comparison(Strict):
    """The whole answer. `method` says how the intervals were made."""

    schema_version: Literal["simcap.comparison/1"] = Field(alias="schema", default="simcap.comparison/1")
    first: str
    load_kind: LoadKind
    loads: tuple[float, ...]
    method: Literal["paired", "unpaired"]
    others: tuple[Against, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Estimate:
    """A change with its standard error and degrees of freedom."""

    change: float
    error: float
    freedom: float


def of_samples(samples: Sequence[Sample]) -> Comparison:
    """Paired differences. Raises InputError where load kinds or loads do not match."""
    first = samples[0]
    kind, loads = _common([(s.name, s.load_kind, list(s.values)) for s in samples])
    others = []
    for other in samples[1:]:
        found = [_pair(CAPACITY, None, first.capacity, other.capacity)]
        found += [
            _pair(name, load, first.values[load][name], other.values[load][name]) for load in loads for name in FIGURES
        ]
        others.append(Against(name=other.name, differences=_judged(found)))
    return Comparison(first=first.name, load_kind=kind, loads=loads, method="paired", others=tuple(others), notes=())


def _pair(figure: str, load: float | None, first: Values, other: Values) -> Difference:
    """Where one variant has more replications than the other, those that both have."""
    first, other = first[: other.size], other[: first.size]
    means = {"first": _mean(first), "other": _mean(other)}
    if not (np.all(np.isfinite(first)) and np.all(np.isfinite(other))):
        why = "the load points do not bracket it" if figure == CAPACITY else "endless: too many requests failed"
        return _unknown(figure, load, means, why)
    if figure not in SHARES and not (np.all(first > 0) and np.all(other > 0)):
        return _unknown(figure, load, means, "not above 0 in every replication")
    changes = other - first if figure in SHARES else np.log(other / first)
    error = float(changes.std(ddof=1) / math.sqrt(changes.size))
    return _difference(figure, load, means, Estimate(float(changes.mean()), error, changes.size - 1))


def of_results(names: Sequence[str], results: Sequence[Result]) -> Comparison:
    """Unpaired differences. Raises InputError where load kinds or loads do not match."""
    points = [{p.load: p for p in result.points} for result in results]
    kinds = [(name, r.capacity.load_kind, list(p)) for name, r, p in zip(names, results, points, strict=True)]
    kind, loads = _common(kinds)
    others = []
    for name, result, mine in zip(names[1:], results[1:], points[1:], strict=True):
        found = [_brackets(results[0], result)]
        for load in loads:
            pair = points[0][load], mine[load]
            found += [
                _welch(figure, load, *((_interval(p, figure), p.replications) for p in pair)) for figure in FIGURES
            ]
        others.append(Against(name=name, differences=_judged(found)))
    return Comparison(first=names[0], load_kind=kind, loads=loads, method="unpaired", others=tuple(others), notes=())


def _interval(point: Point, figure: str) -> Interval:
    kind, _, statistic = figure.partition("_")
    interval: Interval = point.latency_s[statistic] if kind == "latency" else getattr(point, figure)
    return interval


def _welch(figure: str, load: float, first: tuple[Interval, int], other: tuple[Interval, int]) -> Difference:
    (a, n_a), (b, n_b) = first, other
    means = {"first": a.mean, "other": b.mean}
    error_a, error_b = _error(a, n_a), _error(b, n_b)
    if a.mean is None or b.mean is None:
        return _unknown(figure, load, means, "endless: too many requests failed")
    if error_a is None or error_b is None:
        return _unknown(figure, load, means, "the result holds no interval")
    if figure in SHARES:
        change = b.mean - a.mean
    elif a.mean > 0 and b.mean > 0:
        change, error_a, error_b = math.log(b.mean / a.mean), error_a / a.mean, error_b / b.mean
    else:
        return _unknown(figure, load, means, "not above 0")
    squares = error_a**2, error_b**2
    rest = squares[0] ** 2 / (n_a - 1) + squares[1] ** 2 / (n_b - 1)
    freedom = sum(squares) ** 2 / rest if rest > 0 else float(n_a + n_b - 2)
    return _difference(figure, load, means, Estimate(change, math.sqrt(sum(squares)), freedom))


def _error(interval: Interval, replications: int) -> float | None:
    """The standard error behind an interval; its wider side counts, since a share's is cut at 0 and 1."""
    if interval.mean is None or interval.lo is None or interval.hi is None or (interval.lo, interval.hi) == (0.0, 1.0):
        return None
    half = max(interval.hi - interval.mean, interval.mean - interval.lo)
    return half / float(stdtrit(replications - 1, 1 - LEVEL / 2))


def _brackets(first: Result, other: Result) -> Difference:
    """Capacity of finished runs is known as [lo, hi) only: different where one range lies above the other."""
    a, b = first.capacity, other.capacity
    above = b.lo is not None and a.hi is not None and b.lo >= a.hi
    below = a.lo is not None and b.hi is not None and a.lo >= b.hi
    why = f"known as a range only: {words.bracket(a)} against {words.bracket(b)}"
    found = _unknown(CAPACITY, None, {"first": None, "other": None}, why)
    return found.model_copy(update={"verdict": "different"}) if above or below else found


def _difference(figure: str, load: float | None, means: Mapping[str, float | None], e: Estimate) -> Difference:
    """The change with its interval; the verdict is by this figure alone until `_judged`."""
    if abs(e.change) < 1e-12 and e.error < 1e-12:
        nothing = {"change": 0.0, "lo": 0.0, "hi": 0.0, "p": 1.0}
        return Difference(figure=figure, load=load, **means, **nothing, verdict="same")
    half = float(stdtrit(e.freedom, 1 - LEVEL / 2)) * e.error
    p = 2 * float(stdtr(e.freedom, -abs(e.change) / e.error)) if e.error > 0 else 0.0
    ends = [e.change, e.change - half, e.change + half]
    change, lo, hi = ends if figure in SHARES else [math.expm1(end) for end in ends]
    verdict: Verdict = "unclear" if p < LEVEL else "none found"
    return Difference(figure=figure, load=load, **means, change=change, lo=lo, hi=hi, p=p, verdict=verdict)


def _unknown(figure: str, load: float | None, means: Mapping[str, float | None], why: str) -> Difference:
    return Difference(
        figure=figure, load=load, **means, change=None, lo=None, hi=None, p=None, verdict="unknown", why=why
    )


def _judged(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """`different`: capacity by itself, the others by Holm's step-down rule over all of them that have a p."""
    judged = [
        d.model_copy(update={"verdict": "different"}) if d.figure == CAPACITY and d.verdict == "unclear" else d
        for d in found
    ]
    order = sorted((d.p, k) for k, d in enumerate(found) if d.p is not None and d.figure != CAPACITY)
    for rank, (p, k) in enumerate(order):
        if p >= LEVEL / (len(order) - rank):
            break
        judged[k] = found[k].model_copy(update={"verdict": "different"})
    return tuple(judged)


def _common(runs: Sequence[tuple[str, LoadKind, list[float]]]) -> tuple[LoadKind, tuple[float, ...]]:
    (first, kind, loads), *others = runs
    for name, other_kind, other_loads in others:
        if other_kind != kind:
            raise InputError(f"{first} has loads of kind {kind}, {name} of kind {other_kind}: nothing to compare")
        if not set(loads) & set(other_loads):
            theirs, ours = (", ".join(f"{load:g}" for load in each) for each in (other_loads, loads))
            raise InputError(f"{name} shares no load point with {first}: {theirs} against {ours}")
        loads = [load for load in loads if load in other_loads]
    if not loads:
        raise InputError("no load point is common to all runs")
    return kind, tuple(loads)


def _mean(values: Values) -> float | None:
    return float(values.mean()) if np.all(np.isfinite(values)) else None
