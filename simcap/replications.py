"""Every replication of a scenario by itself, for paired comparisons: a result holds only what they come to together.

Enters: a scenario, its profile, a seed. Leaves: a `Sample`: each figure of each replication at each load, and the load at
which each replication breaks the promise. Replication r of two scenarios with one seed has the same random numbers.
Latencies in seconds, rates in requests a second, shares 0 to 1; capacity in the scenario's kind of load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.schema import Profile
from scenarios.arrivals import LoadKind
from scenarios.loader import bind, read_trace
from scenarios.schema import Scenario
from sim import replicate
from sim.executor import InProcess
from sim.metrics import Figures
from sim.rounds import Progress, collect
from sim.sweep import Sweep

Values = NDArray[np.float64]

FIGURES = ("latency_mean", "latency_p50", "latency_p95", "latency_p99", "throughput_rps", "slo_attainment")


@dataclass(frozen=True)
class Sample:
    """Every replication of one variant: load -> figure -> (R,) values. `capacity`: (R,), NaN where not bracketed."""

    name: str
    load_kind: LoadKind
    values: Mapping[float, Mapping[str, Values]]
    capacity: Values


def sample(name: str, scenario: Scenario, profile: Profile, seed: int, progress: Progress | None = None) -> Sample:
    """Run every replication of every load point of a scenario. Raises InputError for a scenario that cannot run."""
    trace = read_trace(scenario)
    bind(scenario, profile, trace=trace)
    sweep = Sweep(scenario, profile, seed, replicate.engine_for(scenario, profile, seed, "auto", trace).engine, trace)
    with InProcess().opened(sweep) as do:
        outcomes = collect(do, [(load,) for load in scenario.load.points], lambda _: scenario, progress)
    runs = {load: [outcome.figures for outcome in outcomes[(load,)]] for load in scenario.load.points}
    return Sample(
        name,
        scenario.load.kind,
        {load: {name: np.array([_figure(run, name) for run in got]) for name in FIGURES} for load, got in runs.items()},
        np.array([crossing(scenario, {load: got[r] for load, got in runs.items()}) for r in range(_common(runs))]),
    )


def _common(runs: Mapping[float, Sequence[Figures]]) -> int:
    """How many replications all loads have."""
    return min(len(got) for got in runs.values())


def _figure(run: Figures, name: str) -> float:
    kind, _, statistic = name.partition("_")
    return run.latency_s[statistic] if kind == "latency" else run.scalars[name]


def crossing(scenario: Scenario, runs: Mapping[float, Figures]) -> float:
    """The load at which one replication breaks the promise first: where the latency at the SLO's own level reaches the
    limit, its logarithm taken as linear in load between two load points. NaN where no two load points bracket it.
    """  # fmt: skip
    limit, loads = math.log(scenario.slo.latency_s), sorted(runs)
    at = [math.log(max(runs[load].scalars["slo_percentile_s"], 1e-9)) for load in loads]
    for k in range(1, len(loads)):
        if at[k - 1] <= limit < at[k]:
            return (
                loads[k - 1] + (loads[k] - loads[k - 1]) * (limit - at[k - 1]) / (at[k] - at[k - 1])
                if math.isfinite(at[k])
                else math.nan
            )
        if at[k - 1] > limit:
            return math.nan
    return math.nan
