"""The sharing law, with finishing times worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.small_nodes import run, spec, work


def finish(services: list[float], occupancies: list[float], starts: list[float]) -> list[float]:
    node = spec(sessions=[len(services)])
    brought = work(len(services), node)
    brought.service_s[:, 0], brought.occupancy[:, 0] = services, occupancies
    return run(node, brought, starts).answered.tolist()


def test_a_half_full_device_runs_all_at_full_speed() -> None:
    """While the sum of occupancies is at most 1 nobody slows anybody."""
    assert finish([1, 1], [0.5, 0.5], [0, 0]) == [1, 1]


def test_an_overfull_device_slows_all_by_the_sum() -> None:
    """Two of occupancy 0.75 run at 1/1.5 each."""
    assert finish([1, 1], [0.75, 0.75], [0, 0]) == pytest.approx([1.5, 1.5])


def test_speed_changes_when_a_job_ends() -> None:
    """Full sharing of 1 and 2 seconds: the short one ends at 2, the long one has run 1 and needs 1 more alone."""
    assert finish([1, 2], [1, 1], [0, 0]) == pytest.approx([2, 3])


def test_speed_changes_when_a_job_arrives() -> None:
    """Two seconds of work alone for 1 s, then shared: 1 s left takes 2 s; the newcomer gets its rest alone."""
    assert finish([2, 2], [1, 1], [0, 1]) == pytest.approx([3, 4])


def test_equal_jobs_that_start_together_end_together() -> None:
    """Ties in virtual time end at the same instant, in order of starting."""
    assert finish([1] * 5, [1] * 5, [0] * 5) == pytest.approx([5] * 5)


def test_tiny_jobs_among_long_ones_end_in_time() -> None:
    """Work spanning twelve orders of magnitude neither stalls the clock nor is lost."""
    ends = finish([1e-9, 1.0, 1e3], [0.3, 0.3, 0.3], [5e5, 5e5, 5e5])
    np.testing.assert_allclose(np.array(ends) - 5e5, [1e-9, 1.0, 1e3], rtol=1e-6, atol=2e-9)
