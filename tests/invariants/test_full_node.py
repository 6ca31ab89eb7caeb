"""Invariants 1, 2 and 7 to 10 over random nodes that use every mechanism at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.distribution import QuantileLaw
from scenarios.node import Crash, RollingRestart
from sim.arrivals import OpenLoop
from sim.engine import simulate
from sim.metrics import time_parts, utilisation
from sim.node import CompileSpec, LimitSpec, MemorySpec, NodeSpec, ReplicaSpec, VariantSpec
from sim.records import Records
from sim.result import TIME_PARTS
from sim.streams import Streams
from sim.work import Work

LOAD = QuantileLaw([0, 1], [0.5, 1.5])


@dataclass(frozen=True)
class Case:
    node: NodeSpec
    work: Work
    times: np.ndarray
    seed: int

    def run(self) -> Records:
        return simulate(self.node, self.work, OpenLoop(self.times), Streams(self.seed, 0))


@st.composite
def memories(draw: st.DrawFn) -> MemorySpec:
    others = ((0.0, draw(st.floats(0, 3))), (draw(st.floats(1, 20)), draw(st.floats(0, 3))))
    return MemorySpec(
        capacity_bytes=draw(st.floats(5, 12)),
        session_cap=draw(st.sampled_from([None, 4.0])),
        grow_to_power_of_two=draw(st.booleans()),
        shrink_after_run=draw(st.booleans()),
        out_of_memory=draw(st.sampled_from(["fail", "fall_back", "evict_lru", "wait"])),
        watermark=0.9,
        others=others,
    )


@st.composite
def nodes(draw: st.DrawFn) -> NodeSpec:
    signals = draw(st.integers(1, 3))
    memory = draw(st.none() | memories())
    compiles = st.builds(
        CompileSpec,
        programs=st.sampled_from(["one", "map"]),
        disk_cache=st.sampled_from(["none", "cold", "warm"]),
        cold_shape=st.sampled_from(["wait", "pad", "fall_back"]),
        warmup=st.sampled_from([(), (128,)]),
    )
    weights = 1.0 if memory else None
    first = tuple(
        VariantSpec(s, "migraphx", "a", draw(st.booleans()), draw(st.none() | compiles), weights, LOAD)
        for s in range(signals)
    )
    second = tuple(VariantSpec(s, "cpu", "b") for s in range(signals))
    faults: tuple[object, ...] = draw(
        st.sampled_from(
            [
                (),
                (Crash(kind="crash", at_s=3, replica=0, down_s=2, comes_back="cold"),),
                (RollingRestart(kind="rolling_restart", at_s=2, down_s=1, comes_back="warm"),),
            ]
        )
    )
    return NodeSpec(
        cpu_workers=draw(st.integers(1, 3)),
        signals=tuple("abc"[:signals]),
        stages=(tuple(range(signals)),),
        sessions=tuple(draw(st.integers(1, 2)) for _ in range(signals)),
        lock_of=tuple(draw(st.sampled_from([None, 0])) for _ in range(signals)),
        locks=(("l", draw(st.sampled_from(["fifo", "random"]))),),
        device_of=(0,) * signals,
        devices=("gpu", "cpu"),
        variants=first + second,
        placement=tuple((0, 0) for _ in first) + tuple((1, 1) for _ in second),
        queue_limit=tuple(draw(st.sampled_from([None, 2])) for _ in range(signals)),
        memory=memory,
        compute_left=((0.0, 1.0), (4.0, draw(st.floats(0.2, 1.0)))),
        limits=LimitSpec(
            max_in_flight=draw(st.sampled_from([None, 5])),
            timeout_s=draw(st.sampled_from([None, 4.0])),
            retries=draw(st.integers(0, 2)),
            backoff_s=0.3,
            answer_without_signal=draw(st.booleans()),
        ),
        replicas=ReplicaSpec(
            count=draw(st.integers(1, 3)),
            balancer=draw(
                st.sampled_from(["round_robin", "least_loaded", "join_shortest_queue", "power_of_two", "affinity"])
            ),
            cold_start=draw(st.booleans()),
            faults=faults,  # type: ignore[arg-type]  # the sampled faults
        ),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    node, seed, n = draw(nodes()), draw(st.integers(0, 2**20)), draw(st.integers(1, 30))
    rng = np.random.default_rng(seed)
    wide, deep = (n, node.variant_count), (n, len(node.signals))
    work = Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.full(n, 64),
        router_s=rng.exponential(0.05, n),
        needed=rng.random(deep) < 0.8,
        service_s=rng.exponential(0.5, wide),
        occupancy=rng.uniform(0.1, 1.0, wide),
        processed=rng.choice([64, 128, 256], size=deep),
        fails=rng.random(wide) < draw(st.sampled_from([0.0, 0.2])),
        compile_s=rng.exponential(2.0, wide),
        cached_load_s=np.full(wide, 0.1),
        activation_bytes=rng.uniform(0.1, 6.0, wide),
        at_length={v: lambda _, tokens: (tokens / 256, 0.5) for v in range(len(node.signals))},
    )
    return Case(node, work, np.cumsum(rng.exponential(0.4, n)), seed)


@settings(max_examples=400, deadline=None)
@given(cases())
def test_1_every_request_ends_once_and_2_steps_are_in_order(case: Case) -> None:
    """1: each request is answered or has failed, with a reason. 2: the steps of those that were answered are in order."""
    records = case.run()
    assert np.isfinite(records.answered).all()
    assert (records.answered >= records.arrived).all()
    ok = ~records.failed
    for a, b in (("arrived", "entered"), ("entered", "router_started"), ("router_started", "router_ended")):
        assert (getattr(records, a)[ok] <= getattr(records, b)[ok]).all()
    ran = np.isfinite(records.ended) & ok[:, None]
    for a, b in (("ready", "locked"), ("locked", "started"), ("started", "ended")):
        assert (getattr(records, a)[ran] <= getattr(records, b)[ran]).all()
    assert (records.ended[ran] <= np.repeat(records.answered[:, None], ran.shape[1], axis=1)[ran]).all()
    if not case.node.limits.answer_without_signal:
        assert np.array_equal(ran[ok], case.work.needed[ok]), "an answered request has every signal that it needs"


@settings(max_examples=400, deadline=None)
@given(cases())
def test_5_attribution_stays_complete(case: Case) -> None:
    """5: with stalls, fallbacks and retries the parts of an answered request still add up to its latency."""
    records = case.run()
    parts = time_parts(records)
    ok = ~records.failed
    np.testing.assert_allclose(sum(parts[p] for p in TIME_PARTS)[ok], records.latency[ok], atol=1e-7)
    assert all((parts[p][ok] >= -1e-9).all() for p in TIME_PARTS)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_7_same_seed_same_records(case: Case) -> None:
    """7: the same node, work and seed give the same times, bit for bit."""
    one, two = case.run(), case.run()
    for name in ("answered", "started", "ended", "variant", "replica", "failure"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    assert one.events == two.events


@settings(max_examples=400, deadline=None)
@given(cases())
def test_8_memory_never_passes_what_the_device_has(case: Case) -> None:
    """8: what is in use is at most the capacity, except by what a co-tenant grew; it is never negative."""
    memory = case.node.memory
    if memory is None:
        return
    growth = max(max(held for _, held in memory.others) - memory.others[0][1], 0.0)
    for _, _, _, used in case.run().events.memory:
        assert -1e-9 <= used <= memory.capacity_bytes + growth + 1e-9


@settings(max_examples=400, deadline=None)
@given(cases())
def test_9_no_resource_is_used_more_than_whole(case: Case) -> None:
    """9: every utilisation lies in 0 to 1."""
    records = case.run()
    for name, used in utilisation(records, 0.0, float(records.answered.max()) + 1e-9).items():
        assert -1e-9 <= used <= 1 + 1e-6, name


@settings(max_examples=400, deadline=None)
@given(cases())
def test_10_only_available_providers_run_anything(case: Case) -> None:
    """10: a provider that is not available runs nothing, and each job's variant belongs to its signal."""
    records = case.run()
    for s in range(len(case.node.signals)):
        for v in set(records.variant[:, s].tolist()) - {-1}:
            assert case.node.variant(v).signal == s
            assert case.node.variant(v).available
