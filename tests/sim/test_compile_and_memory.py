"""Compile per shape, session load and device memory, with times and bytes known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiles.distribution import QuantileLaw
from sim.node import CompileSpec, MemorySpec, NodeSpec, ReplicaSpec, VariantSpec
from sim.records import Records
from sim.tracks import FAILURES
from sim.work import Work
from tests.support.small_nodes import run, spec, work


def compiling(node: NodeSpec, *, fallback: bool = False, **kind: object) -> NodeSpec:
    settings = {"programs": "map", "disk_cache": "none", "cold_shape": "wait", "warmup": ()} | kind
    first = tuple(VariantSpec(s, "migraphx", "a", compile=CompileSpec(**settings)) for s in range(len(node.signals)))  # type: ignore[arg-type]
    return replace(node, variants=first + ((VariantSpec(0, "cpu", "b"),) if fallback else ()))


def shapes(node: NodeSpec, tokens: list[int], *, compile_s: float = 30.0, cached_s: float = 0.5) -> Work:
    """One request a length; every variant takes 1 s of service, a compile 30 s, a cached load 0.5 s."""
    width = (len(tokens), node.variant_count)
    plain = work(len(tokens), node)
    return replace(
        plain,
        service_s=np.ones(width),
        occupancy=np.full(width, 0.01),
        processed=np.repeat(np.array(tokens)[:, None], len(node.signals), axis=1),
        compile_s=np.full(width, compile_s),
        cached_load_s=np.full(width, cached_s),
        at_length={0: lambda _, length: (length / 512, 0.01)},
    )


def test_a_new_shape_compiles_inside_the_request_and_then_is_ready() -> None:
    """30 s for the first request of a length, none for the second."""
    node = compiling(spec())
    records = run(node, shapes(node, [512, 512]), [0, 40])
    assert records.latency.tolist() == [31, 1]
    assert records.stalls["compile"][:, 0].tolist() == [30, 0]
    assert records.events.compiles == ((0.0, 0, 0, 512, 30.0),)


@pytest.mark.parametrize(("programs", "latencies"), [("one", [31, 31, 31, 31]), ("map", [31, 31, 1, 1])])
def test_one_program_a_session_makes_alternating_lengths_compile_each_time(programs: str, latencies: list[int]) -> None:
    """A, B, A, B: with one program every request compiles; with a map only the first of each."""
    node = compiling(spec(), programs=programs)
    records = run(node, shapes(node, [256, 512, 256, 512]), [0, 100, 200, 300])
    assert records.latency.tolist() == latencies


def test_a_disk_cache_turns_a_second_compile_into_a_load() -> None:
    """One program and a cold disk cache: A, B, A compiles twice and then loads A from disk in 0.5 s."""
    node = compiling(spec(), programs="one", disk_cache="cold")
    records = run(node, shapes(node, [256, 512, 256]), [0, 100, 200])
    assert records.latency.tolist() == [31, 31, 1.5]


def test_a_warm_disk_cache_never_compiles() -> None:
    """Every first use of a shape is a load from disk."""
    node = compiling(spec(), disk_cache="warm")
    records = run(node, shapes(node, [256, 512, 256]), [0, 100, 200])
    assert records.latency.tolist() == [1.5, 1.5, 1]
    assert records.events.compiles == ()


def test_two_sessions_share_one_compile_of_a_shape() -> None:
    """The second session waits for the compile that the first one started, and then has the program, too."""
    node = compiling(spec(sessions=[2]))
    records = run(node, shapes(node, [512, 512]), [0, 10])
    assert records.answered.tolist() == [31, 31]
    assert len(records.events.compiles) == 1


def test_padding_runs_a_new_shape_on_the_next_larger_program() -> None:
    """200 tokens on the program of 512: the time of 512 tokens, no compile; 600 has nothing to pad to and compiles."""
    node = compiling(spec(), cold_shape="pad", warmup=(512,))
    records = run(node, shapes(node, [200, 600]), [0, 10])
    assert records.latency.tolist() == [1, 31]
    assert records.events.steps_down == {(0, "padded"): 1}


def test_falling_back_while_the_compile_runs_beside() -> None:
    """Requests go to the second provider until the program is ready, then to the first."""
    node = compiling(spec(), fallback=True, cold_shape="fall_back")
    records = run(node, shapes(node, [512, 512, 512]), [0, 10, 40])
    assert records.latency.tolist() == [1, 1, 1]
    assert records.variant[:, 0].tolist() == [1, 1, 0]
    assert records.events.steps_down == {(0, "compile_pending"): 2}


def test_warm_up_shapes_are_ready_before_traffic() -> None:
    """A shape in `warmup_tokens` costs nothing in the run."""
    node = compiling(spec(), warmup=(512,))
    assert run(node, shapes(node, [512]), [0]).latency.tolist() == [1]


def test_the_published_collapse_under_many_shapes_comes_out() -> None:
    """Ten lengths in turn on one program: hundreds of times slower than one length (30 s compile, 0.1 s service)."""
    node = compiling(spec(), programs="one")
    many, one = shapes(node, [64 * (k % 10 + 1) for k in range(100)]), shapes(node, [512] * 100)
    for each in (many, one):
        each.service_s[:] = 0.1
    slow, quick = (run(node, each, [0.0] * 100).answered[-1] for each in (many, one))
    assert slow == pytest.approx(100 * 30.1)
    assert slow / (quick - 30) > 300


GB = 1e9


def memory(node: NodeSpec, capacity: float, policy: str, **more: object) -> NodeSpec:
    loads = QuantileLaw([0, 1], [2.0, 2.0])
    variants = tuple(VariantSpec(s, "rocm", "a", weights_bytes=1 * GB, load=loads) for s in range(len(node.signals)))
    settings: dict[str, object] = {
        "capacity_bytes": capacity,
        "session_cap": None,
        "grow_to_power_of_two": False,
        "shrink_after_run": False,
        "watermark": 0.9,
        "others": ((0.0, 0.0),),
    }
    return replace(node, variants=variants, memory=MemorySpec(out_of_memory=policy, **(settings | more)))  # type: ignore[arg-type]


def needing(node: NodeSpec, activation: list[list[float]]) -> Work:
    """One request a row; activation bytes by signal."""
    plain = work(len(activation), node)
    return replace(plain, activation_bytes=np.array(activation), processed=np.full(plain.needed.shape, 512))


def failures(records: Records) -> list[str]:
    return [FAILURES[k] for k in records.failure.tolist()]


def test_weights_and_arena_add_up_and_the_arena_does_not_shrink() -> None:
    """1 GB of weights; the arena grows to 2 and then 3 GB, and a small request later gives nothing back."""
    node = memory(spec(), 10 * GB, "fail")
    records = run(node, needing(node, [[2 * GB], [3 * GB], [1 * GB]]), [0, 10, 20])
    assert [used for _, _, _, used in records.events.memory] == [0, 1 * GB, 3 * GB, 4 * GB]


def test_an_arena_that_grows_by_powers_of_two_takes_more() -> None:
    """A request for 3 more bytes takes 4; one for 2^31 + 1 takes 2^32."""
    node = memory(spec(), 10 * GB, "fail", grow_to_power_of_two=True)
    records = run(node, needing(node, [[3.0], [2.0**31 + 5]]), [0, 10])
    assert [used for _, _, _, used in records.events.memory] == [0, GB, GB + 4, GB + 4 + 2.0**32]


def test_what_does_not_fit_fails_and_what_fits_goes_on() -> None:
    """5 GB in all: an activation of 4.5 GB cannot be had, one of 4 GB can."""
    node = memory(spec(), 5 * GB, "fail")
    records = run(node, needing(node, [[4.5 * GB], [4 * GB]]), [0, 0])
    assert failures(records) == ["out_of_memory", "none"]


@pytest.mark.parametrize(("policy", "reasons"), [("fail", ["out_of_memory"]), ("fall_back", ["none"])])
def test_out_of_memory_fails_or_falls_back(policy: str, reasons: list[str]) -> None:
    """With a CPU session behind it, `fall_back` answers the request that `fail` fails."""
    node = memory(spec(), 5 * GB, policy)
    node = replace(node, variants=(*node.variants, VariantSpec(0, "cpu", "b")))
    plain = needing(node, [[4.5 * GB]])
    both = replace(
        plain, service_s=np.ones((1, 2)), occupancy=np.full((1, 2), 0.1), activation_bytes=np.array([[4.5 * GB, 0]])
    )
    records = run(node, both, [0])
    assert failures(records) == reasons
    assert records.events.steps_down == {(0, "out_of_memory"): 1}


def test_a_session_cap_binds_before_the_device_does() -> None:
    """A cap of 2 GB a session refuses an activation of 1.5 GB beside 1 GB of weights on an empty device."""
    node = memory(spec(), 100 * GB, "fail", session_cap=2 * GB)
    records = run(node, needing(node, [[1.5 * GB], [1 * GB]]), [0, 10])
    assert failures(records) == ["out_of_memory", "none"]


def test_waiting_for_memory_until_another_gives_it_back() -> None:
    """Arenas that shrink after each run: the second signal waits 1 s for the first one's memory."""
    node = memory(spec([[0, 1]]), 5 * GB, "wait", shrink_after_run=True)
    records = run(node, needing(node, [[3 * GB, 3 * GB]]), [0])
    assert sorted(records.ended[0].tolist()) == [1, 2]
    assert records.stalls["memory"].sum() == 1


def test_a_request_that_can_never_fit_does_not_wait_for_ever() -> None:
    """More than the device has: out of memory at once, even under `wait`."""
    node = memory(spec(), 5 * GB, "wait")
    assert failures(run(node, needing(node, [[9 * GB]]), [0])) == ["out_of_memory"]


def test_waiting_that_never_ends_is_reported_as_unfinished() -> None:
    """Arenas that never shrink leave no memory for the other session: it waits until the end and has failed then."""
    node = memory(spec([[0], [1]]), 5 * GB, "wait")
    records = run(node, needing(node, [[3 * GB, 3 * GB]]), [0])
    assert failures(records) == ["unfinished"]


def test_evicting_the_least_recently_used_session_and_loading_it_again() -> None:
    """Two sessions that do not fit together push each other out; the one that comes back loads for 2 s."""
    node = memory(spec([[0, 1]]), 4 * GB, "evict_lru")
    need = needing(node, [[2.5 * GB, 0.1 * GB], [0.1 * GB, 2.5 * GB], [2.5 * GB, 0.1 * GB]])
    needed = np.array([[True, False], [False, True], [True, False]])
    records = run(node, replace(need, needed=needed), [0, 10, 20])
    assert failures(records) == ["none"] * 3
    assert records.latency.tolist() == [1, 3, 3]
    assert records.stalls["load"].sum(axis=1).tolist() == [0, 2, 2]


def test_a_co_tenant_that_grows_squeezes_and_gives_back() -> None:
    """An LLM server takes 3 of 5 GB from 5 s to 15 s: the request of 2 GB at 6 s fails, that at 16 s does not."""
    node = memory(spec(), 5 * GB, "fail", others=((0.0, 0.0), (5.0, 3 * GB), (15.0, 0.0)))
    records = run(node, needing(node, [[2 * GB], [2 * GB]]), [6, 16])
    assert failures(records) == ["out_of_memory", "none"]


def test_memory_waits_for_the_co_tenant() -> None:
    """Under `wait` the same request runs as soon as the co-tenant has given its memory back."""
    node = memory(spec(), 5 * GB, "wait", others=((0.0, 0.0), (5.0, 3 * GB), (15.0, 0.0)))
    records = run(node, needing(node, [[2 * GB]]), [6])
    assert records.answered.tolist() == [16]
    assert records.stalls["memory"][0, 0] == 9


def test_a_watermark_is_reported_once_for_each_crossing() -> None:
    """90 % of 10 GB is crossed by the second, larger request only."""
    node = memory(spec(), 10 * GB, "fail")
    records = run(node, needing(node, [[7 * GB], [8.5 * GB], [8.5 * GB]]), [0, 10, 20])
    assert [(time, used) for time, _, _, used in records.events.watermarks] == [(10, 9.5 * GB)]


def test_a_cold_replica_loads_each_session_on_its_first_use() -> None:
    """2 s of loading before the first inference, none after."""
    loads = QuantileLaw([0, 1], [2.0, 2.0])
    node = replace(spec(), variants=(VariantSpec(0, "cpu", "a", load=loads),), replicas=ReplicaSpec(cold_start=True))
    records = run(node, work(2, node), [0, 10])
    assert records.latency.tolist() == [3, 1]
