"""Differences between runs, each later one against the first, at the loads that they share.

Enters: results of runs (`of_results`), or the figures of every replication (`of_samples`, from `simcap.replications`). Leaves: a
`Comparison`, `simcap.comparison/1`. Latencies in seconds, rates in requests a second, shares 0 to 1.

Paired (`of_samples`): replication r of both variants has the same random numbers, so what is averaged is the difference
within each replication, with a t interval on R - 1 degrees of freedom. Unpaired (`of_results`): a result holds means and
half widths only, so the interval is Welch's, with degrees of freedom after Welch and Satterthwaite; for runs of one seed
it is wider than need be. Shares are compared by difference; all else by ratio, through the logarithm (for unpaired runs
through its first-order spread, s/m).

Capacity is what a comparison is made for. With K later variants each interval of its change is at 1 - 0.05 / K, so that all
hold together in 95 of 100 comparisons (Bonferroni: whatever the variants have in common, and they share the first), and a
variant is `different` where its interval leaves out 0. Intervals of the many other figures are at 95 % each, and some leave
out 0 by chance: one is called `different` only if it stays so when those of all variants are counted (Holm 1979), and
`unclear` if it does by itself alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from profiles.errors import InputError
from scenarios.arrivals import LoadKind
from sim.intervals import interval
from sim.result import Interval, Point, Result
from simcap.comparison import CAPACITY, SHARES, Against, Comparison, Difference, Verdict, variant_of
from simcap.replications import FIGURES, Answer, Sample, Values
from simcap.report import words

LEVEL = 0.05  # chance of a wrong `different`: of capacity, and of any other figure of two equal variants


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
    level = _simultaneous(len(samples) - 1)
    found = []
    for other in samples[1:]:
        of_one = [_pair(CAPACITY, None, first.capacity, other.capacity, level)]
        of_one += [
            _pair(name, load, first.values[load][name], other.values[load][name]) for load in loads for name in FIGURES
        ]
        found.append((other.name, of_one))
    return _comparison(first.name, kind, loads, found, paired=True)


def of_answers(answers: Sequence[Answer], settings: Sequence[Mapping[str, str]], seed: int) -> Comparison:
    """Paired differences, and the variants themselves."""
    variants = [
        variant_of(answer.sample.name, answer.result, interval(answer.sample.capacity), dict(chosen))
        for answer, chosen in zip(answers, settings, strict=True)
    ]
    found = of_samples([answer.sample for answer in answers])
    return found.model_copy(update={"variants": tuple(variants), "seed": seed})


def _simultaneous(others: int) -> float:
    """The error of each interval, where all `others` of them are to hold together."""
    return LEVEL / max(others, 1)


def _comparison(
    first: str, kind: LoadKind, loads: tuple[float, ...], found: Sequence[tuple[str, list[Difference]]], *, paired: bool
) -> Comparison:
    judged = _judged([difference for _, of_one in found for difference in of_one])
    others, place = [], 0
    for name, of_one in found:
        others.append(Against(name=name, differences=judged[place : place + len(of_one)]))
        place += len(of_one)
    return Comparison(
        first=first,
        load_kind=kind,
        loads=loads,
        method="paired" if paired else "unpaired",
        capacity_level=1 - _simultaneous(len(others)),
        others=tuple(others),
        notes=(),
    )


def _pair(figure: str, load: float | None, first: Values, other: Values, level: float = LEVEL) -> Difference:
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
    return _difference(figure, load, means, Estimate(float(changes.mean()), error, changes.size - 1), level)


def of_results(names: Sequence[str], results: Sequence[Result]) -> Comparison:
    """Unpaired differences. Raises InputError where load kinds or loads do not match."""
    points = [{p.load: p for p in result.points} for result in results]
    kinds = [(name, r.capacity.load_kind, list(p)) for name, r, p in zip(names, results, points, strict=True)]
    kind, loads = _common(kinds)
    found = []
    for name, result, mine in zip(names[1:], results[1:], points[1:], strict=True):
        of_one = [_brackets(results[0], result)]
        for load in loads:
            pair = points[0][load], mine[load]
            of_one += [
                _welch(figure, load, *((_interval(p, figure), p.replications) for p in pair)) for figure in FIGURES
            ]
        found.append((name, of_one))
    none = Interval(mean=None, lo=None, hi=None)
    variants = [variant_of(name, result, none) for name, result in zip(names, results, strict=True)]
    return _comparison(names[0], kind, loads, found, paired=False).model_copy(update={"variants": tuple(variants)})


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


def _difference(
    figure: str, load: float | None, means: Mapping[str, float | None], e: Estimate, level: float = LEVEL
) -> Difference:
    """The change with its interval; the verdict is by this figure alone until `_judged`."""
    if abs(e.change) < 1e-12 and e.error < 1e-12:
        nothing = {"change": 0.0, "lo": 0.0, "hi": 0.0, "p": 1.0}
        return Difference(figure=figure, load=load, **means, **nothing, verdict="same")
    half = float(stdtrit(e.freedom, 1 - level / 2)) * e.error
    p = 2 * float(stdtr(e.freedom, -abs(e.change) / e.error)) if e.error > 0 else 0.0
    ends = [e.change, e.change - half, e.change + half]
    change, lo, hi = ends if figure in SHARES else [math.expm1(end) for end in ends]
    verdict: Verdict = "unclear" if p < level else "none found"
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
