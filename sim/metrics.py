"""Figures of one replication, read from its records.

Warm-up: MSER-5 on the logarithm of latencies in order of arrival (White 1997): batch means of 5, cut where the standard
error of what remains is least, at most half. Only a steady arrival process has one: bursts start at an empty node each time, and a
trace, a day or a spike is measured from its first request (the rule would cut the morning peak out of a day).
The window runs from the arrival of the first kept request to the last arrival (to the last answer for bursts), so that
the run-out after arrivals have stopped does not dilute rates and utilisations. Latencies count every kept request,
failed ones included. Units: seconds, requests a second, shares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.node import NodeSpec
from sim.records import Events, Records
from sim.result import TIME_PARTS
from sim.tracks import FAILURES

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
MOST_COMPILES = 200  # of one replication, told one by one; more would be a picture of nothing
HISTOGRAM_EDGES: Floats = np.geomspace(1e-4, 1e3, 141)  # 20 bins a decade, 0.1 ms to 1000 s


@dataclass(frozen=True)
class Figures:
    """One replication as plain numbers; nested names as in `sim.result.Point`."""

    scalars: Mapping[str, float]
    latency_s: Mapping[str, float]
    utilisation: Mapping[str, float]
    mean_parts_s: Mapping[str, float]
    signals: Mapping[str, Mapping[str, float]]
    classes: Mapping[str, Mapping[str, float]]
    signal_requests: Mapping[str, int]
    class_requests: Mapping[str, int]
    failures: Mapping[str, float]
    steps_down: Mapping[str, float]
    memory: list[tuple[float, float]]
    compiles: list[tuple[float, str, int, float]]
    measured: int
    warmup_removed: int
    histogram: NDArray[np.int64]


def mser5(values: Floats) -> int:
    """How many leading values the MSER-5 rule removes (a multiple of 5, at most half)."""
    batches = values.size // 5
    return mser(values[: batches * 5].reshape(batches, 5).mean(axis=1)) * 5


def mser(means: Floats) -> int:
    """How many leading batches the MSER rule removes, at most half, given the means of all."""
    batches = means.size
    if batches < 4:
        return 0
    centred = means - means.mean()  # keeps the running sums small
    left = np.arange(batches, 0, -1)
    total = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred * centred)[::-1])[::-1]
    spread = np.maximum(squares - total * total / left, 0.0) / (left * left)
    return int(np.argmin(spread[: batches // 2 + 1]))


def warm_up(latency: Floats) -> int:
    """How many leading requests are warm-up: MSER-5 on log(latency). docs/decisions/0014 has what the logarithm is for."""
    return mser5(log_latency(latency))


def log_latency(latency: Floats) -> Floats:
    return np.log(np.maximum(latency, 1e-9))


def figures(
    records: Records,
    class_names: tuple[str, ...],
    slo_s: float,
    attainment: float,
    *,
    bursts: bool,
    steady: bool = True,
) -> Figures:
    """All figures of one replication. `steady`: the arrival process has a warm-up to remove."""
    latency = records.latency
    removed = 0 if bursts or not steady else warm_up(latency)
    kept: Mask = np.arange(latency.size) >= removed
    window = (float(records.arrived[removed]), float(records.answered.max() if bursts else records.arrived[-1]))
    parts = time_parts(records)
    ok: Mask = ~records.failed & (latency <= slo_s)
    queued = waited(parts)

    counted = np.where(records.failed, np.inf, latency)[kept]
    length = window[1] - window[0]
    in_window: Mask = (records.answered >= window[0]) & (records.answered <= window[1])
    arrivals = float(kept.sum() - 1) if not bursts else float(kept.sum())
    scalars = {
        "throughput_rps": ratio(float(in_window.sum()), length),
        "goodput_rps": ratio(float((in_window & ok).sum()), length),
        "arrival_rps": ratio(arrivals, length),
        "backlog_share": ratio(float((kept & (records.answered > window[1])).sum()), float(kept.sum())),
        "slo_attainment": float(ok[kept].mean()),
        "slo_percentile_s": float(_percentiles(counted, [100 * attainment])[0]),
        "queue_wait_p99_s": float(np.percentile(q, 99)) if (q := queued[kept & ~records.failed]).size else float("nan"),
        "failed_fraction": float(records.failed[kept].mean()),
    }
    answered: Mask = kept & ~records.failed
    signals, signal_requests = _by_signal(records, answered)
    class_of = records.work.class_of[kept]
    return Figures(
        scalars=scalars | event_scalars(records),
        latency_s=_latency(counted),
        utilisation=utilisation(records, *window),
        mean_parts_s={part: _mean(parts[part][answered]) for part in TIME_PARTS},
        signals=signals,
        classes={
            name: {**_latency(counted[class_of == k]), "slo_attainment": float(ok[kept][class_of == k].mean())}
            for k, name in enumerate(class_names)
            if np.any(class_of == k)
        },
        signal_requests=signal_requests,
        class_requests={name: int((class_of == k).sum()) for k, name in enumerate(class_names)},
        failures={reason: float((records.failure[kept] == k).mean()) for k, reason in enumerate(FAILURES) if k},
        steps_down=steps_down_of(records.node, records.events.steps_down, records.arrived.size),
        memory=_memory(records),
        compiles=compiles_of(records.node, records.events),
        measured=int(kept.sum()),
        warmup_removed=removed,
        histogram=np.histogram(np.clip(latency[answered], HISTOGRAM_EDGES[0], HISTOGRAM_EDGES[-1]), HISTOGRAM_EDGES)[0],
    )


def event_scalars(records: Records) -> dict[str, float]:
    """Stalls, fallbacks and memory of one replication. compile_stall_s: seconds that sessions stood still to load or compile."""
    ran = records.variant >= 0
    first = np.arange(len(records.node.signals))
    peak = max((used for _, _, _, used in records.events.memory), default=float("nan"))
    return {
        "compile_stall_s": float(records.stalls["compile"].sum() + records.stalls["load"].sum()),
        "fallback_fraction": ratio(float((ran & (records.variant != first)).sum()), float(ran.sum())),
        "vram_peak_bytes": peak,
        "watermark_events": float(len(records.events.watermarks)),
    }


def steps_down_of(node: NodeSpec, counted: Mapping[tuple[int, str], int], requests: int) -> dict[str, float]:
    """`signal:provider:reason` -> count a request."""
    counts: dict[str, float] = {}
    for (v, reason), count in counted.items():
        variant = node.variant(v)
        name = f"{node.signals[variant.signal]}:{variant.provider}:{reason}"
        counts[name] = counts.get(name, 0.0) + count / requests
    return counts


def compiles_of(node: NodeSpec, events: Events) -> list[tuple[float, str, int, float]]:
    """(start, `signal:provider`, tokens, seconds) of the first compiles, on all replicas."""
    variants = [node.variant(v) for v in range(node.variant_count)]
    names = [f"{node.signals[variant.signal]}:{variant.provider}" for variant in variants]
    return [(time, names[v], tokens, seconds) for time, _, v, tokens, seconds in events.compiles[:MOST_COMPILES]]


def _memory(records: Records) -> list[tuple[float, float]]:
    """(time, bytes) of the device that was fullest, at most some 400 points: the largest in each stretch of time."""
    events = records.events.memory
    if not events:
        return []
    _, replica, device, _ = max(events, key=lambda event: event[3])
    line = [(time, used) for time, k, d, used in events if (k, d) == (replica, device)]
    return thinned(line)


def thinned(line: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most some 400 points of a line: the largest in each stretch."""
    step = max(len(line) // 400, 1)
    return [max(line[k : k + step], key=lambda point: point[1]) for k in range(0, len(line), step)]


def time_parts(records: Records) -> dict[str, Floats]:
    """(n,) seconds by part, along the slowest signal of each stage; over TIME_PARTS they sum to the latency.

    Of a failed request the parts are what is known of them. Time with a signal that was given up, where the router
    answers without it, counts as fallback.
    """
    n = records.arrived.size
    rows = np.arange(n)
    parts = {part: np.zeros(n) for part in TIME_PARTS}
    parts["retry"] = records.entered - records.arrived
    parts["router_queue"] = records.router_started - records.entered
    parts["router_cpu"] = records.router_ended - records.router_started
    for stage in records.node.stages:
        columns = np.array(stage)
        ended = np.where(np.isnan(records.ended[:, columns]), -np.inf, records.ended[:, columns])
        slowest = columns[np.argmax(ended, axis=1)]
        ran = np.isfinite(records.ended[rows, slowest])
        for part, seconds in job_parts(records, rows, slowest).items():
            parts[part] += np.where(ran, seconds, 0.0)
    rest = np.where(records.failed, 0.0, records.latency - np.sum(list(parts.values()), axis=0))
    parts["fallback"] += np.where(rest > 1e-9 * np.maximum(records.latency, 1.0), rest, 0.0)
    return parts


def waited(parts: Mapping[str, Floats]) -> Floats:
    """(n,) seconds in queues: what `queue_wait_p99_s` is about."""
    return parts["router_queue"] + parts["lock"] + parts["session_queue"]


def job_parts(records: Records, rows: NDArray[np.intp], signal: NDArray[np.intp] | int) -> dict[str, Floats]:
    ready, locked = records.ready[rows, signal], records.locked[rows, signal]
    started, ended = records.started[rows, signal], records.ended[rows, signal]
    own = np.minimum(records.own_s[rows, signal], ended - started)  # rounding may leave ended - started a hair short
    # Most runs have no stalls; adding up arrays of zeros would be a third of the time that all figures take.
    stalls = {kind: seconds[rows, signal] for kind, seconds in records.stalls.items() if seconds.any()}
    stalled = np.sum(list(stalls.values()), axis=0) if stalls else 0.0
    nothing = np.zeros(ready.size)
    stalls = {kind: stalls.get(kind, nothing) for kind in records.stalls}
    return {
        "lock": locked - ready,
        "session_queue": np.maximum(started - locked - stalled, 0.0),
        **stalls,
        "device_own": own,
        "device_slowdown": ended - started - own,
    }


def utilisation(records: Records, begin: float, end: float) -> dict[str, float]:
    """Mean share in use over [begin, end] of the router CPU, each device, lock domain and signal's sessions.

    With replicas: the mean over them.
    """
    length = (end - begin) * records.node.replicas.count
    return {name: ratio(float(seconds), length) for name, seconds in in_use(records, begin, end).items()}


def in_use(records: Records, begin: float, end: float) -> dict[str, float]:
    """Seconds in use within [begin, end] of a resource that is one: workers and sessions count their share of it.

    A device's seconds are the work done on it: the integral of min(1, sum of f) is the sum of f * seconds of own work. A
    job that straddles the window's edge counts in proportion to its time inside.
    """
    node = records.node
    more: defaultdict[str, float] = defaultdict(float)
    for name, seconds in beside(node, records.events, begin, end):
        more[name] += seconds
    ran = np.isfinite(records.ended)
    held = np.where(ran, _overlap(records.locked, records.ended, begin, end), 0.0).sum(axis=0)
    seated = np.where(ran & (records.share > 0), _overlap(records.started, records.ended, begin, end), 0.0)
    routed = np.isfinite(records.router_ended)
    used = {
        "router_cpu": _overlap(records.router_started[routed], records.router_ended[routed], begin, end).sum()
        / node.cpu_workers
    }
    work = np.where(ran, records.share * records.own_s * _share_inside(records.started, records.ended, begin, end), 0.0)
    for d, device in enumerate(node.devices):
        name = f"device:{device}"
        used[name] = float(work[records.device == d].sum()) + more[name]
    for k, (domain, _) in enumerate(node.locks):
        used[f"lock:{domain}"] = sum(held[s] for s, lock in enumerate(node.lock_of) if lock == k) / node.lock_servers(k)
    for v in range(node.variant_count):
        s, name = node.variant(v).signal, sessions_of(node, v)
        used[name] = (seated[:, s][records.variant[:, s] == v].sum() + more[name]) / node.sessions[s]
    return used


def beside(node: NodeSpec, events: Events, begin: float, end: float) -> Iterator[tuple[str, float]]:
    """(resource, seconds in use within [begin, end]) of what is in no row: inferences for nobody, sessions that only wait."""
    for x in events.lost:
        yield f"device:{node.devices[x.device]}", x.work * float(_share_inside(x.start, x.end, begin, end))
        yield sessions_of(node, x.variant), float(_overlap(x.start, x.end, begin, end))
    for v, a, b in events.holds:
        yield sessions_of(node, v), float(_overlap(a, b, begin, end))


def sessions_of(node: NodeSpec, v: int) -> str:
    """The name of a variant's sessions among resources."""
    variant = node.variant(v)
    name = node.signals[variant.signal]
    return f"session:{name if v < len(node.signals) else f'{name}@{variant.provider}'}"


def _share_inside(start: Floats | float, stop: Floats | float, begin: float, end: float) -> Floats:
    """Which part of [start, stop] lies in [begin, end], 0 to 1."""
    stay = np.asarray(stop, dtype=float) - start
    return np.divide(_overlap(start, stop, begin, end), stay, out=np.zeros_like(stay), where=stay > 0)


def _overlap(start: Floats | float, stop: Floats | float, begin: float, end: float) -> Floats:
    return np.asarray(np.maximum(np.minimum(stop, end) - np.maximum(start, begin), 0.0))


def _by_signal(records: Records, kept: Mask) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    by_name: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    for s, name in enumerate(records.node.signals):
        rows = np.flatnonzero(kept & np.isfinite(records.ended[:, s]))
        counts[name] = rows.size
        if rows.size:
            seconds = records.ended[rows, s] - records.ready[rows, s]
            parts = {f"part:{k}": float(v.mean()) for k, v in job_parts(records, rows, s).items()}
            by_name[name] = {**_latency(seconds), **parts}
    return by_name, counts


def _latency(seconds: Floats) -> dict[str, float]:
    """Mean over what was answered; percentiles over all, a failed request counting as endless (infinity)."""
    values = _percentiles(seconds, list(PERCENTILES.values()))
    names = dict(zip(PERCENTILES, values.tolist(), strict=True))
    return {"mean": _mean(seconds[np.isfinite(seconds)]), **names}


def _percentiles(seconds: Floats, levels: list[float]) -> Floats:
    """Linear percentiles of values that may be infinite: infinite as soon as a neighbour in rank is."""
    ordered = np.sort(seconds)
    place = np.array(levels) / 100 * (ordered.size - 1)
    low = ordered[np.floor(place).astype(int)]
    high = ordered[np.ceil(place).astype(int)]
    share = place - np.floor(place)
    return np.where(
        np.isinf(high),
        np.where(share > 0, np.inf, low),
        low + share * (np.where(np.isinf(high), 0.0, high) - np.where(np.isinf(low), 0.0, low)),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")


def ratio(amount: float, length: float) -> float:
    return amount / length if length > 0 else float("nan")
