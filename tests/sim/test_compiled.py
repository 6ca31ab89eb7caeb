"""The compiled path against the SimPy engine: the same streams give the same records, bit for bit, request by request."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiles.errors import InputError
from scenarios.node import Crash
from sim import compiled, engine
from sim.arrivals import Arrivals, Bursts, ClosedLoop, OpenLoop
from sim.node import CompileSpec, LimitSpec, MemorySpec, NodeSpec, ReplicaSpec, VariantSpec
from sim.records import Records
from sim.streams import Streams
from sim.tracks import FAILURES
from sim.work import Work
from tests.support import small_nodes

COLUMNS = [
    field.name for field in dataclasses.fields(Records) if field.name not in {"node", "work", "stalls", "events"}
]


def assert_same(node: NodeSpec, work: Work, arrivals: Arrivals, seed: int = 1) -> Records:
    """Both engines, every column. NaN equals NaN; times are compared bit for bit, which is stricter than 1e-9 s."""
    assert compiled.covers(node, work, arrivals) is None
    one = engine.simulate(node, work, arrivals, Streams(seed, 0), engine="simpy")
    two = engine.simulate(node, work, arrivals, Streams(seed, 0), engine="compiled")
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(two, column), getattr(one, column), err_msg=column)
    assert sorted(two.events.lost) == sorted(one.events.lost)
    assert two.events.steps_down == one.events.steps_down
    assert all(np.array_equal(two.stalls[kind], one.stalls[kind]) for kind in one.stalls)
    return two


@st.composite
def nodes(draw: st.DrawFn) -> NodeSpec:
    signals = draw(st.integers(1, 5))
    order = draw(st.permutations(range(signals)))
    cuts = sorted({0, signals, *draw(st.lists(st.integers(1, signals), max_size=2))})
    devices = draw(st.integers(1, 3))
    sessions = tuple(draw(st.integers(1, 3)) for _ in range(signals))
    return NodeSpec(
        cpu_workers=draw(st.integers(1, 4)),
        signals=tuple("abcde"[:signals]),
        stages=tuple(tuple(order[a:b]) for a, b in itertools.pairwise(cuts)),
        sessions=sessions,
        lock_of=tuple(draw(st.sampled_from([None, 0, 1])) for _ in range(signals)),
        locks=(("l0", "fifo"), ("l1", "fifo")),
        device_of=(0,) * signals,
        devices=("gpu", "cpu", "gpu1")[:devices],
        variants=tuple(VariantSpec(s, "rocm", "fp16") for s in range(signals)),
        placement=tuple(tuple(draw(st.integers(0, devices - 1)) for _ in range(k)) for k in sessions),
        compute_left=((0.0, draw(st.sampled_from([1.0, 0.6]))),),
        limits=LimitSpec(
            max_in_flight=draw(st.sampled_from([None, None, 1, 3])),
            timeout_s=draw(st.sampled_from([None, None, 0.5, 2.0])),
        ),
        replicas=ReplicaSpec(count=draw(st.integers(1, 4)), balancer=draw(st.sampled_from(compiled.BALANCERS))),
        lock_width=draw(st.sampled_from([(), (2, 1), (1, 3)])),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[NodeSpec, Work, Arrivals, int]:
    """Random nodes, with whole or equal times in half of them so that much happens at one instant."""
    node = draw(nodes())
    seed, ties = draw(st.integers(0, 2**20)), draw(st.booleans())
    process = draw(st.sampled_from(["open", "closed", "bursts"]))
    size, bursts = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    n = size * bursts if process == "bursts" else draw(st.integers(1, 60))
    rng = np.random.default_rng(seed)
    shape = (n, len(node.signals))

    def seconds(mean: float, of: int | tuple[int, int]) -> np.ndarray:
        drawn = rng.exponential(mean, of)
        return np.rint(2 * drawn) / 2 if ties else drawn

    shares = rng.choice([0.25, 0.5, 1.0], shape) if ties else rng.uniform(0.05, 1.0, shape)
    work = Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=rng.integers(1, 5, n),
        router_s=seconds(0.2, n) * draw(st.sampled_from([0.0, 1.0])),
        needed=rng.random(shape) < draw(st.sampled_from([0.5, 1.0])),
        service_s=np.maximum(seconds(1.0, shape), 0.0),
        occupancy=shares,
    )
    arrivals: Arrivals
    if process == "open":
        arrivals = OpenLoop(np.cumsum(seconds(draw(st.sampled_from([0.0, 0.3, 2.0])), n)))
    elif process == "closed":
        arrivals = ClosedLoop(draw(st.integers(1, 8)), seconds(1.0, n))
    else:
        arrivals = Bursts(size, bursts, draw(st.sampled_from([0.0, 1.5])))
    return node, work, arrivals, seed


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_both_engines_tell_the_same_of_every_request(case: tuple[NodeSpec, Work, Arrivals, int]) -> None:
    """Random nodes, arrivals, balancers and limits: every column of the records is equal, ties in time included."""
    assert_same(*case)


@pytest.mark.parametrize("limits", [LimitSpec(), LimitSpec(timeout_s=0.05, max_in_flight=40)])
def test_both_engines_agree_on_a_long_overloaded_run(limits: LimitSpec) -> None:
    """Twenty thousand requests at 1.3 times the capacity: no rounding builds up between the engines."""
    node = dataclasses.replace(small_nodes.spec([[0, 1, 2], [3]], locks=[0, 0, 1, None], cpu_workers=2), limits=limits)
    rng = np.random.default_rng(3)
    work = small_nodes.work(20_000, node, router=1e-4)
    work.service_s[:] = rng.exponential(0.004, work.service_s.shape)
    work.occupancy[:] = rng.uniform(0.2, 0.9, work.occupancy.shape)
    records = assert_same(node, work, OpenLoop(np.cumsum(rng.exponential(1 / 160, 20_000))))
    assert records.failed.any() == (limits.timeout_s is not None)


@pytest.mark.parametrize("signals", [1, 8, 9, 64, 65, 130])
def test_any_number_of_signals_keeps_its_pattern_of_needs(signals: int) -> None:
    """Requests with equal needs share a walk, found by a key of bits, on both sides of every boundary of bytes and words."""
    rng = np.random.default_rng(signals)
    node = dataclasses.replace(
        small_nodes.spec(),
        signals=tuple(f"s{k}" for k in range(signals)),
        stages=(tuple(range(signals)),),
        sessions=(1,) * signals,
        lock_of=(None,) * signals,
        device_of=(0,) * signals,
    )
    needed = np.repeat(rng.random((5, signals)) < 0.5, 3, axis=0)
    work = small_nodes.work(15, node, needed=needed)
    records = assert_same(node, work, OpenLoop(np.zeros(15)))
    assert np.array_equal(np.isfinite(records.ended), needed)


def test_events_beyond_the_first_room_are_kept() -> None:
    """A time-out for each of many waiting requests outgrows the heap that a run starts with, and none is lost."""
    node = dataclasses.replace(small_nodes.spec(), limits=LimitSpec(timeout_s=1e6))
    work = small_nodes.work(5_000, node)
    start = compiled.arrays_of(node, work, OpenLoop(np.linspace(0, 1, 5_000)), Streams(1, 0))
    assert start.events.size < 5_000
    assert_same(node, work, OpenLoop(np.linspace(0, 1, 5_000)))


def test_the_loop_names_failures_as_the_tracks_do() -> None:
    """The numbers that the loop writes for a reason mean that reason in the records."""
    from sim import compiled_loop

    assert FAILURES[compiled_loop.REFUSED] == "refused"
    assert FAILURES[compiled_loop.TIMEOUT] == "timeout"


_PLAIN = small_nodes.spec([[0]], locks=[0])
_MEMORY = MemorySpec(1e9, None, grow_to_power_of_two=True, shrink_after_run=False, out_of_memory="fail", watermark=0.9, others=((0.0, 0.0),))  # fmt: skip
_COMPILE = CompileSpec("one", "none", "wait", ())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"memory": _MEMORY}, "device memory"),
        ({"variants": (VariantSpec(0, "migraphx", "f", compile=_COMPILE),)}, "programs compiled per shape"),
        ({"variants": (VariantSpec(0, "rocm", "f", available=False),)}, "first provider that is not available"),
        ({"batching": ((4, 0.1),)}, "batching"),
        ({"queue_limit": (3,)}, "queue limits"),
        ({"locks": (("l", "random"),)}, "random order"),
        ({"compute_left": ((0.0, 1.0), (5.0, 0.5))}, "co-tenants"),
        ({"limits": LimitSpec(retries=2)}, "retries"),
        ({"replicas": ReplicaSpec(cold_start=True)}, "sessions that load"),
        ({"replicas": ReplicaSpec(faults=(Crash(kind="crash", at_s=1, replica=0, down_s=1, comes_back="warm"),))}, "faults"),
        ({"replicas": ReplicaSpec(count=2, balancer="power_of_two")}, "balancer power_of_two"),
    ],
)  # fmt: skip
def test_what_is_not_covered_is_named_and_refused(change: dict[str, object], words: str) -> None:
    """Each mechanism outside the closed core has words of its own, and the compiled engine refuses to run it."""
    node = dataclasses.replace(_PLAIN, **change)
    work, arrivals = small_nodes.work(2, _PLAIN), OpenLoop(np.zeros(2))
    why = compiled.covers(node, work, arrivals)
    assert why is not None
    assert words in why
    with pytest.raises(InputError, match=words):
        engine.simulate(node, work, arrivals, Streams(1, 0), engine="compiled")


def test_without_numba_the_compiled_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`compiled` is an error that names the extra to install, and `auto` runs on SimPy and says why."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    work, arrivals = small_nodes.work(2, _PLAIN), OpenLoop(np.zeros(2))
    with pytest.raises(InputError, match=r"vllm-sr-simcap\[fast\]"):
        engine.choose("compiled", _PLAIN, work, arrivals, 10**6)
    chosen = engine.choose("auto", _PLAIN, work, arrivals, 10**6)
    assert (chosen.engine, "Numba" in chosen.why) == ("simpy", True)


def test_work_that_fails_is_not_covered() -> None:
    """Drawn failures of inferences step down the provider order, which only SimPy simulates."""
    work = dataclasses.replace(small_nodes.work(2, _PLAIN), fails=np.zeros((2, 1), dtype=bool))
    assert "fail" in (compiled.covers(_PLAIN, work, OpenLoop(np.zeros(2))) or "")


def test_every_field_of_a_node_is_one_that_the_compiled_path_has_looked_at() -> None:
    """A mechanism added to the node later is not silently ignored: this list must be changed with `covers`."""
    known = {
        NodeSpec: "cpu_workers signals stages sessions lock_of locks device_of devices variants placement batching "
        "queue_limit memory compute_left limits replicas run_queues lock_width",
        VariantSpec: "signal provider artifact available compile weights_bytes load",
        LimitSpec: "max_in_flight timeout_s retries backoff_s answer_without_signal",
        ReplicaSpec: "count balancer cold_start faults",
        Work: "class_of tokens router_s needed service_s occupancy processed fails compile_s cached_load_s "
        "activation_bytes batch_service at_length asked_later",
    }
    for kind, names in known.items():
        assert [field.name for field in dataclasses.fields(kind)] == names.split(), kind.__name__


def test_mm1_by_the_compiled_engine() -> None:
    """M/M/1 at 70 % load: the exact mean sojourn 1 / (mu - lambda) lies in a 99.9 % interval over replications."""
    node = small_nodes.spec()
    n, means = 200_000, []
    for r in range(12):
        rng = Streams(5, r).generator("draws")
        work = small_nodes.work(n, node, occupancy=1.0)
        work.service_s[:, 0] = rng.exponential(1.0, n)
        run = engine.simulate(
            node, work, OpenLoop(np.cumsum(rng.exponential(1 / 0.7, n))), Streams(5, r), engine="compiled"
        )
        means.append(float(run.latency[n // 10 :].mean()))
    half = 4.44 * float(np.std(means, ddof=1)) / math.sqrt(len(means))  # t quantile, 11 degrees of freedom, 0.9995
    exact = 1 / 0.3
    assert half < 0.05 * exact
    assert abs(float(np.mean(means)) - exact) <= half
