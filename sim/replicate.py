"""Replications of every load point, and the intervals over them.

Enters: scenario, profile, seed. Leaves: a `Result`. Each figure is the mean over R independent replications with a 95 %
Student t interval (`sim.intervals`); R is fixed, or grows until the interval is narrow (`sim.rounds`). With `uncertainty`
full and a profile that states how far it may lie off, each replication runs on a plausible profile, too, and the interval
covers both (`sim.uncertainty`). Load points share their random numbers and do not depend on one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from profiles.schema import Profile, origins
from scenarios.loader import Bound, bind, read_trace
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim import calibration
from sim import engine as engines
from sim.arrivals import arrivals_of, notes_of_arrivals, requests_of
from sim.capacity import capacity_of, verdict_of
from sim.engine import Asked
from sim.executor import Dask, Executor, local
from sim.inputs import inputs_of, notes_of, uncertainty_of, used_of
from sim.intervals import interval, saturated, steady_rate
from sim.journal import Journal
from sim.metrics import HISTOGRAM_EDGES, Figures
from sim.node import node_of
from sim.pages import notes_of_pages
from sim.result import TIME_PARTS, ClassResult, Interval, Point, Result, SignalResult, Slo
from sim.rounds import Progress, collect, narrow
from sim.sensitivity import narrowing_of
from sim.streams import Streams
from sim.sweep import Columns, Sweep
from sim.uncertainty import Both
from sim.why import bottleneck_of, headroom
from sim.work import draw_work


def run(
    scenario: Scenario,
    profile: Profile,
    seed: int,
    *,
    trace: TraceRows | None = None,
    progress: Progress | None = None,
    keep_records: bool = False,
    engine: Asked = "auto",
    workers: int = 1,
    dask: str | None = None,
    journal: Path | None = None,
    uncertainty: calibration.Asked = "full",
) -> tuple[Result, list[tuple[float, int, Columns]]]:
    """Run every load point; `keep_records` also returns (load, replication, records) of each run.

    `trace`: rows of `loader.read_trace`, if the caller has read them; else a scenario with a trace reads them here.
    `workers`: processes at most; 1 runs here. `dask`: address of a cluster's scheduler that does it instead. `journal`:
    directory for what is finished, from which a stopped run goes on; it stays until the caller removes it. None of
    these, nor the engine, changes a single figure. `uncertainty`: what intervals are to cover, the simulation or
    calibration as well, which takes twice as long where the profile states any; the means are the same.
    """
    trace = trace if trace is not None else read_trace(scenario)  # once, for all load points
    # Bound before anything runs: a scenario that cannot be answered says so at once.
    entries = bind(scenario, profile, trace=trace)
    chosen = engine_for(scenario, profile, seed, engine, trace).engine
    sweep = Sweep(scenario, profile, seed, chosen, trace, keep_records)
    executor: Executor = Dask(dask) if dask is not None else local(workers, sweep)
    if journal is not None and not keep_records:  # requests are not kept: they would be most of what there is to write
        executor = Journal(executor, journal)
    both = uncertainty == "full" and calibration.Calibration.of(profile, used_of(entries)).moves
    with executor.opened(sweep) as do:
        told = _half(progress) if both else progress
        outcomes = collect(do, [(load,) for load in scenario.load.points], lambda _: scenario, told)
    runs = {load: outcomes[(load,)] for load in scenario.load.points}
    kept = [
        (load, r, outcome.records)
        for load, of_load in runs.items()
        for r, outcome in enumerate(of_load)
        if outcome.records is not None
    ]
    figures = {load: [outcome.figures for outcome in of_load] for load, of_load in runs.items()}
    others: dict[float, list[Figures]] = {}
    if both:
        others = _on_plausible(sweep, executor, {load: len(of_load) for load, of_load in runs.items()}, progress)
    result = result_of(sweep, entries, figures, others, uncertainty)
    return (_with_narrowing(result, sweep, entries, figures, others) if both else result), kept


def _with_narrowing(
    result: Result,
    sweep: Sweep,
    entries: Bound,
    figures: Mapping[float, Sequence[Figures]],
    others: Mapping[float, Sequence[Figures]],
) -> Result:
    """The result with what would narrow its interval most, at the highest load that passed or, where none did, the first."""
    load = result.capacity.lo if result.capacity.lo is not None else result.points[0].load
    known = calibration.Calibration.of(sweep.profile, used_of(entries))
    apart = Both(figures[load], others[load], known).apart(lambda run: run.scalars["slo_percentile_s"])
    values = [run.scalars["slo_percentile_s"] for run in figures[load]]
    if apart is None or apart.scale != "log" or result.uncertainty is None:
        return result
    simulated = interval(np.log(values))
    half = (simulated.hi - simulated.lo) / 2 if simulated.hi is not None and simulated.lo is not None else 0.0
    found = narrowing_of(sweep, entries, load, apart, half)
    told = result.uncertainty.model_copy(update={"narrowing": found, "narrowing_load": load})
    return result.model_copy(update={"uncertainty": told})


def _half(progress: Progress | None) -> Progress | None:
    """Of a first pass that a second one, as long, will follow."""
    return (lambda done, total: progress(done, 2 * total)) if progress else None


def _on_plausible(
    sweep: Sweep, executor: Executor, counts: Mapping[float, int], progress: Progress | None
) -> dict[float, list[Figures]]:
    """The figures of the same replications on plausible profiles. `counts`: replications of each load."""
    tasks = [(load, r) for r in range(max(counts.values())) for load, number in counts.items() if r < number]
    if isinstance(executor, Journal):
        executor = executor.beside("plausible")
    found: dict[int, Figures] = {}
    shared = replace(sweep, plausible=True, keep_records=False)
    with executor.opened(shared) as do, closing(do(tasks)) as running:
        for place, outcome in running:
            found[place] = outcome.figures
            if progress:
                progress(len(tasks) + len(found), 2 * len(tasks))
    return {load: [found[place] for place, task in enumerate(tasks) if task[0] == load] for load in counts}


def result_of(
    sweep: Sweep,
    entries: Bound,
    figures: Mapping[float, Sequence[Figures]],
    others: Mapping[float, Sequence[Figures]] | None = None,
    asked: calibration.Asked = "simulation",
) -> Result:
    """The result of a sweep from the figures of every replication of each load. `entries`: of `loader.bind`. `others`: the
    figures of the same replications on plausible profiles, without which intervals cover the simulation alone.
    """  # fmt: skip
    scenario, profile, trace = sweep.scenario, sweep.profile, sweep.trace
    used, others = used_of(entries), others or {}
    known = calibration.Calibration.of(profile, used)
    points = [point_of(scenario, load, runs, Both(runs, others.get(load, ()), known)) for load, runs in figures.items()]
    counts: dict[str, int] = {}
    for entry in used:
        for origin, count in origins(entry).items():
            counts[origin] = counts.get(origin, 0) + count
    memory = node_of(scenario, profile).memory
    return Result(
        scenario=scenario.name,
        question=scenario.question,
        profile=profile.name,
        profile_origins=counts,
        seed=sweep.seed,
        replications=min(point.replications for point in points),
        requests=max(requests_of(scenario, load, trace) for load in figures),
        slo=Slo(latency_s=scenario.slo.latency_s, attainment=scenario.slo.attainment),
        points=tuple(points),
        capacity=capacity_of(scenario, points),
        memory_capacity_bytes=memory.capacity_bytes if memory else None,
        memory_watermark=memory.watermark if memory else None,
        uncertainty=uncertainty_of(scenario, profile, used, asked),
        inputs=inputs_of(scenario, profile, entries),
        notes=(
            *notes_of_arrivals(scenario, trace),
            *notes_of_pages(scenario, trace),
            *notes_of(scenario, profile),
            *notes_of_precision(scenario, figures),
        ),
    )


def notes_of_precision(scenario: Scenario, figures: Mapping[float, Sequence[Figures]]) -> tuple[str, ...]:
    """What `measurement.precision` did: how many replications, and the loads that it was not reached at. It is about the
    interval of the simulation: replications narrow no other.
    """  # fmt: skip
    measurement = scenario.measurement
    if measurement.precision is None:
        return ()
    counts = [len(runs) for runs in figures.values()]
    short = [
        f"{load:g}"
        for load, runs in figures.items()
        if len(runs) >= measurement.most_replications
        and not narrow(interval(run.scalars["slo_percentile_s"] for run in runs), measurement.precision)
    ]
    reached = f" At {', '.join(short)} that many were not enough." if short else ""
    goal = f"Each load was run until the interval of its latency at the SLO's level was within {100 * measurement.precision:g} %"
    doubt = "Intervals that end a run contain the truth a little less often than 95 times in 100."
    return (f"{goal} of it: {min(counts)} to {max(counts)} replications.{reached} {doubt}",)


def engine_for(
    scenario: Scenario,
    profile: Profile,
    seed: int,
    asked: Asked,
    trace: TraceRows | None = None,
    *,
    requests: int | None = None,
) -> engines.Choice:
    """Which engine runs the whole sweep, and why. InputError: `compiled` was asked for and does not cover it.

    `requests`: of everything that is to run, where this sweep is a part of it.
    """
    trace = trace if trace is not None else read_trace(scenario)
    streams = Streams(seed, 0)
    one = draw_work(scenario, profile, streams, 1, trace)
    arrivals = arrivals_of(scenario, scenario.load.points[0], streams, trace, 1)
    requests = requests or Sweep(scenario, profile, seed, "simpy", trace).requests()
    return engines.choose(asked, node_of(scenario, profile), one, arrivals, requests)


def point_of(scenario: Scenario, load: float, runs: Sequence[Figures], both: Both | None = None) -> Point:
    """One load point from its replications; `both`: with those on plausible profiles, too."""
    both = both or Both(runs)
    scalar = both.each(lambda run: run.scalars, set(runs[0].scalars) - _SHARES)
    scalar |= both.each(lambda run: run.scalars, _SHARES, highest=1.0)
    full = saturated(scenario, runs)
    used = both.each(lambda run: run.utilisation, runs[0].utilisation)
    parts = both.each(lambda run: run.mean_parts_s, TIME_PARTS)
    failed = [reason for reason in runs[0].failures if any(run.failures[reason] for run in runs)]
    failures = both.each(lambda run: run.failures, failed, highest=1.0)
    stalled = scalar["compile_stall_s"] if _stalls(scenario) else None
    return Point(
        load_kind=scenario.load.kind,
        load=load,
        offered_rps=Interval(mean=load, lo=load, hi=load) if steady_rate(scenario) else scalar["arrival_rps"],
        throughput_rps=scalar["throughput_rps"],
        goodput_rps=scalar["goodput_rps"],
        latency_s=both.each(lambda run: run.latency_s, runs[0].latency_s),
        slo_attainment=scalar["slo_attainment"],
        slo_percentile_s=scalar["slo_percentile_s"],
        calibration_share=both.share(lambda run: run.scalars["slo_percentile_s"]),
        verdict=verdict_of(scalar["slo_attainment"], scenario.slo.attainment, saturated=full),
        saturated=full,
        utilisation=used,
        queue_wait_p99_s=scalar["queue_wait_p99_s"],
        mean_parts_s=parts,
        failed_fraction=scalar["failed_fraction"],
        fallback_fraction=scalar["fallback_fraction"] if any(s.fallbacks for s in scenario.signals.values()) else None,
        compile_stall_s=stalled,
        vram_peak_bytes=max(run.scalars["vram_peak_bytes"] for run in runs) if scenario.node.memory else None,
        failures=failures,
        steps_down={
            name: float(np.mean([run.steps_down.get(name, 0.0) for run in runs]))
            for name in sorted({name for run in runs for name in run.steps_down})
        },
        watermark_events=scalar["watermark_events"].mean if scenario.node.memory else None,
        memory_timeline=tuple(runs[0].memory),
        compile_events=tuple(runs[0].compiles),
        bottleneck=bottleneck_of(used, parts, failures, shared=bool(scenario.node.co_tenants)),
        headroom={} if stalled is not None and stalled.mean else headroom(used),
        signals={
            name: _signal(name, runs, both) for name in scenario.signals if all(name in run.signals for run in runs)
        },
        classes={
            name: _class(name, runs, both) for name in scenario.classes if all(name in run.classes for run in runs)
        },
        requests_measured=sum(run.measured for run in runs),
        warmup_removed=tuple(run.warmup_removed for run in runs),
        histogram_edges_s=tuple(HISTOGRAM_EDGES.tolist()),
        histogram=tuple(np.sum([run.histogram for run in runs], axis=0).tolist()),
    )


def _stalls(scenario: Scenario) -> bool:
    """Whether sessions can stall to load or compile in this scenario."""
    cold = scenario.replicas.start == "cold" or any(fault.comes_back == "cold" for fault in scenario.replicas.faults)
    return cold or any(choice.compile for signal in scenario.signals.values() for choice in signal.choices)


_SHARES = frozenset({"slo_attainment", "failed_fraction", "backlog_share"})
_SHOWN = ("mean", "p50", "p95", "p99")


def _signal(name: str, runs: Sequence[Figures], both: Both) -> SignalResult:
    parts = both.each(lambda run: run.signals[name], (key for key in runs[0].signals[name] if key.startswith("part:")))
    return SignalResult(
        requests=sum(run.signal_requests[name] for run in runs),
        latency_s=both.each(lambda run: run.signals[name], _SHOWN),
        mean_parts_s={key.removeprefix("part:"): value for key, value in parts.items()},
    )


def _class(name: str, runs: Sequence[Figures], both: Both) -> ClassResult:
    return ClassResult(
        requests=sum(run.class_requests[name] for run in runs),
        latency_s=both.each(lambda run: run.classes[name], _SHOWN),
        slo_attainment=both.interval(lambda run: run.classes[name]["slo_attainment"], lowest=0.0, highest=1.0),
    )
