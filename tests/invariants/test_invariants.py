"""The numbered invariants of docs/explanation/invariants.md, over random small nodes."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.arrivals import OpenLoop
from sim.engine import simulate
from sim.metrics import time_parts
from sim.node import NodeSpec
from sim.records import Records
from sim.result import TIME_PARTS
from sim.streams import Streams
from sim.work import Work


@st.composite
def runs(draw: st.DrawFn) -> Records:
    signals = draw(st.integers(1, 4))
    cut = draw(st.integers(0, signals - 1))
    stages = tuple(stage for stage in (tuple(range(cut)), tuple(range(cut, signals))) if stage)
    lock_of = tuple(draw(st.sampled_from([None, 0, 1])) for _ in range(signals))
    order = draw(st.sampled_from(["fifo", "random"]))
    devices = draw(st.integers(1, 2))
    node = NodeSpec(
        cpu_workers=draw(st.integers(1, 3)),
        signals=tuple("abcd"[:signals]),
        stages=stages,
        sessions=tuple(draw(st.integers(1, 3)) for _ in range(signals)),
        lock_of=lock_of,
        locks=(("l0", order), ("l1", order)),
        device_of=tuple(draw(st.integers(0, devices - 1)) for _ in range(signals)),
        devices=("gpu", "cpu")[:devices],
    )
    n, seed = draw(st.integers(1, 40)), draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    needed = rng.random((n, signals)) < draw(st.sampled_from([0.5, 1.0]))
    work = Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.ones(n, dtype=np.int64),
        router_s=rng.exponential(0.2, n) * draw(st.sampled_from([0.0, 1.0])),
        needed=needed,
        service_s=rng.exponential(1.0, (n, signals)),
        occupancy=rng.uniform(0.05, 1.0, (n, signals)),
    )
    times = np.cumsum(rng.exponential(draw(st.sampled_from([0.0, 0.3, 2.0])), n))
    return simulate(node, work, OpenLoop(times), Streams(seed, 0))


def spans(records: Records, step: str, s: int) -> list[tuple[float, float]]:
    rows = records.work.needed[:, s]
    return list(zip(getattr(records, step)[rows, s].tolist(), records.ended[rows, s].tolist(), strict=True))


def most_at_once(intervals: list[tuple[float, float]]) -> int:
    edges = sorted([(b, 1) for b, e in intervals if e > b] + [(e, -1) for b, e in intervals if e > b])
    level = most = 0
    for _, change in edges:
        level += change
        most = max(most, level)
    return most


@settings(max_examples=150, deadline=None)
@given(runs())
def test_1_conservation_and_2_causality(records: Records) -> None:
    """1: each request is answered once, each needed job ends once. 2: no step comes before the one that it follows."""
    assert np.all(np.isfinite(records.answered))
    needed = records.work.needed
    assert np.array_equal(np.isfinite(records.ended), needed)
    steps = [records.arrived, records.router_started, records.router_ended]
    for a, b in itertools.pairwise(steps):
        assert np.all(a <= b)
    for a, b in (("ready", "locked"), ("locked", "started"), ("started", "ended")):
        assert np.all((getattr(records, a) <= getattr(records, b))[needed])
    last = np.where(needed, records.ended, -np.inf).max(axis=1)
    assert np.array_equal(np.maximum(last, records.router_ended), records.answered)


@settings(max_examples=150, deadline=None)
@given(runs())
def test_3_capacity_of_stations(records: Records) -> None:
    """3: never more jobs in a station than it has servers."""
    node = records.node
    for s in range(len(node.signals)):
        assert most_at_once(spans(records, "started", s)) <= node.sessions[s]
    for k in range(len(node.locks)):
        held = [span for s, lock in enumerate(node.lock_of) if lock == k for span in spans(records, "locked", s)]
        assert most_at_once(held) <= 1
    router = list(zip(records.router_started.tolist(), records.router_ended.tolist(), strict=True))
    assert most_at_once(router) <= node.cpu_workers


@settings(max_examples=150, deadline=None)
@given(runs())
def test_4_work_conservation_of_devices(records: Records) -> None:
    """4: between two changes all jobs on a device run at 1/max(1, sum f), so each gets exactly its own seconds of work."""
    for d in range(len(records.node.devices)):
        jobs = [
            (records.started[i, s], records.ended[i, s], records.work.occupancy[i, s], records.work.service_s[i, s])
            for s, on in enumerate(records.node.device_of)
            if on == d
            for i in np.flatnonzero(records.work.needed[:, s])
        ]
        times = np.unique([t for job in jobs for t in job[:2]])
        got = np.zeros(len(jobs))
        for begin, end in itertools.pairwise(times):
            inside = [k for k, job in enumerate(jobs) if job[0] <= begin and job[1] >= end]
            filled = sum(jobs[k][2] for k in inside)
            got[inside] += (end - begin) / max(1.0, filled)
        np.testing.assert_allclose(got, [job[3] for job in jobs], rtol=1e-6, atol=1e-9)


@settings(max_examples=150, deadline=None)
@given(runs())
def test_5_attribution_is_complete(records: Records) -> None:
    """5: the parts of a request's time are not negative and add up to its latency."""
    parts = time_parts(records)
    np.testing.assert_allclose(sum(parts[p] for p in TIME_PARTS), records.latency, atol=1e-9)
    assert all(np.all(parts[p] >= -1e-9) for p in TIME_PARTS)


@settings(max_examples=100, deadline=None)
@given(runs())
def test_6_no_server_idles_beside_its_queue(records: Records) -> None:
    """6: a FIFO lock is handed on at the very instant that it is free while a job waits for it."""
    node = records.node
    for k, (_, order) in enumerate(node.locks):
        rows = [
            (records.ready[i, s], records.locked[i, s], records.ended[i, s])
            for s, lock in enumerate(node.lock_of)
            if lock == k
            for i in np.flatnonzero(records.work.needed[:, s])
        ]
        releases = {ended for _, _, ended in rows}
        for ready, locked, _ in rows:
            assert locked == ready or locked in releases
        if order == "fifo":
            by_ready = sorted(rows, key=lambda row: (row[0], row[1]))
            assert all(a[1] <= b[1] for a, b in itertools.pairwise(by_ready))
