"""Rows for the figures of a report, one function a figure.

Enters: a `Result`. Leaves: lists of flat rows, every value taken from the result or multiplied into the unit named in its
key (`_ms`, `_pct`). Charts draw these rows, readers download them as CSV, and tests compare them with `result.json`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from sim.result import TIME_PARTS, Interval, Point, Result
from simcap.report import words

Rows = list[dict[str, Any]]

PERCENTILES = ("p50", "p90", "p95", "p99")
MOST_RESOURCES = 8  # lines that an eye can still tell apart


def scaled(prefix: str, interval: Interval, scale: float) -> dict[str, float | None]:
    """An interval as three columns, each multiplied by `scale`."""
    ends = {prefix: interval.mean, f"{prefix}_lo": interval.lo, f"{prefix}_hi": interval.hi}
    return {key: None if value is None else value * scale for key, value in ends.items()}


def latency(result: Result) -> Rows:
    """load, percentile, latency_ms with _lo and _hi."""
    return [
        {"load": point.load, "percentile": name, **scaled("latency_ms", point.latency_s[name], 1000)}
        for point in result.points
        for name in PERCENTILES
        if point.latency_s[name].mean is not None
    ]


def summary(result: Result, *, log: bool) -> Rows:
    """One row a load point, worded for a tooltip; strip_from and strip_to are the middles to its neighbours."""
    loads = [point.load for point in result.points]
    middles = [math.sqrt(a * b) if log else (a + b) / 2 for a, b in pairwise(loads)]
    rows = []
    for point, start, end in zip(result.points, [loads[0], *middles], [*middles, loads[-1]], strict=True):
        said = {name: words.milliseconds(point.latency_s[name]) for name in PERCENTILES}
        rows.append(
            {"load": point.load, "strip_from": start, "strip_to": end, **said}
            | {
                "within_slo": words.percent_interval(point.slo_attainment) + " %",
                "bottleneck": words.resource(point.bottleneck),
                "verdict": point.verdict + (", queue grows without end" if point.saturated else ""),
            }
        )
    return rows


def attainment(result: Result) -> Rows:
    """load, within_slo_pct with _lo and _hi, verdict."""
    return [
        {"load": p.load, **scaled("within_slo_pct", p.slo_attainment, 100), "verdict": p.verdict}
        for p in result.points
        if p.slo_attainment.mean is not None
    ]


def utilisation(result: Result) -> Rows:
    """load, resource (words), utilisation_pct with _lo and _hi; the busiest resources at their peak only."""
    return [
        {"load": p.load, "resource": words.resource(key), **scaled("utilisation_pct", p.utilisation[key], 100)}
        for p in result.points
        for key in busiest(result)
        if key in p.utilisation and p.utilisation[key].mean is not None
    ]


def busiest(result: Result) -> list[str]:
    """Keys of the resources that come closest to full at any load, busiest first, at most `MOST_RESOURCES`."""
    peak: dict[str, float] = {}
    for point in result.points:
        for key, interval in point.utilisation.items():
            peak[key] = max(peak.get(key, 0.0), interval.mean or 0.0)
    return sorted(peak, key=lambda key: (-peak[key], key))[:MOST_RESOURCES]


def parts(result: Result) -> Rows:
    """load, part (words), order, mean_ms with _lo and _hi, share_pct of the mean latency; parts that are always 0 left out."""
    seen = [name for name in TIME_PARTS if any((_part(p, name).mean or 0.0) > 0 for p in result.points)]
    rows = []
    for point in result.points:
        total = sum(_part(point, name).mean or 0.0 for name in TIME_PARTS)
        for order, name in enumerate(seen):
            mean = _part(point, name).mean
            if mean is None:
                continue
            share = 100 * mean / total if total else None
            figures = scaled("mean_ms", _part(point, name), 1000)
            rows.append({"load": point.load, "part": words.PARTS[name], "order": order, **figures, "share_pct": share})
    return rows


def _part(point: Point, name: str) -> Interval:
    return point.mean_parts_s.get(name, Interval(mean=None, lo=None, hi=None))


def throughput(result: Result) -> Rows:
    """load, offered_rps, kind (answered / answered within the SLO), rate_rps with _lo and _hi."""
    return [
        {"load": p.load, "offered_rps": p.offered_rps.mean, "kind": kind, **scaled("rate_rps", interval, 1)}
        for p in result.points
        for kind, interval in (("answered", p.throughput_rps), ("answered within the SLO", p.goodput_rps))
        if p.offered_rps.mean is not None and interval.mean is not None
    ]


def between(result: Result) -> list[float]:
    """Loads from the lowest to the highest, close enough that a line through them is smooth on a logarithmic axis too."""
    lo, hi = result.points[0].load, result.points[-1].load
    return [lo * (hi / lo) ** (step / 60) for step in range(60)] + [hi]


def histogram(result: Result) -> Rows:
    """load, from_ms, to_ms, requests, share_pct of the load point's requests; from the first to the last filled bin."""
    rows = []
    for point in result.points:
        total = sum(point.histogram)
        filled = [i for i, count in enumerate(point.histogram) if count]
        for i in range(filled[0], filled[-1] + 1) if filled else ():
            lo, hi = point.histogram_edges_s[i], point.histogram_edges_s[i + 1]
            count = point.histogram[i]
            rows.append(
                {
                    "load": point.load,
                    "from_ms": lo * 1000,
                    "to_ms": hi * 1000,
                    "requests": count,
                    "share_pct": 100 * count / total,
                }
            )
    return rows


def shown_load(result: Result) -> float:
    """The load whose distribution is shown first: capacity's lower end, or the lowest load tried."""
    return result.capacity.lo if result.capacity.lo is not None else result.points[0].load
