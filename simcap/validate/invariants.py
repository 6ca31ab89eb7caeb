"""The numbered invariants of docs/explanation/invariants.md, as functions that say what is broken.

Enters: a `Case` and the records of its run. Leaves: a sentence for each break; none when the invariant holds. Times in
seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from sim.metrics import time_parts, utilisation
from sim.records import Records
from sim.result import TIME_PARTS
from simcap.validate.random_nodes import Case

Check = Callable[[Case, Records], Iterator[str]]

ROUNDING = 1e-7  # seconds, absolute: sums of some hundred times of a few seconds


def conservation(case: Case, records: Records) -> Iterator[str]:
    """1: each request is answered once or has failed; one that is answered has each signal that it needs."""
    if not np.isfinite(records.answered).all():
        yield "a request never ends"
    ok = ~records.failed
    ran = np.isfinite(records.ended) & ok[:, None]
    if not case.node.limits.answer_without_signal and not np.array_equal(ran[ok], case.work.needed[ok]):
        yield "an answered request lacks a signal that it needs, or ran one that it does not"


def causality(case: Case, records: Records) -> Iterator[str]:
    """2: no step comes before the one that it follows, and the answer comes with the last."""
    ok = ~records.failed
    ran = np.isfinite(records.ended) & ok[:, None]
    for names, rows in (
        (("arrived", "entered", "router_started", "router_ended", "answered"), ok),
        (("ready", "locked", "started", "ended"), ran),
    ):
        for a, b in itertools.pairwise(names):
            if not (getattr(records, a)[rows] <= getattr(records, b)[rows]).all():
                yield f"{b} comes before {a}"
    last = np.maximum(np.where(ran, records.ended, -np.inf).max(axis=1, initial=-np.inf), records.router_ended)
    if (last > records.answered)[ok].any():
        yield "a request is answered before its last step"
    if not case.node.variants and not np.array_equal(last, records.answered):
        yield "a request is answered after its last step"


def capacity(case: Case, records: Records) -> Iterator[str]:
    """3: never more jobs in a station than it has servers."""
    node = case.node
    for s, sessions in enumerate(node.sessions):
        if most_at_once(_spans(records, "started", s)) > sessions:
            yield f"signal {node.signals[s]} runs on more than its {sessions} sessions"
    for k, (name, _) in enumerate(node.locks):
        held = [span for s, lock in enumerate(node.lock_of) if lock == k for span in _spans(records, "locked", s)]
        if most_at_once(held) > node.lock_servers(k):
            yield f"lock domain {name} is held by more than its width of {node.lock_servers(k)}"
    router = list(zip(records.router_started.tolist(), records.router_ended.tolist(), strict=True))
    if most_at_once(router) > node.cpu_workers:
        yield f"the router works on more than {node.cpu_workers} requests at once"


def work_conservation(case: Case, records: Records) -> Iterator[str]:
    """4: between two changes all jobs on a device run at 1/max(1, sum f), so each gets exactly its own seconds of work."""
    brought = case.work
    for d, name in enumerate(case.node.devices):
        jobs = [
            (records.started[i, s], records.ended[i, s], brought.occupancy[i, s], brought.service_s[i, s])
            for s, on in enumerate(case.node.device_of)
            if on == d
            for i in np.flatnonzero(brought.needed[:, s])
        ]
        got = np.zeros(len(jobs))
        for begin, end in itertools.pairwise(np.unique([t for job in jobs for t in job[:2]])):
            inside = [k for k, job in enumerate(jobs) if job[0] <= begin and job[1] >= end]
            got[inside] += (end - begin) / max(1.0, sum(jobs[k][2] for k in inside))
        if not np.allclose(got, [job[3] for job in jobs], rtol=1e-6, atol=1e-9):
            yield f"device {name} gave a job more or less than its own seconds of work"


def attribution(_: Case, records: Records) -> Iterator[str]:
    """5: the parts of an answered request's time are not negative and add up to its latency."""
    parts, ok = time_parts(records), ~records.failed
    total = np.sum([parts[part] for part in TIME_PARTS], axis=0)
    if not np.allclose(total[ok], records.latency[ok], rtol=1e-7, atol=ROUNDING):
        yield "the parts of a request's time do not add up to its latency"
    for part in TIME_PARTS:
        if (parts[part][ok] < -1e-9).any():
            yield f"{part} is negative"


def no_idle_lock(case: Case, records: Records) -> Iterator[str]:
    """6: a lock is handed on at the very instant that it is free while a job waits; under fifo in order of waiting."""
    for k, (name, order) in enumerate(case.node.locks):
        rows = [
            (records.ready[i, s], records.locked[i, s], records.ended[i, s])
            for s, lock in enumerate(case.node.lock_of)
            if lock == k
            for i in np.flatnonzero(case.work.needed[:, s])
        ]
        releases = {ended for _, _, ended in rows}
        if any(locked != ready and locked not in releases for ready, locked, _ in rows):
            yield f"lock domain {name} idles while a job waits"
        by_ready = sorted(rows, key=lambda row: (row[0], row[1]))
        if order == "fifo" and any(a[1] > b[1] for a, b in itertools.pairwise(by_ready)):
            yield f"lock domain {name} serves out of order"


def same_seed(case: Case, records: Records) -> Iterator[str]:
    """7: the same node, work and seed give the same times, bit for bit."""
    again = case.run()
    for name in ("answered", "started", "ended", "variant", "replica", "failure"):
        if getattr(again, name).tobytes() != getattr(records, name).tobytes():
            yield f"{name} differs in a second run of the same seed"
    if again.events != records.events:
        yield "the events differ in a second run of the same seed"


def memory(case: Case, records: Records) -> Iterator[str]:
    """8: memory in use is at most what the device has, except by what a co-tenant grew; it is never negative."""
    spec = case.node.memory
    if spec is None:
        return
    growth = max(max(held for _, held in spec.others) - spec.others[0][1], 0.0)
    used = [u for _, _, _, u in records.events.memory]
    if used and (min(used) < -1e-9 or max(used) > spec.capacity_bytes + growth + 1e-9):
        yield f"memory in use goes from {min(used)} to {max(used)} of {spec.capacity_bytes}"


def utilisations(_: Case, records: Records) -> Iterator[str]:
    """9: every utilisation lies in 0 to 1."""
    for name, used in utilisation(records, 0.0, float(records.answered.max()) + 1e-9).items():
        if not -1e-9 <= used <= 1 + 1e-6:
            yield f"utilisation of {name} is {used}"


def providers(case: Case, records: Records) -> Iterator[str]:
    """10: a provider that is not available runs nothing, and each job's variant belongs to its signal."""
    for s, name in enumerate(case.node.signals):
        for v in set(records.variant[:, s].tolist()) - {-1}:
            variant = case.node.variant(v)
            if variant.signal != s or not variant.available:
                yield f"signal {name} ran on a session that is not its own or not available"


PLAIN: dict[int, Check] = {
    1: conservation,
    2: causality,
    3: capacity,
    4: work_conservation,
    5: attribution,
    6: no_idle_lock,
}
"""Those tried on plain nodes, by number."""

FULL: dict[int, Check] = {
    1: conservation,
    2: causality,
    5: attribution,
    7: same_seed,
    8: memory,
    9: utilisations,
    10: providers,
}
"""Those tried on nodes that use every mechanism at once, by number."""


def most_at_once(intervals: list[tuple[float, float]]) -> int:
    """How many of the intervals overlap at most; one that ends where another begins does not overlap it."""
    edges = sorted([(b, 1) for b, e in intervals if e > b] + [(e, -1) for b, e in intervals if e > b])
    level = most = 0
    for _, change in edges:
        level += change
        most = max(most, level)
    return most


def _spans(records: Records, step: str, s: int) -> list[tuple[float, float]]:
    rows = records.work.needed[:, s]
    return list(zip(getattr(records, step)[rows, s].tolist(), records.ended[rows, s].tolist(), strict=True))
