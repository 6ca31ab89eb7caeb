"""The interval that covers simulation and calibration: replications on the stated profile, and each again on a plausible one.

Enters: figures of R replications, and of the same replications (same random numbers) on plausible profiles
(`sim.calibration`). Leaves: intervals. With D_r the difference within replication r and e_r = ±1 the side of its machine:
    machine    b = sum e_r D_r / R                       the effect of one standard deviation, times t(0.975, runs - 1)
    cells      s² = sum (D_r - e_r b)² / (R - 1)          samples, and what each cell does by itself, times t(0.975, R - 1)
Neither is divided by R: another replication tells more about the simulation and nothing about the machine. Differences are
of logarithms (for shares of the logarithm of the odds), in which effects of speed are nearly linear. The parts and the t
interval over replications are joined as root of the sum of squares on each side of the mean (MOVER, Zou & Donner,
Statistics in Medicine 27, 2008). docs/explanation/uncertainty.md tells it at length, docs/decisions/0017 why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit, logit, stdtrit

from profiles.distribution import Floats
from sim.calibration import Calibration, side
from sim.intervals import interval
from sim.metrics import Figures
from sim.result import Interval

Get = Callable[[Figures], float]
Scale = Literal["plain", "log", "odds"]


@dataclass(frozen=True)
class Apart:
    """What calibration does to one figure: half widths at 95 % on the figure's scale. `least`: nearest that a share comes to
    0 or 1.
    """  # fmt: skip

    scale: Scale
    machine: float
    cells: float
    least: float = 0.0

    @property
    def half(self) -> float:
        return math.hypot(self.machine, self.cells)

    def ends(self, mean: float) -> tuple[float, float]:
        """How far below and above its mean the figure itself may lie."""
        at = float(_to(np.array(mean), self.scale, self.least))
        low, middle, high = (_back(at + step, self.scale) for step in (-self.half, 0.0, self.half))
        return middle - low, high - middle


class Both:
    """Intervals from the replications of one load point and those on plausible profiles (none: of the first alone)."""

    def __init__(
        self, runs: Sequence[Figures], others: Sequence[Figures] = (), calibration: Calibration | None = None
    ) -> None:
        self._runs, self._others, self._calibration = runs, others, calibration

    def interval(self, get: Get, *, lowest: float = -np.inf, highest: float = np.inf) -> Interval:
        """Mean and 95 % interval, cut to what the figure can be; empty where the mean or an end is not finite."""
        found = interval(map(get, self._runs), lowest=lowest, highest=highest)
        if not self._others or found.mean is None or found.lo is None or found.hi is None:
            return found
        apart = self.apart(get, share=highest == 1.0)
        if apart is None:
            return Interval(mean=found.mean, lo=None, hi=None)
        return joined(found, apart, lowest=lowest, highest=highest)

    def each(
        self,
        of: Callable[[Figures], Mapping[str, float]],
        names: Iterable[str],
        *,
        lowest: float = 0.0,
        highest: float = np.inf,
    ) -> dict[str, Interval]:
        """Intervals of the figures of one kind, by name."""

        def one(name: str) -> Interval:
            return self.interval(lambda run: of(run)[name], lowest=lowest, highest=highest)

        return {name: one(name) for name in names}

    def share(self, get: Get) -> float | None:
        """Of the squared upper half of a figure's interval, what calibration makes up; None where it has no interval."""
        simulated, full = interval(map(get, self._runs)), self.interval(get)
        if simulated.mean is None or simulated.hi is None or full.hi is None:
            return None
        half = full.hi - simulated.mean
        return 1.0 - ((simulated.hi - simulated.mean) / half) ** 2 if self._others and half > 0 else 0.0

    def apart(self, get: Get, *, share: bool = False) -> Apart | None:
        """What calibration does to a figure; None where a plausible profile gives it no finite value."""
        values, others = (
            np.array([get(run) for run in self._runs]),
            np.array([_or_nan(get, run) for run in self._others]),
        )
        if not (np.all(np.isfinite(values)) and np.all(np.isfinite(others))):
            return None
        least = 0.5 / max(min(run.measured for run in self._runs), 1) if share else 0.0
        scale: Scale = "odds" if share else "log" if min(values.min(), others.min()) > 0 else "plain"
        return apart_of(_to(others, scale, least) - _to(values, scale, least), self._calibration, scale, least)


def apart_of(changes: Floats, calibration: Calibration | None, scale: Scale = "plain", least: float = 0.0) -> Apart:
    """The two parts from the differences within replications 0, 1, …, on the figure's scale."""
    number = changes.size
    machine, free = 0.0, number
    if calibration is not None and calibration.common:
        sides = np.array([side(r) for r in range(number)])
        machine, free = float(np.mean(sides * changes)), number - 1
        changes = changes - sides * machine
    cells = math.sqrt(float(changes @ changes) / free)
    freedom = min(calibration.freedom if calibration else math.inf, 1e9)
    return Apart(scale, abs(machine) * _t(freedom), cells * _t(free), least)


def joined(found: Interval, apart: Apart, *, lowest: float = -np.inf, highest: float = np.inf) -> Interval:
    """The interval of the simulation with what calibration does to the figure in it."""
    if found.mean is None or found.lo is None or found.hi is None or apart.half == 0.0:
        return found
    below, above = apart.ends(found.mean)
    lo, hi = (
        found.mean - math.hypot(found.mean - found.lo, below),
        found.mean + math.hypot(found.hi - found.mean, above),
    )
    return Interval(mean=found.mean, lo=max(lo, lowest), hi=min(hi, highest))


def _t(freedom: float) -> float:
    return float(stdtrit(freedom, 0.975))


def _or_nan(get: Get, run: Figures) -> float:
    try:
        return get(run)
    except KeyError:  # a signal or a reason that occurs on the stated profile only
        return math.nan


def _to(values: Floats, scale: Scale, least: float) -> Floats:
    if scale == "odds":
        return np.asarray(logit(np.clip(values, least, 1.0 - least)))
    return np.log(values) if scale == "log" else values


def _back(value: float, scale: Scale) -> float:
    if scale == "odds":
        return float(expit(value))
    return math.exp(min(value, 700.0)) if scale == "log" else value
