"""A rate over time, and the exact inverse of its integral: what turns unit Poisson arrivals into a changing rate.

If S_1 < S_2 < … are arrivals of a Poisson process of rate 1 and M(t) is the integral of a rate, then M⁻¹(S_i) are
arrivals of the Poisson process with that rate (Çinlar 1975, time change). No thinning: each request costs one draw, so
load points share their random numbers. Times in seconds; rates are relative until they are scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.errors import InputError
from scenarios.arrivals import Mmpp, Spike, TimeVarying

Floats = NDArray[np.float64]

CHUNK = 512  # stays drawn at once; fixed, so that a longer run begins with the stays of a shorter one
MOST_STAYS = 20_000_000


@dataclass(frozen=True)
class RateCurve:
    """Rate in m segments, linear within each. edges: (m+1,) s from 0. left, right: (m,) rates at a segment's ends.

    after: the constant rate beyond the last edge; None means that the whole repeats for ever.
    """

    edges: Floats
    left: Floats
    right: Floats
    after: float | None = None

    def amounts(self) -> Floats:
        """(m+1,) integral of the rate up to each edge."""
        return np.concatenate([[0.0], np.cumsum(np.diff(self.edges) * (self.left + self.right) / 2)])

    def times(self, amounts: Floats) -> Floats:
        """The times at which the integral reaches `amounts` (above 0, not decreasing)."""
        at_edge = self.amounts()
        whole = at_edge[-1]
        if self.after is None:
            cycle = np.floor(amounts / whole)
            times = cycle * self.edges[-1] + self._within(np.clip(amounts - cycle * whole, 0.0, whole), at_edge)
        else:
            times = self._within(np.minimum(amounts, whole), at_edge)
            late = amounts > whole
            times[late] = self.edges[-1] + (amounts[late] - whole) / self.after
        return np.asarray(np.maximum.accumulate(times))  # guards the last rounding bit at edges only

    def _within(self, amounts: Floats, at_edge: Floats) -> Floats:
        """Invert inside the segments: a t + s t²/2 = y has t = 2y / (a + sqrt(a² + 2 s y)), stable for every slope s."""
        k = np.clip(np.searchsorted(at_edge, amounts, side="left") - 1, 0, self.left.size - 1)
        y, a = amounts - at_edge[k], self.left[k]
        length = self.edges[k + 1] - self.edges[k]
        slope = (self.right[k] - a) / length
        below = a + np.sqrt(np.maximum(a * a + 2 * slope * y, 0.0))
        inside = np.divide(2 * y, below, out=np.zeros_like(y), where=below > 0)
        return np.asarray(self.edges[k] + np.clip(inside, 0.0, length))


def curve_of(process: TimeVarying | Spike, rps: float) -> RateCurve:
    """The rate in requests a second at mean rate `rps`."""
    if isinstance(process, TimeVarying):
        return scaled(profile_curve(process), rps)
    edges = np.array([0.0, process.at_s, process.at_s + process.duration_s])
    rates = np.array([1.0, process.factor])
    if process.every_s is not None:
        edges, rates = np.append(edges, process.every_s), np.append(rates, 1.0)
    long = np.diff(edges) > 0
    edges = np.append(edges[:-1][long], edges[-1])
    curve = RateCurve(edges, rates[long], rates[long], after=None if process.every_s is not None else 1.0)
    if process.every_s is not None:
        return scaled(curve, rps)
    return RateCurve(edges, rps * curve.left, rps * curve.right, after=rps)


def profile_curve(process: TimeVarying) -> RateCurve:
    """The relative rate of `points`; jumps (two points at one time) have no length and fall away."""
    times, rates = (np.array(column, dtype=float) for column in zip(*process.points, strict=True))
    long = np.diff(times) > 0
    return RateCurve(np.append(times[:-1][long], times[-1]), rates[:-1][long], rates[1:][long])


def scaled(curve: RateCurve, mean: float) -> RateCurve:
    """The periodic curve at that mean rate over its period."""
    factor = mean * curve.edges[-1] / curve.amounts()[-1]
    return RateCurve(curve.edges, factor * curve.left, factor * curve.right)


def modulated_curve(process: Mmpp, rps: float, amount: float, rng: np.random.Generator) -> RateCurve:
    """A drawn path of the states at mean rate `rps`, long enough to bring `amount` requests.

    The path is in real time and does not depend on `rps`: every load point sees the same states at the same times.
    """
    shares = process.shares()
    rates = np.array([state.rate for state in process.states])
    rates = rates * (rps / float(shares @ rates))
    holding = np.array([state.holding_s for state in process.states])
    following = np.cumsum(process.chain(), axis=1)
    state = int(np.searchsorted(np.cumsum(shares), rng.random(), side="right"))
    stays, at_rates, brought, drawn = [], [], 0.0, 0
    while brought <= amount:
        if drawn > MOST_STAYS:
            raise InputError(
                f"arrivals.states: more than {MOST_STAYS} changes of state in one replication; holding_s of "
                f"{holding.min():g} s is too short beside {rps:g} requests a second"
            )
        path = _visit(state, rng.random(CHUNK), following)
        state = path[-1]
        visited = np.array(path[:-1])
        stay = rng.exponential(size=CHUNK) * holding[visited]
        stays.append(stay)
        at_rates.append(rates[visited])
        brought += float(stay @ rates[visited])
        drawn += CHUNK
    rate = np.concatenate(at_rates)
    return RateCurve(np.concatenate([[0.0], np.cumsum(np.concatenate(stays))]), rate, rate)


def _visit(state: int, uniforms: Floats, following: Floats) -> list[int]:
    """The states visited from `state` on, one more than there are uniforms."""
    rows, last = following.tolist(), following.shape[0] - 1
    path = [state]
    for u in uniforms.tolist():
        row = rows[path[-1]]
        path.append(next((k for k, up_to in enumerate(row) if u < up_to), last))
    return path
