"""The scheduler's law, with times known by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrate.results import BurstsRecord
from calibrate.scheduling import pulls_of, slices_of
from sim.events import Clock
from sim.run_queues import RunQueues
from sim.threads import RunQueueSpec
from tests.support.small_nodes import run, spec, work


def ends(jobs: list[tuple[float, float]], cores: int, slice_s: float, pull_s: float) -> dict[int, float]:
    """End of each job of (start, seconds of work)."""
    env, found = Clock(), dict[int, float]()
    device = RunQueues(env, lambda job: found.__setitem__(job, env.now), cores, slice_s, pull_s)
    for k, (at, seconds) in enumerate(jobs):
        event = env.timeout(at)
        event.callbacks.append(lambda _, k=k, seconds=seconds: device.start(k, seconds, 1 / cores))
    env.run_dry()
    return found


def test_a_thread_with_a_core_of_its_own_runs_at_full_speed() -> None:
    """Two on two cores, whatever the slices: each ends after its own work."""
    assert ends([(0, 3), (0, 5)], 2, 1.0, 0.5) == pytest.approx({0: 3, 1: 5})


def test_two_on_one_core_take_turns() -> None:
    """Slices of one second: A runs in seconds 1 and 3, B in 2 and 4."""
    assert ends([(0, 2), (0, 2)], 1, 1.0, 0.0) == pytest.approx({0: 3, 1: 4})


def test_an_idle_core_helps_late() -> None:
    """Three of two seconds on two cores: the one alone ends at 2; a second later its core takes the thread that waits."""
    found = ends([(0, 2), (0, 2), (0, 2)], 2, 1.0, 1.0)
    assert found == pytest.approx({0: 3, 1: 2, 2: 4})
    assert ends([(0, 2), (0, 2), (0, 2)], 2, 0.01, 0.0)[2] == pytest.approx(3, abs=0.03)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 30)), min_size=1, max_size=12), st.integers(1, 3))
def test_every_thread_gets_its_work_and_no_core_does_two(jobs: list[tuple[int, int]], cores: int) -> None:
    """All end, none before its own work is done, and all together not before the cores could have done it."""
    found = ends([(float(a), float(s)) for a, s in jobs], cores, 2.0, 1.5)
    assert sorted(found) == list(range(len(jobs)))
    assert all(found[k] >= a + s - 1e-9 for k, (a, s) in enumerate(jobs))
    assert max(found.values()) - min(a for a, _ in jobs) >= sum(s for _, s in jobs) / cores - 1e-9


def test_small_slices_on_one_core_are_equal_shares() -> None:
    """With slices towards zero a core becomes the processor sharing of `sim.device`."""
    node = dataclasses.replace(spec([[0, 1, 2]], sessions=[9, 9, 9]), devices=("cpu",))
    brought = work(6, node, occupancy=1.0)
    brought.service_s[:] = np.random.default_rng(1).uniform(0.5, 2.0, brought.service_s.shape)
    fine = dataclasses.replace(node, run_queues=RunQueueSpec(1, 1e-2, 0.0))
    times = [0.0, 0.7, 1.0, 2.0, 5.0, 5.1]
    np.testing.assert_allclose(run(fine, brought, times).latency, run(node, brought, times).latency, rtol=0.01)


def test_calibration_reads_help_and_slice_from_bursts() -> None:
    """Three on two cores made by the law itself give its delay back; 80 ms of work taken away 20 times are slices of 4 ms."""
    slice_s, pull_s, rng = 0.004, 0.006, np.random.default_rng(2)
    rows, own = [], []
    for _ in range(60):
        w = float(rng.uniform(0.03, 0.04))
        rows.append(tuple(round(1e9 * end) for end in ends([(0.0, w)] * 3, 2, slice_s, pull_s).values()))
        own.append((round(1e9 * w),) * 3)
    odd = BurstsRecord(kind="bursts", width=3, ends=tuple(rows), cpu=tuple(own), switches=((0,) * 3,) * 60)
    assert float(np.median(pulls_of(odd))) == pytest.approx(pull_s, abs=slice_s)
    even = BurstsRecord(kind="bursts", width=4, ends=((1,) * 4,), cpu=((20_000_000,) * 4,), switches=((5,) * 4,))
    assert slices_of(even) == pytest.approx([0.004])
