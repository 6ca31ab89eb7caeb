"""Step 3 of a capacity search: full runs about the root, until the interval is as narrow as asked.

Enters: a bench and a bracket from short runs. Leaves: a `Finding`. `y` is the logarithm of the share of breaches over the
share allowed (`sim.search_levels.Reading`); at a load inside the interval the interval of y contains 0. Loads in the
scenario's unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from sim.search_levels import Bench, Reading, half_log

Kind = Literal["found", "saturation", "indeterminate", "unreachable"]

ENOUGH_BREACHES = 0.7  # largest coefficient of variation of the share of breaches between replications
SPARE = 0.85  # aimed at, of the precision asked
FAR = 0.25  # largest step outwards when the interval's end is looked for, of the load

CURVES: tuple[Callable[[Reading], float], ...] = (lambda r: r.y_hi, lambda r: r.y, lambda r: r.y_lo)
"""Where these pass 0 lie the lower end of the interval of capacity, the capacity, and the upper end."""


@dataclass(frozen=True)
class Finding:
    """What a search found. `load`, `lo`, `hi`: capacity and its 95 % interval, None where unknown.

    found: as asked. saturation: the SLO is kept right up to the load that no longer gets served. indeterminate,
    unreachable: `reason` says why. `readings`: every load that was evaluated; `at`: the one nearest to the capacity.
    """

    kind: Kind
    reason: str | None
    load: float | None
    lo: float | None
    hi: float | None
    readings: tuple[Reading, ...] = ()
    at: Reading | None = None
    spent: int = 0

    @property
    def precision(self) -> float | None:
        """Half width of the interval, relative to its load; None without both ends."""
        if self.load is None or self.lo is None or self.hi is None:
            return None
        return (self.hi - self.lo) / 2 / self.load


@dataclass(frozen=True)
class Ends:
    """Where the lower end, the mean and the upper end of the interval of p cross the allowed share, and how steeply."""

    lo: float
    load: float
    hi: float
    slope: float  # of y, per unit of load
    cv: float

    def reached(self) -> float:
        return (self.hi - self.lo) / 2 / max(self.load, 1e-300)


class Refine:
    """Step 3. Keeps the best interval reached, for when the effort is used up."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._best: Ends | None = None

    def run(self, below: Reading, above: Reading) -> Finding:
        settings = self._bench.settings
        slope = max(above.y - below.y, 0.1) / max(above.load - below.load, 1e-9 * above.load)
        first = self._approach(below.load + _step_to_root(below, above), slope)
        reps = self._enough(first.replications, first, first.cv, slope * first.load)
        # How many replications to use was chosen by `first`: the interval is read from others, or it would be narrow
        # where it is wrong (a quiet set of replications has both few breaches and little spread).
        self._bench.begin_afresh()
        half = half_log(first.cv, reps) / slope
        readings = [first]
        while True:
            self._best = ends = self._ends(readings, first.requests, reps, half, slope)
            if ends.reached() <= settings.precision or (settings.whole and ends.lo == ends.hi):
                return Finding("found", None, ends.load, ends.lo, ends.hi)
            more = self._enough(reps, first, ends.cv, ends.slope * ends.load, beyond=True)
            if more <= reps:
                return self.used_up()
            readings = self._around(first.requests, reps, ends)
            reps, half, slope = more, half * float(np.sqrt(reps / more)), ends.slope

    def used_up(self) -> Finding:
        """What is known when no more may be simulated."""
        settings, best = self._bench.settings, self._best
        effort = f"the effort of {settings.max_requests:,} requests is used up (--max-effort)"
        if best is not None:
            reached = f"±{100 * best.reached():.2g} % reached where ±{100 * settings.precision:.2g} % is asked"
            return Finding("indeterminate", f"{reached}, and {effort}", best.load, best.lo, best.hi)
        longest = max((r.requests for r in self._bench.readings()), default=0)
        surely = [r for r in self._bench.readings() if r.requests == longest]
        failed = min((r.load for r in surely if r.verdict == "fail"), default=None)
        passed = [r.load for r in surely if r.verdict == "pass" and (failed is None or r.load < failed)]
        return Finding("indeterminate", effort, None, max(passed, default=None), failed)

    def _approach(self, load: float, slope: float) -> Reading:
        """A full reading near the root, with runs long enough that its share of breaches is near normal."""
        settings, requests = self._bench.settings, self._bench.settings.requests
        reading = self._bench.read(load, requests, settings.replications)
        for _ in range(8):
            if abs(reading.y) > 0.7 and settings.steady and not settings.whole:
                load = reading.load * float(np.clip(1 - reading.y / (slope * reading.load), 0.8, 1.25))
            elif settings.steady and reading.cv > ENOUGH_BREACHES:
                requests *= 2 if reading.cv < 2 * ENOUGH_BREACHES else 4
            else:
                break
            reading = self._bench.read(load, requests, settings.replications)
        return reading

    def _enough(self, now: int, at: Reading, cv: float, steepness: float, *, beyond: bool = False) -> int:
        """Replications that should reach the precision with something to spare, at most four times as many as now, if
        affordable.
        """  # fmt: skip
        settings = self._bench.settings
        affordable = self._bench.left // (3 * at.counted // at.replications + 1)
        most = min(4 * now, now + affordable if beyond else max(affordable, now))
        reps = now + max(now // 4, 1) if beyond else now
        while reps < most and half_log(cv, reps) > SPARE * settings.precision * steepness:
            reps += 1
        return min(reps, max(most, now))

    def _ends(self, known: Sequence[Reading], requests: int, reps: int, half: float, slope: float) -> Ends:
        """Evaluate loads on both sides of the interval until it lies between them, and read its ends."""
        bench = self._bench
        least = 1.0 if bench.settings.whole else 1e-6 * known[0].load
        centre = known[0].load - known[0].y / slope if len(known) == 1 else 0.0
        loads = [centre - 1.15 * half, centre + 1.15 * half] if len(known) == 1 else [r.load for r in known]
        readings = {r.load: r for r in (bench.read(max(load, least), requests, reps) for load in loads)}
        for k in range(12):
            low, high = min(readings), max(readings)
            if high > low and readings[high].y > readings[low].y:
                slope = (readings[high].y - readings[low].y) / (high - low)
            step = max(half / 2, least, 0.002 * high) * 1.5**k
            if readings[low].y_hi > 0 and low > least:
                wanted = low - min(max(step, 1.2 * readings[low].y_hi / slope), FAR * low)
            elif readings[high].y_lo <= 0:
                wanted = high + min(max(step, -1.2 * readings[high].y_lo / slope), FAR * high + least)
            else:
                break
            reading = bench.read(max(wanted, least), requests, reps)
            readings[reading.load] = reading
        return self._read_off(sorted(readings.values(), key=lambda r: r.load), slope)

    def _read_off(self, readings: list[Reading], slope: float) -> Ends:
        """Crossings; whole loads are first narrowed to neighbours, because nothing lies between those."""
        settings = self._bench.settings
        for value in CURVES if settings.whole else ():
            for _ in range(20):
                a, b = _around_crossing(readings, value)
                if b.load - a.load <= max(1.0, settings.precision / 4 * b.load):
                    break
                inside = self._bench.read((a.load + b.load) / 2, a.requests, a.replications)
                readings = sorted({r.load: r for r in (*readings, inside)}.values(), key=lambda r: r.load)
        lo, load, hi = (_crossing(readings, value) for value in CURVES)
        if settings.whole:
            lo, load, hi = (float(np.floor(x + 1e-9)) for x in (lo, load, hi))
        near = min(readings, key=lambda r: abs(r.load - load))
        return Ends(lo, min(max(load, lo), hi), hi, slope, near.cv)

    def _around(self, requests: int, reps: int, ends: Ends) -> list[Reading]:
        """The readings that the next, narrower interval is to be read from: those on both sides of this one."""
        same = [r for r in self._bench.readings() if r.requests == requests and r.replications == reps]
        low = max((r for r in same if r.load <= ends.lo), key=lambda r: r.load, default=same[0])
        high = min((r for r in same if r.load >= ends.hi), key=lambda r: r.load, default=same[-1])
        return [low, high] if low.load < high.load else same


def _step_to_root(below: Reading, above: Reading) -> float:
    share = -below.y / (above.y - below.y) if above.y > below.y else 0.5
    return float(np.clip(share, 0.0, 1.0)) * (above.load - below.load)


def _around_crossing(readings: Sequence[Reading], value: Callable[[Reading], float]) -> tuple[Reading, Reading]:
    """The first neighbours between which `value` passes 0; the outermost reading twice when it never does."""
    for a, b in pairwise(readings):
        if value(a) <= 0 < value(b):
            return a, b
    return (readings[0], readings[0]) if value(readings[0]) > 0 else (readings[-1], readings[-1])


def _crossing(readings: Sequence[Reading], value: Callable[[Reading], float]) -> float:
    """The load where `value` passes 0, linear between readings."""
    a, b = _around_crossing(readings, value)
    if a is b:
        return a.load
    return a.load + (b.load - a.load) * -value(a) / (value(b) - value(a))
