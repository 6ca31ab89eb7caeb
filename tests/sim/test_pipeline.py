"""A request's walk, with times known by hand: services of 1 second, exact equality."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sim.arrivals import Bursts, ClosedLoop
from sim.engine import simulate
from sim.metrics import time_parts
from sim.result import TIME_PARTS
from sim.streams import Streams
from tests.support.small_nodes import run, spec, work


def test_one_request_takes_router_work_and_one_service() -> None:
    """Router CPU comes before the stage and is not shared with it."""
    node = spec()
    records = run(node, work(1, node, router=0.5), [2.0])
    assert records.router_ended.tolist() == [2.5]
    assert records.ready[:, 0].tolist() == [2.5]
    assert records.answered.tolist() == [3.5]


def test_router_cpu_workers_bound_how_much_runs_at_once() -> None:
    """Three requests on two workers: the third waits for the first worker that is free."""
    node = spec(cpu_workers=2, sessions=[3])
    records = run(node, work(3, node, router=1.0), [0, 0, 0])
    assert records.router_started.tolist() == [0, 0, 1]


def test_a_session_runs_one_inference_at_a_time_in_order() -> None:
    """One session is a FIFO queue."""
    node = spec()
    records = run(node, work(3, node), [0, 0, 0])
    assert records.answered.tolist() == [1, 2, 3]


def test_two_sessions_run_two_at_a_time() -> None:
    """Two sessions of one model halve the queue."""
    node = spec(sessions=[2])
    records = run(node, work(4, node), [0, 0, 0, 0])
    assert records.answered.tolist() == [1, 1, 2, 2]


def test_signals_of_a_stage_run_side_by_side_and_join() -> None:
    """A stage ends when its slowest signal has ended; the next stage starts then."""
    node = spec([[0, 1], [2]])
    brought = work(1, node)
    brought.service_s[0] = [1.0, 3.0, 1.0]
    records = run(node, brought, [0])
    assert records.ended[0].tolist() == [1, 3, 4]
    assert records.ready[0].tolist() == [0, 0, 3]


def test_a_lock_domain_serialises_its_signals() -> None:
    """Two signals in one lock domain never overlap; a signal outside runs beside them."""
    node = spec([[0, 1, 2]], locks=[0, 0, None])
    records = run(node, work(1, node), [0])
    assert records.locked[0].tolist() == [0, 1, 0]
    assert records.ended[0].tolist() == [1, 2, 1]


def test_a_wide_lock_domain_is_a_pool_of_workers() -> None:
    """Three signals of one second on a pool of two: two at once, the third when the first is done, first come first."""
    node = dataclasses.replace(spec([[0, 1, 2]], locks=[0, 0, 0], sessions=[2, 2, 2]), lock_width=(2,))
    records = run(node, work(2, node), [0, 0.5])
    assert records.locked.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert records.answered.tolist() == [2, 3]


def test_published_mechanism_three_classifiers_two_locks() -> None:
    """A burst through the router's two lock domains: request k ends when the sequence lock has served 2k jobs."""
    node = spec([[0, 1, 2]], locks=[0, 0, 1])
    records = simulate(node, work(4, node, occupancy=0.5), Bursts(4, 1, 0.0), Streams(1, 0))
    assert records.answered.tolist() == [2, 4, 6, 8]


def test_a_fifo_lock_keeps_order_and_a_random_lock_does_not() -> None:
    """FIFO serves in order of waiting; random order serves the same set in another order."""
    for order in ("fifo", "random"):
        node = spec([[0]], locks=[0], order=order, sessions=[50])
        records = run(node, work(50, node), [0.0] * 50)
        assert sorted(records.answered.tolist()) == list(range(1, 51))
        assert (records.answered.tolist() == list(range(1, 51))) == (order == "fifo")


def test_random_lock_is_fair_to_all_who_wait() -> None:
    """Under random order each of the waiting jobs is equally likely to be next."""
    node = spec([[0]], locks=[0], order="random", sessions=[10])
    second = [int(np.argsort(run(node, work(6, node), [0.0] * 6, seed=s).answered)[1]) for s in range(1000)]
    counts = np.bincount(second, minlength=6)
    assert counts[0] == 0, "job 0 holds the lock first"
    assert np.all(np.abs(counts[1:] - 200) < 4 * np.sqrt(200 * 0.8)), counts


def test_a_signal_that_is_not_needed_is_not_run() -> None:
    """A class without a signal skips it, and a stage left empty takes no time."""
    node = spec([[0], [1]])
    records = run(node, work(2, node, needed=np.array([[True, False], [True, True]])), [0, 10])
    assert records.answered.tolist() == [1, 12]
    assert np.isnan(records.ended[0, 1])


def test_closed_loop_holds_as_many_requests_as_clients() -> None:
    """Two clients that do not think keep one session busy without a gap and never have more than two requests."""
    node = spec()
    records = simulate(node, work(6, node), ClosedLoop(2, np.zeros(6)), Streams(1, 0))
    assert records.arrived.tolist() == [0, 0, 1, 2, 3, 4]
    assert records.answered.tolist() == [1, 2, 3, 4, 5, 6]


def test_bursts_wait_for_the_last_answer_and_the_gap() -> None:
    """The next burst comes `gap_s` after the last answer of the one before."""
    node = spec()
    records = simulate(node, work(4, node), Bursts(2, 2, 5.0), Streams(1, 0))
    assert records.arrived.tolist() == [0, 0, 7, 7]


@pytest.mark.parametrize("occupancy", [0.2, 0.7, 1.0])
def test_time_parts_add_up_to_the_latency(occupancy: float) -> None:
    """Attribution loses nothing: along the slowest signals the parts sum to each request's latency."""
    node = spec([[0, 1, 2], [3]], locks=[0, 0, 1, None], cpu_workers=2)
    brought = work(40, node, occupancy=occupancy, router=0.3)
    brought.service_s[:] = np.random.default_rng(5).exponential(size=brought.service_s.shape)
    records = run(node, brought, np.sort(np.random.default_rng(6).uniform(0, 60, 40)).tolist())
    parts = time_parts(records)
    np.testing.assert_allclose(sum(parts[p] for p in TIME_PARTS), records.latency, atol=1e-9)
    assert all(np.all(parts[p] >= -1e-12) for p in TIME_PARTS)
