"""The interval that covers simulation and calibration: replications on the stated profile, and each again on a plausible one.

Enters: figures of R replications, and of the same replications (same random numbers) on profiles that calibration might
have found instead (`profiles.plausible`), every second one on a slower machine, the others on a faster one. Leaves:
intervals, and what is in them. With D_r the difference within replication r and e_r = ±1 the side of its machine:
    machine    b = sum e_r D_r / R                       the effect of one standard deviation, times t(0.975, runs - 1)
    cells      s² = sum (D_r - e_r b)² / (R - 1)          samples, and what each cell does by itself, times t(0.975, R - 1)
Neither is divided by R: another replication tells more about the simulation and nothing about the machine. Differences are
of logarithms (for shares of the logarithm of the odds), where effects of speed are nearly linear. The ends of the two
parts and of the t interval over replications are joined as root of the sum of squares on each side of the mean (MOVER,
Zou & Donner, Statistics in Medicine 27, 2008). docs/explanation/uncertainty.md tells it at length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import expit, logit, stdtrit

from profiles.plausible import Plausible
from profiles.schema import Entry, Law, Profile
from profiles.spread import Spread, spread_of, surfaces
from sim.metrics import Figures
from sim.result import Interval
from sim.streams import Streams

Asked = Literal["simulation", "full"]


def side(replication: int) -> float:
    """Of the machine that replication r runs on: +1 slower, -1 faster."""
    return 1.0 if replication % 2 == 0 else -1.0


def plausible(profile: Profile, spread: Spread, streams: Streams, replication: int) -> Profile:
    """The plausible profile of a replication, the same at every load and for every scenario of one seed."""
    return Plausible(profile, spread, side(replication), streams.generator).profile()


@dataclass(frozen=True)
class Calibration:
    """What a profile states of the uncertainty of the numbers that a simulation uses.

    moves: whether it states any. freedom: degrees of freedom behind the spread between runs, infinite where none is used.
    """

    moves: bool
    freedom: float

    @classmethod
    def of(cls, profile: Profile, entries: Iterable[Entry]) -> Calibration:
        """For the entries that are used."""
        spread, used = spread_of(profile), list(entries)
        laws = [law for entry in used for law in laws_of(entry)]
        figures = [figure for entry in used for figure in figures_of(entry)]
        if profile.router is not None:
            figures += [profile.router.base_s, profile.router.per_token_s]
        moves = any(sampled(law) or any(spread.of(law)) for law in laws) or any(map(figure_spread, figures))
        return cls(moves, spread.freedom(laws))


def laws_of(entry: Entry) -> list[Law]:
    """Every law of time that a simulation may draw from."""
    cells: list[Law] = [cell for surface in surfaces(entry) for cell in surface.cells]
    return [*cells, *(entry.compile.cells if entry.compile else ()), *([entry.load] if entry.load else [])]


def figures_of(entry: Entry) -> list[Figure]:
    """Every figure that a simulation may use."""
    memory = entry.memory
    held = [memory.weights_bytes] if memory and memory.weights_bytes else []
    return [*entry.occupancy, *held, *(cell.peak_bytes for cell in (memory.cells if memory else ()))]


class Both:
    """Intervals from the replications of one load point and from those on plausible profiles (empty: of the first alone)."""

    def __init__(self, runs: Sequence[Figures], others: Sequence[Figures] = (), freedom: float = math.inf) -> None:
        self.runs, self._others, self._freedom = runs, others, freedom

    def interval(self, get: Get, *, lowest: float = -np.inf, highest: float = np.inf) -> Interval:
        """Mean and 95 % interval of a figure, cut to what it can be; NaN anywhere gives an empty interval."""
        values = [get(run) for run in self.runs]
        found = interval(values, lowest=lowest, highest=highest)
        if not self._others or found.mean is None or found.lo is None or found.hi is None:
            return found
        apart = self.apart(get, share=highest == 1.0)
        if apart is None:
            return Interval(mean=found.mean, lo=None, hi=None)
        if apart.half == 0.0:
            return found
        mean, lo, hi = found.mean, *apart.ends(found.mean)
        return Interval(
            mean=mean,
            lo=max(mean - math.hypot(mean - found.lo, lo), lowest),
            hi=min(mean + math.hypot(found.hi - mean, hi), highest),
        )

    def apart(self, get: Get, *, share: bool = False) -> Apart | None:
        """What calibration does to a figure; None where a plausible profile gives it no finite value."""
        values = np.array([get(run) for run in self.runs])
        others = np.array([_or_nan(get, run) for run in self._others])
        if not (np.all(np.isfinite(values)) and np.all(np.isfinite(others))):
            return None
        least = 0.5 / max(min(run.measured for run in self.runs), 1) if share else 0.0
        kind: Scale = "odds" if share else "log" if min(values.min(), others.min()) > 0 else "plain"
        sides = np.array([side(r) for r in range(values.size)])
        changes = _to(others, kind, least) - _to(values, kind, least)
        machine = float(np.mean(sides * changes)) if math.isfinite(self._freedom) else 0.0
