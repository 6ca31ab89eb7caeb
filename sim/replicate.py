"""Replications of every load point, and the intervals over them.

Enters: scenario, profile, seed. Leaves: a `Result`. Each figure is the mean over R independent replications with a 95 %
Student t interval (R - 1 degrees of freedom). Load points share their random numbers and do not depend on one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from scipy import stats

from profiles.schema import Profile, origins
from scenarios.loader import bind
from scenarios.schema import Burst, Scenario
from sim.capacity import bottleneck_of, capacity_of, verdict_of
from sim.engine import run_once
from sim.inputs import inputs_of, notes_of
from sim.metrics import HISTOGRAM_EDGES, Figures, figures
from sim.records import Records
from sim.result import TIME_PARTS, ClassResult, Interval, Point, Result, SignalResult, Slo

SATURATED_BACKLOG = 0.02  # share of arrivals unanswered when arrivals stop; a stable queue keeps it near 0

Progress = Callable[[int, int], None]


def run(
    scenario: Scenario, profile: Profile, seed: int, *, progress: Progress | None = None, keep_records: bool = False
) -> tuple[Result, list[tuple[float, int, Records]]]:
    """Run every load point; `keep_records` also returns (load, replication, records) of each run."""
    entries = bind(scenario, profile)  # before anything runs: a scenario that cannot be answered says so at once
    loads, replications = scenario.load.points, scenario.measurement.replications
    points, kept = [], []
    for p, load in enumerate(loads):
        runs = []
        for r in range(replications):
            records = run_once(scenario, profile, seed, load, r)
            runs.append(_figures(scenario, records))
            if keep_records:
                kept.append((load, r, records))
            if progress:
                progress(p * replications + r + 1, len(loads) * replications)
        points.append(point_of(scenario, load, runs))
    counts: dict[str, int] = {}
    for entry in {e.key: e for e in entries.values()}.values():
        for origin, count in origins(entry).items():
            counts[origin] = counts.get(origin, 0) + count
    result = Result(
        scenario=scenario.name,
        question=scenario.question,
        profile=profile.name,
        profile_origins=counts,
        seed=seed,
        replications=replications,
        requests=scenario.measurement.requests,
        slo=Slo(latency_s=scenario.slo.latency_s, attainment=scenario.slo.attainment),
        points=tuple(points),
        capacity=capacity_of(scenario, points),
        inputs=inputs_of(scenario, profile, entries),
        notes=notes_of(scenario, profile),
    )
    return result, kept


def interval(values: Iterable[float], *, lowest: float = -np.inf, highest: float = np.inf) -> Interval:
    """Mean and 95 % t interval, cut to what the figure can be; NaN anywhere gives an empty interval."""
    data = np.array(list(values), dtype=float)
    if data.size == 0 or not np.all(np.isfinite(data)):
        return Interval(mean=None, lo=None, hi=None)
    mean = float(data.mean())
    half = float(stats.t.ppf(0.975, data.size - 1) * data.std(ddof=1) / np.sqrt(data.size)) if data.size > 1 else np.inf
    if not np.isfinite(half):
        return Interval(mean=mean, lo=None, hi=None)
    return Interval(mean=mean, lo=max(mean - half, lowest), hi=min(mean + half, highest))


def _figures(scenario: Scenario, records: Records) -> Figures:
    bursts = isinstance(scenario.arrivals, Burst)
    return figures(records, tuple(scenario.classes), scenario.slo.latency_s, scenario.slo.attainment, bursts=bursts)


def _seconds(runs: Sequence[Mapping[str, float]], names: Iterable[str]) -> dict[str, Interval]:
    return {name: interval((run[name] for run in runs), lowest=0.0) for name in names}


def point_of(scenario: Scenario, load: float, runs: Sequence[Figures]) -> Point:
    """One load point from its replications."""
    scalar = {
        name: interval((run.scalars[name] for run in runs), lowest=0.0, highest=1.0 if name in _SHARES else np.inf)
        for name in runs[0].scalars
    }
    open_loop = scenario.load.kind == "rps"
    backlog = scalar["backlog_share"]
    saturated = open_loop and backlog.lo is not None and backlog.lo > SATURATED_BACKLOG
    used = {name: interval((run.utilisation[name] for run in runs), lowest=0.0) for name in runs[0].utilisation}
    parts = _seconds([run.mean_parts_s for run in runs], TIME_PARTS)
    return Point(
        load_kind=scenario.load.kind,
        load=load,
        offered_rps=Interval(mean=load, lo=load, hi=load) if open_loop else scalar["arrival_rps"],
        throughput_rps=scalar["throughput_rps"],
        goodput_rps=scalar["goodput_rps"],
        latency_s=_seconds([run.latency_s for run in runs], runs[0].latency_s),
        slo_attainment=scalar["slo_attainment"],
        slo_percentile_s=scalar["slo_percentile_s"],
        verdict=verdict_of(scalar["slo_attainment"], scenario.slo.attainment, saturated=saturated),
        saturated=saturated,
        utilisation=used,
        queue_wait_p99_s=scalar["queue_wait_p99_s"],
        mean_parts_s=parts,
        failed_fraction=scalar["failed_fraction"],
        fallback_fraction=None,
        compile_stall_s=None,
        vram_peak_bytes=None,
        bottleneck=bottleneck_of(used),
        signals={name: _signal(name, runs) for name in scenario.signals if all(name in run.signals for run in runs)},
        classes={name: _class(name, runs) for name in scenario.classes if all(name in run.classes for run in runs)},
        requests_measured=sum(run.measured for run in runs),
        warmup_removed=tuple(run.warmup_removed for run in runs),
        histogram_edges_s=tuple(HISTOGRAM_EDGES.tolist()),
        histogram=tuple(np.sum([run.histogram for run in runs], axis=0).tolist()),
    )


_SHARES = frozenset({"slo_attainment", "failed_fraction", "backlog_share"})
_SHOWN = ("mean", "p50", "p95", "p99")


def _signal(name: str, runs: Sequence[Figures]) -> SignalResult:
    mine = [run.signals[name] for run in runs]
    parts = _seconds(mine, (key for key in mine[0] if key.startswith("part:")))
    return SignalResult(
        requests=sum(run.signal_requests[name] for run in runs),
        latency_s=_seconds(mine, _SHOWN),
        mean_parts_s={key.removeprefix("part:"): value for key, value in parts.items()},
    )


def _class(name: str, runs: Sequence[Figures]) -> ClassResult:
    mine = [run.classes[name] for run in runs]
    return ClassResult(
        requests=sum(run.class_requests[name] for run in runs),
        latency_s=_seconds(mine, _SHOWN),
        slo_attainment=interval((m["slo_attainment"] for m in mine), lowest=0.0, highest=1.0),
    )
