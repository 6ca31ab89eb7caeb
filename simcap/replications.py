"""Every replication of several scenarios by itself, for paired comparisons: a result holds only what they come to together.

Enters: variants (name, scenario, profile) and one seed. Leaves: for each an `Answer`: its `Result`, and a `Sample` with each
figure of each replication at each load, and the load at which each replication breaks the promise. Replication r of all
variants has the same random numbers. Latencies in seconds, rates in requests a second, shares 0 to 1; capacity in the
scenario's kind of load.

Where a variant's own load points do not bracket its capacity closely in every replication, load points are added for it: 25 %
above the highest or 20 % below the lowest, then the middle of a bracket wider than 30 %, at most twelve. They serve its
capacity and its curve; figures are compared at the scenarios' own loads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from profiles.schema import Profile
from scenarios.arrivals import LoadKind
from scenarios.loader import Bound, bind, read_trace
from scenarios.schema import Scenario
from sim import replicate
from sim.engine import Asked
from sim.executor import Dask, local
from sim.grid import Grid
from sim.journal import Journal
from sim.metrics import Figures
from sim.result import Result
from sim.rounds import Do, Progress, collect
from sim.sweep import Sweep

Values = NDArray[np.float64]
Runs = dict[float, list[Figures]]  # load -> figures of each replication

FIGURES = ("latency_mean", "latency_p50", "latency_p95", "latency_p99", "throughput_rps", "slo_attainment")
MOST_ADDED = 12
WIDE = 1.3  # ratio of two neighbouring loads between which capacity is not read off


@dataclass(frozen=True)
class Variant:
    """One of the things compared."""

    name: str
    scenario: Scenario
    profile: Profile


@dataclass(frozen=True)
class Sample:
    """Every replication of one variant: load -> figure -> (R,) values. `capacity`: (R,), NaN where not bracketed."""

    name: str
    load_kind: LoadKind
    values: Mapping[float, Mapping[str, Values]]
    capacity: Values


@dataclass(frozen=True)
class Answer:
    sample: Sample
    result: Result


@dataclass(frozen=True)
class How:
    """What changes no figure: engine, processes at most, a Dask scheduler's address, a directory for what is finished."""

    engine: Asked = "auto"
    workers: int = 1
    dask: str | None = None
    journal: Path | None = None
    progress: Progress | None = None


def answers(variants: Sequence[Variant], seed: int, how: How | None = None) -> list[Answer]:
    """Run every replication of every load point of all variants. InputError: one of them cannot run; nothing has then."""
    how = how or How()
    grid, bound = _grid(variants, seed, how.engine)
    executor = Dask(how.dask) if how.dask is not None else local(how.workers, grid)
    if how.journal is not None:
        executor = Journal(executor, how.journal)
    with executor.opened(grid) as do:
        runs = _bracketed(do, [variant.scenario for variant in variants], how.progress)
    return [
        Answer(_sample(variant, got), replicate.result_of(sweep, entries, dict(sorted(got.items()))))
        for variant, sweep, entries, got in zip(variants, grid.sweeps, bound, runs, strict=True)
    ]


def _grid(variants: Sequence[Variant], seed: int, asked: Asked) -> tuple[Grid, list[Bound]]:
    traces = [read_trace(variant.scenario) for variant in variants]
    bound = [bind(v.scenario, v.profile, trace=trace) for v, trace in zip(variants, traces, strict=True)]
    plain = [Sweep(v.scenario, v.profile, seed, "simpy", trace) for v, trace in zip(variants, traces, strict=True)]
    requests = Grid(tuple(plain)).requests()  # the start of an engine is paid once for all variants
    engines = [
        replicate.engine_for(s.scenario, s.profile, seed, asked, s.trace, requests=requests).engine for s in plain
    ]
    sweeps = [Sweep(s.scenario, s.profile, seed, engine, s.trace) for s, engine in zip(plain, engines, strict=True)]
    return Grid(tuple(sweeps)), bound


def _bracketed(do: Do, scenarios: Sequence[Scenario], progress: Progress | None) -> list[Runs]:
    """All replications at the scenarios' own loads, and at those that bracket each capacity."""
    runs: list[Runs] = [{} for _ in scenarios]
    keys = [(v, load) for v, scenario in enumerate(scenarios) for load in scenario.load.points]
    before = 0

    def said(done: int, total: int) -> None:
        if progress:
            progress(before + done, before + total)

    while keys:
        outcomes = collect(do, keys, lambda key: scenarios[int(str(key[0]))], said)
        before += sum(map(len, outcomes.values()))
        for v, load in keys:
            runs[v][load] = [outcome.figures for outcome in outcomes[v, load]]
        more = [(v, next_load(scenario, runs[v])) for v, scenario in enumerate(scenarios)]
        keys = [(v, load) for v, load in more if load is not None]
    return runs


def next_load(scenario: Scenario, runs: Runs) -> float | None:
    """The load that would tell more of where the promise breaks; None where it is bracketed, or out of reach."""
    if len(runs) >= len(scenario.load.points) + MOST_ADDED:
        return None
    loads, whole = sorted(runs), scenario.load.kind in {"clients", "burst_size"}
    places = [_breaks_at(scenario, runs, r) for r in range(_shared(runs))]
    if len(loads) in places:  # kept at the highest load
        wanted = loads[-1] * 1.25
        return float(max(math.ceil(wanted), loads[-1] + 1)) if whole else float(f"{wanted:.4g}")
    if 0 in places:
        wanted = max(math.floor(loads[0] * 0.8), 1.0) if whole else float(f"{loads[0] * 0.8:.4g}")
        return wanted if wanted < loads[0] else None
    widest = max(places, key=lambda k: loads[k] / loads[k - 1])
    low, high = loads[widest - 1], loads[widest]
    middle = math.sqrt(low * high)
    wanted = float(round(middle)) if whole else float(f"{middle:.4g}")
    return wanted if high / low > WIDE and low < wanted < high else None


def _breaks_at(scenario: Scenario, runs: Runs, r: int) -> int:
    """The place of the lowest load at which replication r breaks the promise; one beyond the last where it keeps it."""
    late = [runs[load][r].scalars["slo_percentile_s"] > scenario.slo.latency_s for load in sorted(runs)]
    return late.index(True) if True in late else len(late)


def _shared(runs: Runs) -> int:
    """How many replications all loads have."""
    return min(len(got) for got in runs.values())


def _sample(variant: Variant, runs: Runs) -> Sample:
    scenario = variant.scenario
    return Sample(
        variant.name,
        scenario.load.kind,
        {
            load: {name: np.array([_figure(run, name) for run in runs[load]]) for name in FIGURES}
            for load in scenario.load.points
        },
        np.array([crossing(scenario, {load: got[r] for load, got in runs.items()}) for r in range(_shared(runs))]),
    )


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
