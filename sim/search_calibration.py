"""What calibration adds to the interval of a capacity: the same root, looked for on the stated and on a plausible profile.

Enters: a probe for each, a capacity that was found. Leaves: the interval that covers both. In each of R replications the load
at which the latency at the SLO's level reaches the SLO is found twice with the same random numbers, c_r and c'_r, by regula
falsi on the logarithm of that latency (Illinois variant, Dowell & Jarratt 1971). Their ln(c'_r / c_r) hold hardly any noise
of the simulation; `sim.uncertainty` makes the half width of them and joins it with that of the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.calibration import Calibration
from sim.result import Interval
from sim.search_levels import Probe, Settings
from sim.uncertainty import apart_of, joined

REPLICATIONS = 6  # three on a slower machine, three on a faster one
CLOSE = 0.003  # of the load, at which a root is known well enough
STEPS = 12
WARM_UP = 0.1  # share of a run that is cut where runs have a warm-up


@dataclass(frozen=True)
class Wider:
    """The interval with calibration in it, and the requests that this took."""

    capacity: Interval
    spent: int


@dataclass(frozen=True)
class Pair:
    """The roots of one replication, on the stated and on a plausible profile, and the requests that they took."""

    at: float
    there: float
    spent: int


def pair_of(
    stated: Probe, plausible: Probe, near: float, replication: int, settings: Settings, slo_s: float
) -> Pair | None:
    """None where one of the two nodes has no root near."""
    root = _Root(stated, replication, settings, slo_s)
    other = _Root(plausible, replication, settings, slo_s)
    at = root.find(near)
    there = other.find(at) if at is not None else None
    return None if at is None or there is None else Pair(at, there, root.spent + other.spent)


def widened(
    roots: Callable[[float, Sequence[int]], list[Pair | None]],
    found: Interval,
    settings: Settings,
    calibration: Calibration,
) -> Wider | None:
    """None where a plausible node has no root near the capacity found. `roots`: the pairs of some replications near a load."""
    if found.mean is None:
        return None
    pairs = [pair for pair in roots(found.mean, range(REPLICATIONS)) if pair is not None]
    if len(pairs) < REPLICATIONS:
        return None
    changes = [math.log(pair.there / pair.at) for pair in pairs]
    wide = joined(found, apart_of(np.array(changes), calibration, "log"), lowest=0.0)
    if settings.whole and wide.lo is not None and wide.hi is not None:
        wide = Interval(mean=wide.mean, lo=math.floor(wide.lo + 1e-9), hi=math.floor(wide.hi + 1e-9))
    return Wider(wide, sum(pair.spent for pair in pairs))


class _Root:
    """The load at which one replication's latency reaches the SLO."""

    def __init__(self, probe: Probe, replication: int, settings: Settings, slo_s: float) -> None:
        self._probe, self._replication, self._settings, self._slo_s = probe, replication, settings, slo_s
        self._known: dict[float, float] = {}
        self.spent = 0

    def find(self, near: float) -> float | None:
        low = high = near
        for _ in range(STEPS):
            if self._late(low) <= 0:
                break
            low, high = low / 1.25, low
        else:
            return None
        for _ in range(STEPS):
            if self._late(high) > 0:
                break
            low, high = high, high * 1.25
        else:
            return None
        return self._between(low, high)

    def _between(self, low: float, high: float) -> float:
        below, above, last = self._late(low), self._late(high), 0
        for _ in range(STEPS):
            if high - low <= CLOSE * high:
                break
            share = -below / (above - below) if math.isfinite(above) and above > below else 0.5
            middle = low + min(max(share, 0.02), 0.98) * (high - low)
            late = self._late(middle)
            if late <= 0:
                low, below = middle, late
                above = above / 2 if last < 0 else above
                last = -1
            else:
                high, above = middle, late
                below = below / 2 if last > 0 else below
                last = 1
        return (low + high) / 2

    def _late(self, load: float) -> float:
        """ln(latency at the SLO's level / SLO); between whole loads linear."""
        if not self._settings.whole:
            return self._at(load)
        low = max(math.floor(load), 1)
        a, b = self._at(low), self._at(low + 1)
        return a + (b - a) * max(load - low, 0.0) if math.isfinite(a) and math.isfinite(b) else max(a, b)

    def _at(self, load: float) -> float:
        if load not in self._known:
            outcome = self._probe(load, self._replication, self._settings.requests)
            self.spent += outcome.breached.size
            cut = int(WARM_UP * outcome.latency_s.size) if self._settings.steady else 0
            late = float(np.quantile(outcome.latency_s[cut:], self._settings.attainment, method="inverted_cdf"))
            self._known[load] = math.log(max(late, 1e-9) / self._slo_s) if math.isfinite(late) else math.inf
        return self._known[load]
