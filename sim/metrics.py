"""Figures of one replication, read from its records.

Warm-up: MSER-5 on latencies in order of arrival (White 1997): batch means of 5, cut where the standard error of what
remains is least, at most half. Bursts start at an empty node each time, so they have no warm-up to remove.
The window runs from the arrival of the first kept request to the last arrival (to the last answer for bursts), so that
the run-out after arrivals have stopped does not dilute rates and utilisations. Latencies count every kept request,
failed ones included. Units: seconds, requests a second, shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.records import Records
from sim.result import TIME_PARTS

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
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
    measured: int
    warmup_removed: int
    histogram: NDArray[np.int64]


def mser5(values: Floats) -> int:
    """How many leading values the MSER-5 rule removes (a multiple of 5, at most half)."""
    batches = values.size // 5
    if batches < 4:
        return 0
    means = values[: batches * 5].reshape(batches, 5).mean(axis=1)
    centred = means - means.mean()  # keeps the running sums small
    left = np.arange(batches, 0, -1)
    total = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred * centred)[::-1])[::-1]
    spread = np.maximum(squares - total * total / left, 0.0) / (left * left)
    return int(np.argmin(spread[: batches // 2 + 1])) * 5


def figures(
    records: Records, class_names: tuple[str, ...], slo_s: float, attainment: float, *, bursts: bool
) -> Figures:
    """All figures of one replication."""
    latency = records.latency
    removed = 0 if bursts else mser5(latency)
    kept: Mask = np.arange(latency.size) >= removed
    window = (float(records.arrived[removed]), float(records.answered.max() if bursts else records.arrived[-1]))
    parts = time_parts(records)
    ok: Mask = ~records.failed & (latency <= slo_s)
    queued = parts["router_queue"] + parts["lock"] + parts["session_queue"]

    length = window[1] - window[0]
    in_window: Mask = (records.answered >= window[0]) & (records.answered <= window[1])
    arrivals = float(kept.sum() - 1) if not bursts else float(kept.sum())
    scalars = {
        "throughput_rps": _ratio(float(in_window.sum()), length),
        "goodput_rps": _ratio(float((in_window & ok).sum()), length),
        "arrival_rps": _ratio(arrivals, length),
        "backlog_share": _ratio(float((kept & (records.answered > window[1])).sum()), float(kept.sum())),
        "slo_attainment": float(ok[kept].mean()),
        "slo_percentile_s": float(np.percentile(latency[kept], 100 * attainment)),
        "queue_wait_p99_s": float(np.percentile(queued[kept], 99)),
        "failed_fraction": float(records.failed[kept].mean()),
    }
    signals, signal_requests = _by_signal(records, kept)
    class_of = records.work.class_of[kept]
    return Figures(
        scalars=scalars,
        latency_s=_latency(latency[kept]),
        utilisation=utilisation(records, *window),
        mean_parts_s={part: float(parts[part][kept].mean()) for part in TIME_PARTS},
        signals=signals,
        classes={
            name: {**_latency(latency[kept][class_of == k]), "slo_attainment": float(ok[kept][class_of == k].mean())}
            for k, name in enumerate(class_names)
            if np.any(class_of == k)
        },
        signal_requests=signal_requests,
        class_requests={name: int((class_of == k).sum()) for k, name in enumerate(class_names)},
        measured=int(kept.sum()),
        warmup_removed=removed,
        histogram=np.histogram(np.clip(latency[kept], HISTOGRAM_EDGES[0], HISTOGRAM_EDGES[-1]), HISTOGRAM_EDGES)[0],
    )


def time_parts(records: Records) -> dict[str, Floats]:
    """(n,) seconds by part, along the slowest signal of each stage; over TIME_PARTS they sum to the latency."""
    n = records.arrived.size
    rows = np.arange(n)
    parts = {part: np.zeros(n) for part in TIME_PARTS}
    parts["router_queue"] = records.router_started - records.arrived
    parts["router_cpu"] = records.router_ended - records.router_started
    for stage in records.node.stages:
        columns = np.array(stage)
        ended = np.where(records.work.needed[:, columns], records.ended[:, columns], -np.inf)
        slowest = columns[np.argmax(ended, axis=1)]
        for part, seconds in _job_parts(records, rows, slowest).items():
            parts[part] += np.where(records.work.needed[rows, slowest], seconds, 0.0)
    return parts


def _job_parts(records: Records, rows: NDArray[np.intp], signal: NDArray[np.intp] | int) -> dict[str, Floats]:
    ready, locked = records.ready[rows, signal], records.locked[rows, signal]
    started, ended = records.started[rows, signal], records.ended[rows, signal]
    own = np.minimum(
        records.work.service_s[rows, signal], ended - started
    )  # rounding may leave ended - started a hair short
    return {
        "lock": locked - ready,
        "session_queue": started - locked,
        "device_own": own,
        "device_slowdown": ended - started - own,
    }


def utilisation(records: Records, begin: float, end: float) -> dict[str, float]:
    """Mean share in use over [begin, end] of the router CPU, each device, lock domain and signal's sessions.

    A device's share is the work done on it: the integral of min(1, sum of f) is the sum of f * seconds of own work. A
    job that straddles the window's edge counts in proportion to its time inside.
    """
    node, needed, length = records.node, records.work.needed, end - begin
    used = {"router_cpu": _overlap(records.router_started, records.router_ended, begin, end).sum() / node.cpu_workers}
    for d, device in enumerate(node.devices):
        used[f"device:{device}"] = sum(
            _work_done(records, s, begin, end) for s, on in enumerate(node.device_of) if on == d
        )
    for k, (name, _) in enumerate(node.locks):
        holders = [s for s, lock in enumerate(node.lock_of) if lock == k]
        used[f"lock:{name}"] = sum(
            _overlap(records.locked[needed[:, s], s], records.ended[needed[:, s], s], begin, end).sum() for s in holders
        )
    for s, name in enumerate(node.signals):
        busy = _overlap(records.started[needed[:, s], s], records.ended[needed[:, s], s], begin, end).sum()
        used[f"session:{name}"] = busy / node.sessions[s]
    return {name: _ratio(float(seconds), length) for name, seconds in used.items()}


def _work_done(records: Records, s: int, begin: float, end: float) -> float:
    rows = records.work.needed[:, s]
    started, ended = records.started[rows, s], records.ended[rows, s]
    stay = ended - started
    inside = np.divide(_overlap(started, ended, begin, end), stay, out=np.zeros_like(stay), where=stay > 0)
    return float(np.sum(records.work.occupancy[rows, s] * records.work.service_s[rows, s] * inside))


def _overlap(start: Floats, stop: Floats, begin: float, end: float) -> Floats:
    return np.asarray(np.maximum(np.minimum(stop, end) - np.maximum(start, begin), 0.0))


def _by_signal(records: Records, kept: Mask) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    by_name: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    for s, name in enumerate(records.node.signals):
        rows = np.flatnonzero(kept & records.work.needed[:, s])
        counts[name] = rows.size
        if rows.size:
            seconds = records.ended[rows, s] - records.ready[rows, s]
            parts = {f"part:{k}": float(v.mean()) for k, v in _job_parts(records, rows, s).items()}
            by_name[name] = {**_latency(seconds), **parts}
    return by_name, counts


def _latency(seconds: Floats) -> dict[str, float]:
    values = np.percentile(seconds, list(PERCENTILES.values()))
    return {"mean": float(seconds.mean()), **{name: float(v) for name, v in zip(PERCENTILES, values, strict=True)}}


def _ratio(amount: float, length: float) -> float:
    return amount / length if length > 0 else float("nan")
