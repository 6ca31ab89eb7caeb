"""The knee of a capacity curve: the load from which waiting takes as long as everything else.

Enters: a `Result`. Leaves: a `Knee` in the unit of its loads, or None with the reason in words (`why_none`). Rule: the load
at which the p99 of latency is `FACTOR` = 2 times its value at the lowest load tried, its logarithm taken as linear in load
between two load points. The interval comes from the 95 % intervals of both p99: it begins where the upper end of p99
reaches twice the lower end at the lowest load, and ends where the lower end reaches twice the upper end. The rule needs no
choice of range or smoothing, unlike a greatest-curvature rule, whose knee moves with the loads that were tried; it does
depend on the lowest load, which should leave the node nearly idle. docs/decisions/0020-the-knee.md compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim.result import Interval, Point, Result

FACTOR = 2.0
IDLE = 0.3  # use of the fullest resource up to which the lowest load counts as nearly idle


@dataclass(frozen=True)
class Knee:
    """`lo` to `hi`: 95 % interval; None on a side that lies outside the loads tried. `p99_s`: the p99 there, 2 * base_s."""

    load: float
    lo: float | None
    hi: float | None
    base_s: float
    busy: float  # use of the fullest resource at the lowest load, 0 to 1

    @property
    def p99_s(self) -> float:
        return FACTOR * self.base_s

    @property
    def idle_base(self) -> bool:
        """Whether the lowest load left the node nearly idle, so that its p99 is that of an unloaded node."""
        return self.busy <= IDLE


def knee_of(result: Result) -> Knee | None:
    """The knee, or None where the loads tried do not contain one."""
    base = result.points[0].latency_s["p99"]
    if not base.mean:
        return None
    at = reaches(result.points, FACTOR * base.mean, "mean")
    if at is None:
        return None
    used = (interval.mean or 0.0 for interval in result.points[0].utilisation.values())
    return Knee(
        load=at,
        lo=reaches(result.points, FACTOR * (base.lo or base.mean), "hi"),
        hi=reaches(result.points, FACTOR * (base.hi or base.mean), "lo"),
        base_s=base.mean,
        busy=max(used, default=0.0),
    )


def why_none(result: Result) -> str:
    """Why there is no knee, as a clause."""
    if not result.points[0].latency_s["p99"].mean:
        return "at the lowest load tried p99 has no end, since requests fail"
    return f"p99 stays below {FACTOR:g} times its value at the lowest load tried"


def reaches(points: tuple[Point, ...], level: float, end: str) -> float | None:
    """The first load at which an end of p99's interval reaches `level`; between two points log-linear in load."""
    last: Point | None = None
    for point in points:
        value = _end(point.latency_s["p99"], end)
        if value >= level:
            if last is None:
                return point.load
            low = _end(last.latency_s["p99"], end)
            if not math.isfinite(value) or not 0 < low < level:
                return point.load
            share = math.log(level / low) / math.log(value / low)
            return last.load + (point.load - last.load) * share
        last = point
    return None


def _end(interval: Interval, end: str) -> float:
    """An end of the interval; a percentile without end is infinite, and where no interval is known the mean stands for it."""
    if interval.mean is None:
        return math.inf
    value: float | None = getattr(interval, end)
    return interval.mean if value is None else value
