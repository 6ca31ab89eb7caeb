"""Where each replication of a scenario breaks its promise: the load, or a factor on its service times.

Enters: scenario, profile, seed. Leaves: one value a replication, NaN where none breaks it. Replication r of two scenarios
with one seed has the same random numbers, so their values are pairs.

With them a replication is a function of the load alone, and so is its latency at the SLO's own level, q(load). The value is
the root of ln q(load) - ln limit (Brent 1973, in ln load, to two thousandths): up to it the replication keeps the promise.
A single replication is not long, so its root lies a little off the capacity of an endless run; the same little for both
of a pair, which is why their ratio is what is reported. Loads that are whole numbers are rounded before they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.entry import Surface
from profiles.schema import Profile
from scenarios.arrivals import Burst
from scenarios.loader import bind, read_trace
from scenarios.schema import Scenario
from sim import replicate
from sim.metrics import Figures
from sim.sweep import Bench, Sweep

Values = NDArray[np.float64]

PRECISION = 2e-3
FAR = 5.0  # |ln q/limit| is cut here: an endless latency is as good as one 150 times too long
WIDEST = 2.0**10  # a factor on the load, from the first guess, beyond which nothing is looked for
MOST = 8000  # requests a replication: pairs need less than a capacity by itself
FEW = 1000  # the same where every request goes through SimPy


@dataclass(frozen=True)
class Trial:
    """A scenario made ready for repeated runs. `steady`: it has a capacity; else it is a story with a load of its own."""

    scenario: Scenario
    bench: Bench
    steady: bool

    @property
    def replications(self) -> int:
        return self.scenario.measurement.replications

    def run(self, load: float, replication: int) -> Figures:
        whole = self.scenario.load.kind in {"clients", "burst_size"}
        return self.bench.do(float(max(round(load), 1)) if whole else load, replication).figures


def trial(scenario: Scenario, profile: Profile, seed: int, *, replications: int | None = None) -> Trial:
    """InputError where the scenario cannot run on the profile. Replications as the scenario says, if not otherwise."""
    trace = read_trace(scenario)
    bind(scenario, profile, trace=trace)
    engine = replicate.engine_for(scenario, profile, seed, "auto", trace).engine
    steady = is_steady(scenario)
    measurement = scenario.measurement
    changes: dict[str, object] = {"replications": replications or measurement.replications}
    if steady and measurement.duration_s is not None:
        changes |= {"duration_s": None}
    if steady:
        changes |= {"requests": min(measurement.requests, FEW if engine == "simpy" else MOST)}
    scenario = scenario.model_copy(update={"measurement": measurement.model_copy(update=changes)})
    return Trial(scenario, Bench(Sweep(scenario, profile, seed, engine, trace)), steady)


def is_steady(scenario: Scenario) -> bool:
    """Whether the scenario has a law for ever, so that its load can be searched; a day, a burst or a cold start has not."""
    story = isinstance(scenario.arrivals, Burst) or scenario.measurement.warmup == "keep"
    return scenario.arrivals.steady and not story


def late(figures: Figures, limit_s: float) -> float:
    """Ln of the latency at the SLO's level over its limit, cut to ±FAR; endless and undefined count as far too late."""
    seconds = figures.scalars["slo_percentile_s"]
    if not math.isfinite(seconds):
        return FAR
    return min(max(math.log(max(seconds, 1e-9) / limit_s), -FAR), FAR)


def capacities(of: Trial, guess: float) -> Values:
    """The load at which each replication breaks the promise. `guess`: any load, better near."""
    found = []
    for replication in range(of.replications):
        found.append(root(lambda load, r=replication: late(of.run(load, r), of.scenario.slo.latency_s), guess))  # type: ignore[misc]  # r is bound early
        if math.isfinite(found[-1]):
            guess = found[-1]
    return np.array(found)


def root(distance: Callable[[float], float], guess: float) -> float:
    """Where `distance`, negative below and positive above, changes its sign; NaN where it does not within WIDEST."""
    from scipy.optimize import brentq

    seen: dict[float, float] = {}

    def at(log: float) -> float:
        if log not in seen:
            seen[log] = distance(math.exp(log))
        return seen[log]

    first = math.log(guess)
    up = at(first) < 0
    inner, step = first, 0.1
    while step < math.log(WIDEST):
        outer = first + step if up else first - step
        if (at(outer) < 0) != up:
            lo, hi = (inner, outer) if up else (outer, inner)
            return float(math.exp(brentq(at, lo, hi, xtol=PRECISION)))
        inner, step = outer, 2 * step
    return math.nan


def slower(profile: Profile, factor: float, provider: str | None = None) -> Profile:
    """The profile with every service time, of this provider only if one is named, multiplied by `factor`."""

    def scaled(surface: Surface | None) -> Surface | None:
        if surface is None:
            return None
        cells = [
            cell.model_copy(
                update={"seconds": tuple(factor * s for s in cell.seconds), "median_lo": None, "median_hi": None}
            )
            for cell in surface.cells
        ]
        return surface.model_copy(update={"cells": tuple(cells)})

    entries = tuple(
        entry.model_copy(update={"service": scaled(entry.service), "paced_service": scaled(entry.paced_service)})
        if provider in {None, entry.provider.name}
        else entry
        for entry in profile.entries
    )
    return profile.model_copy(update={"entries": entries})
