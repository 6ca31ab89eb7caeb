"""A capacity search of a scenario: the probe that runs the engine, and the answer in the form of `simcap.capacity/1`.

Enters: scenario, profile, seed, options. Leaves: a `CapacitySearch`. A probe's replication is `engine.run_once` at that
load, so all loads see the same arrivals, lengths and service draws; the number of requests is the search's to choose
(bursts, traces and days keep theirs). The same arguments give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from profiles.schema import Profile, origins
from scenarios.arrivals import Burst
from scenarios.loader import bind, read_trace
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.arrivals import notes_of_arrivals
from sim.calibration import Asked, Calibration
from sim.engine import run_once
from sim.inputs import inputs_of, notes_of, uncertainty_of, used_of
from sim.metrics import figures
from sim.result import Interval, Slo
from sim.search import find
from sim.search_calibration import widened
from sim.search_levels import Outcome, Probe, Reading, Settings
from sim.search_refine import Finding
from sim.search_result import CapacitySearch, Over, SearchPoint, Use, sentence
from sim.search_workers import Search, opened
from sim.why import first_to_fill

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Options:
    """`precision`: half width of the interval that the search is to reach, relative to the capacity. `max_requests`: its
    effort, all runs together. `uncertainty`: what the interval of a capacity is to cover in the end. `workers`, `dask`: where
    it runs, which changes no answer.
    """  # fmt: skip

    precision: float = 0.03
    max_requests: int = 5_000_000
    uncertainty: Asked = "full"
    workers: int = 1
    dask: str | None = None


@dataclass(frozen=True)
class Ask:
    """The question: what is simulated, and how much of it. `trace`: rows of `loader.read_trace`."""

    scenario: Scenario
    profile: Profile
    seed: int
    options: Options
    trace: TraceRows | None


def probe_of(scenario: Scenario, profile: Profile, seed: int, trace: TraceRows | None = None) -> Probe:
    """The probe that runs the engine."""
    bursts = isinstance(scenario.arrivals, Burst)
    slo, steady = scenario.slo, _steady(scenario)

    def probe(load: float, replication: int, requests: int) -> Outcome:
        # A steady process is as long as the search needs it; a story keeps the length that its scenario gives it.
        change = {"requests": requests, "duration_s": None} if steady else {}
        measurement = scenario.measurement.model_copy(update=change)
        length = scenario.model_copy(update={"measurement": measurement})
        records = run_once(length, profile, seed, load, replication, trace)
        got = figures(
            records,
            tuple(scenario.classes),
            slo.latency_s,
            slo.attainment,
            bursts=bursts,
            steady=steady,
        )
        latency = np.where(records.failed, np.inf, records.latency)
        came = load if scenario.load.kind == "rps" else got.scalars["arrival_rps"]
        return Outcome(
            latency_s=latency.astype(np.float32),
            breached=~(latency <= slo.latency_s),
            backlog_share=got.scalars["backlog_share"],
            served=load * got.scalars["throughput_rps"] / came,
            utilisation=got.utilisation,
        )

    return probe


def settings_of(scenario: Scenario, options: Options) -> Settings:
    """Full runs begin with half the effort that a load point of `simcap run` has, in twice as many replications of a
    quarter of the length: replications tell about the spread between them, and runs that prove too short are lengthened.
    """  # fmt: skip
    kind, steady = scenario.load.kind, _steady(scenario)
    measurement = scenario.measurement
    return Settings(
        attainment=scenario.slo.attainment,
        start=scenario.load.points[0],
        requests=max(measurement.requests // 4, 1000) if steady else measurement.requests,
        replications=2 * measurement.replications if steady else measurement.replications,
        precision=options.precision,
        max_requests=options.max_requests,
        whole=kind in {"burst_size", "clients"},
        rates=kind in {"rps", "rate_scale"},
        steady=steady,
    )


def _steady(scenario: Scenario) -> bool:
    """Whether runs have a warm-up that ends, and may be longer or shorter than the scenario says."""
    kept = scenario.measurement.warmup == "keep"  # the start is what the scenario asks about
    return scenario.arrivals.steady and not kept and not isinstance(scenario.arrivals, Burst)


def capacity(
    scenario: Scenario, profile: Profile, seed: int, options: Options, progress: Progress | None = None
) -> CapacitySearch:
    """Search for the highest load that keeps the SLO."""
    trace = read_trace(scenario)
    bound = bind(scenario, profile, trace=trace)  # a scenario that cannot be answered says so before anything runs
    settings = settings_of(scenario, options)
    known, wider = Calibration.of(profile, used_of(bound)), None
    with opened(Search(scenario, profile, seed, trace, settings, probe_of), options.workers, options.dask) as workers:
        finding = find(probe_of(scenario, profile, seed, trace), settings, progress, workers.level)
        found = Interval(mean=finding.load, lo=finding.lo, hi=finding.hi)
        if options.uncertainty == "full" and known.moves:
            wider = widened(workers.roots, found, settings, known)
    if wider is not None:
        found, finding = wider.capacity, replace(finding, spent=finding.spent + wider.spent)
    fullest = fullest_at(scenario, finding.at)
    said = sentence(finding.kind, finding.reason, found, slo_of(scenario), scenario.load.kind, fullest)
    ask = Ask(scenario, profile, seed, options, trace)
    return answer(ask, finding, said, fullest, capacity=found, covers_calibration=wider is not None)


def answer(
    ask: Ask,
    finding: Finding,
    said: str,
    fullest: tuple[Use, ...],
    *,
    capacity: Interval | None = None,
    over: Over | None = None,
    covers_calibration: bool = False,
) -> CapacitySearch:
    """The whole file: what was found, and what it rests on."""
    scenario, profile = ask.scenario, ask.profile
    bound = bind(scenario, profile, trace=ask.trace)
    counts: dict[str, int] = {}
    used = used_of(bound)
    known = uncertainty_of(scenario, profile, used, ask.options.uncertainty)
    for entry in used:
        for origin, count in origins(entry).items():
            counts[origin] = counts.get(origin, 0) + count
    return CapacitySearch(
        scenario=scenario.name,
        question=scenario.question,
        profile=profile.name,
        profile_origins=counts,
        seed=ask.seed,
        slo=slo_of(scenario),
        load_kind=scenario.load.kind,
        outcome=finding.kind,
        reason=finding.reason,
        capacity=capacity,
        over=over,
        sentence=said,
        precision_asked=ask.options.precision if over is None else None,
        precision_reached=finding.precision,
        uncertainty=known.model_copy(update={"covers": "full" if covers_calibration else "simulation"}),
        fullest=fullest,
        points=tuple(point_of(reading) for reading in finding.readings),
        requests_simulated=finding.spent,
        requests_allowed=ask.options.max_requests,
        inputs=inputs_of(scenario, profile, bound),
        notes=(*notes_of_arrivals(scenario, ask.trace), *notes_of(scenario, profile)),
    )


def slo_of(scenario: Scenario) -> Slo:
    return Slo(latency_s=scenario.slo.latency_s, attainment=scenario.slo.attainment)


def point_of(reading: Reading) -> SearchPoint:
    """A reading as the file holds it."""
    late = reading.percentile_s
    return SearchPoint(
        load=reading.load,
        requests=reading.length,
        replications=reading.replications,
        slo_attainment=reading.attainment,
        slo_percentile_s=late if np.isfinite(late) else None,
        utilisation=dict(reading.utilisation),
        bottleneck=first_to_fill(reading.utilisation),
        saturated=reading.saturated,
        verdict=reading.verdict,
    )


def fullest_at(scenario: Scenario, reading: Reading | None) -> tuple[Use, ...]:
    """Resources by utilisation, the fullest first. Sessions behind a lock domain that stands before them are left out:
    they are held no longer than it is and would only repeat it.
    """  # fmt: skip
    if reading is None:
        return ()
    left: dict[str, Interval] = dict(reading.utilisation)
    order: list[Use] = []
    while left:
        name = first_to_fill(left)
        order.append(Use(resource=name, utilisation=left.pop(name).mean or 0.0))
        if name.startswith("lock:"):
            left = {key: used for key, used in left.items() if not _behind(scenario, key, name.removeprefix("lock:"))}
    return tuple(order)


def _behind(scenario: Scenario, resource: str, domain: str) -> bool:
    kind, _, name = resource.partition(":")
    signal = scenario.signals.get(name)
    return kind == "session" and signal is not None and signal.lock_domain == domain
