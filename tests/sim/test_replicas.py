"""Batching, co-tenants, partitions, balancers and faults, with times known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenarios.node import Crash, Join, RollingRestart
from sim.node import LimitSpec, NodeSpec, ReplicaSpec
from sim.tracks import FAILURES
from sim.work import Work
from tests.support.small_nodes import run, spec, work


def batching(max_batch: int, delay: float, sessions: int = 1) -> NodeSpec:
    return replace(spec(sessions=[sessions]), batching=((max_batch, delay),))


def batch_work(requests: int, node: NodeSpec) -> Work:
    """A batch takes 1 s plus 0.1 s for each request in it."""
    return replace(work(requests, node), batch_service={0: lambda members: 1 + 0.1 * len(members)})


def test_a_full_batch_starts_at_once() -> None:
    """Two requests fill a batch of two: no delay, both end at 1.2."""
    node = batching(2, 5.0)
    assert run(node, batch_work(2, node), [0, 0]).answered.tolist() == [1.2, 1.2]


def test_a_partial_batch_waits_for_its_delay() -> None:
    """One request alone waits 0.5 s for company, then runs alone."""
    node = batching(2, 0.5)
    assert run(node, batch_work(1, node), [1.0]).answered.tolist() == [2.6]


def test_what_waits_while_the_session_is_busy_forms_the_next_batch() -> None:
    """The third, fourth and fifth wait for the session: two of them make the next batch, its delay long over."""
    node = batching(2, 0.2)
    records = run(node, batch_work(5, node), [0, 0, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(records.answered, [1.2, 1.2, 2.4, 2.4, 3.5])


def test_a_batch_occupies_the_device_once() -> None:
    """The share of the device is the leader's; those that ride along add none."""
    node = batching(4, 1.0)
    records = run(node, batch_work(4, node), [0, 0, 0, 0])
    assert records.share[:, 0].tolist() == [0.1, 0, 0, 0]


def test_a_batch_of_one_is_a_plain_session() -> None:
    """max_batch 1 is the FIFO queue of a plain session, request by request."""
    one = batching(1, 0.0)
    times = np.sort(np.random.default_rng(1).uniform(0, 30, 40)).tolist()
    batched = run(one, replace(work(40, one), batch_service={0: lambda _: 1.0}), times)
    plain = run(spec(), work(40, spec()), times)
    np.testing.assert_allclose(batched.answered, plain.answered)


def test_a_co_tenant_takes_its_share_of_compute() -> None:
    """It leaves half the device: occupancy 0.5 still runs at full speed, 1.0 at half."""
    for occupancy, expected in ((0.5, 1.0), (1.0, 2.0)):
        node = replace(spec(), compute_left=((0.0, 0.5),))
        assert run(node, work(1, node, occupancy=occupancy), [0]).answered.tolist() == [expected]


def test_a_co_tenant_that_changes_changes_the_speed_in_the_middle() -> None:
    """Full speed until 0.5 s, then a quarter: the half second of work left takes 2 s."""
    node = replace(spec(), compute_left=((0.0, 1.0), (0.5, 0.25)))
    assert run(node, work(1, node, occupancy=1.0), [0]).answered.tolist() == [2.5]


def test_a_co_tenant_that_leaves_speeds_up_what_runs() -> None:
    """Half speed for 1 s, then full speed: 0.5 s of work left ends at 1.5."""
    node = replace(spec(), compute_left=((0.0, 0.5), (1.0, 1.0)))
    assert run(node, work(1, node, occupancy=1.0), [0]).answered.tolist() == [1.5]


def replicas(count: int, balancer: str, *faults: object, **limits: object) -> NodeSpec:
    return replace(
        spec(),
        replicas=ReplicaSpec(count=count, balancer=balancer, faults=faults),  # type: ignore[arg-type]
        limits=LimitSpec(**limits),  # type: ignore[arg-type]
    )


def test_round_robin_takes_turns() -> None:
    """Replicas 0, 1, 2, 0 … whatever is in them."""
    node = replicas(3, "round_robin")
    assert run(node, work(5, node), [0, 0, 0, 0, 0]).replica.tolist() == [0, 1, 2, 0, 1]


def test_join_the_shortest_queue_counts_requests() -> None:
    """The fourth request goes where one has already left."""
    node = replicas(2, "join_shortest_queue")
    brought = work(4, node)
    brought.service_s[:, 0] = [5, 1, 5, 1]
    records = run(node, brought, [0, 0, 0, 1.5])
    assert records.replica.tolist() == [0, 1, 0, 1]


def test_least_loaded_counts_seconds_and_not_requests() -> None:
    """One long request weighs more than two short ones."""
    node = replicas(2, "least_loaded")
    brought = work(4, node)
    brought.service_s[:, 0] = [9, 1, 1, 1]
    assert run(node, brought, [0, 0, 0, 0]).replica.tolist() == [0, 1, 1, 1]


def test_affinity_sends_equal_lengths_to_one_replica() -> None:
    """The replica depends on the length alone, and several lengths spread."""
    node = replicas(4, "affinity")
    lengths = np.tile(np.arange(64, 64 * 41, 64), 3)
    records = run(node, replace(work(120, node), processed=lengths[:, None]), list(range(0, 240, 2)))
    by_length = {length: set(records.replica[lengths == length].tolist()) for length in lengths.tolist()}
    assert all(len(where) == 1 for where in by_length.values())
    assert len({next(iter(where)) for where in by_length.values()}) == 4


def test_power_of_two_balances_better_than_random() -> None:
    """Of two drawn at random the emptier one: the fullest replica is far below that of blind choice."""
    longest = {}
    for name in ("random", "power_of_two"):
        node = replicas(20, name)
        records = run(node, work(2000, node), [0.0] * 2000)
        longest[name] = int(np.bincount(records.replica).max())
    assert longest["power_of_two"] <= 104
    assert longest["random"] >= 110


def test_a_crash_fails_what_is_inside_and_spares_the_rest() -> None:
    """Replica 0 goes down at 0.5: its request fails then, replica 1 goes on, and all traffic goes there."""
    node = replicas(2, "round_robin", Crash(kind="crash", at_s=0.5, replica=0, down_s=10, comes_back="warm"))
    records = run(node, work(4, node), [0, 0, 1.0, 1.0])
    assert [FAILURES[k] for k in records.failure.tolist()] == ["crash", "none", "none", "none"]
    assert records.answered.tolist() == [0.5, 1, 2, 3]
    assert records.replica.tolist() == [0, 1, 1, 1]


def test_a_crashed_replica_comes_back_empty() -> None:
    """Down from 0.5 to 1.5: what arrives at 2 is served at once, the dead inference blocks nobody."""
    node = replicas(1, "round_robin", Crash(kind="crash", at_s=0.5, replica=0, down_s=1, comes_back="warm"))
    brought = work(3, node)
    brought.service_s[0, 0] = 100
    records = run(node, brought, [0, 1.0, 2.0])
    assert [FAILURES[k] for k in records.failure.tolist()] == ["crash", "no_replica", "none"]
    assert records.answered.tolist() == [0.5, 1, 3]


def test_a_crashed_request_is_retried_on_another_replica() -> None:
    """After the crash at 0.5 and a pause of 0.1 it starts anew on replica 1; its latency counts from its first sending."""
    crash = Crash(kind="crash", at_s=0.5, replica=0, down_s=10, comes_back="warm")
    node = replicas(2, "round_robin", crash, retries=1, backoff_s=0.1)
    records = run(node, work(1, node), [0])
    np.testing.assert_allclose(records.answered, [1.6])
    assert records.replica.tolist() == [1]
    assert not records.failed.any()


def test_a_replica_joins_later() -> None:
    """Replica 1 takes nothing before it joins at 5."""
    node = replicas(2, "round_robin", Join(kind="join", at_s=5, replica=1, comes_back="warm"))
    assert run(node, work(4, node), [0, 1, 6, 6]).replica.tolist() == [0, 0, 1, 0]


def test_a_rolling_restart_loses_no_request() -> None:
    """Each replica drains, is down for 2 s and comes back, one after the other; all requests are answered."""
    node = replicas(
        2, "join_shortest_queue", RollingRestart(kind="rolling_restart", at_s=3, down_s=2, comes_back="warm")
    )
    times = [0.5 * k for k in range(40)]
    brought = work(40, node, service=0.3)
    records = run(node, brought, times)
    assert not records.failed.any()
    where = dict(zip(times, records.replica.tolist(), strict=True))
    assert {where[t] for t in times if 3 <= t < 5} == {1}
    assert {where[t] for t in times if 5.5 <= t < 7} == {0}
    assert {where[t] for t in times if t > 8} == {0, 1}


@pytest.mark.parametrize("balancer", ["round_robin", "random", "least_loaded", "join_shortest_queue", "power_of_two"])
def test_every_balancer_conserves_requests(balancer: str) -> None:
    """Each request is answered once, on some replica."""
    node = replicas(3, balancer)
    records = run(node, work(300, node), np.sort(np.random.default_rng(2).uniform(0, 100, 300)).tolist())
    assert np.isfinite(records.answered).all()
    assert np.bincount(records.replica, minlength=3).sum() == 300
