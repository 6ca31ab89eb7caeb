"""What metrics make of records."""

from __future__ import annotations

import numpy as np
import pytest

from profiles import store
from scenarios import loader
from sim import replicate
from sim.engine import run_once
from sim.intervals import interval
from sim.metrics import figures, mser5, utilisation
from tests.support.small_nodes import run, spec, work


def test_mser5_cuts_a_transient_and_leaves_stationary_data_alone() -> None:
    """The rule finds the end of a start-up phase; without one it removes next to nothing."""
    rng = np.random.default_rng(1)
    steady = rng.normal(10, 1, 2000)
    transient = np.concatenate([np.linspace(0, 10, 300) + rng.normal(0, 1, 300), steady])
    assert 200 <= mser5(transient) <= 400
    assert mser5(steady) <= 200


def test_mser5_never_removes_more_than_half_and_needs_data() -> None:
    """A trend without end is cut at half, and a handful of values is not cut at all."""
    assert mser5(np.arange(1000.0)) <= 500
    assert mser5(np.arange(10.0)) == 0


def test_utilisation_is_busy_time_over_the_window() -> None:
    """One second of work of occupancy 0.5 in a window of 4: device 0.125, session 0.25, lock 0.25."""
    node = spec([[0]], locks=[0])
    records = run(node, work(1, node, occupancy=0.5), [1.0])
    assert utilisation(records, 0.0, 4.0) == {
        "router_cpu": 0.0,
        "device:gpu": 0.125,
        "lock:lock0": 0.25,
        "session:a": 0.25,
    }
    assert utilisation(records, 1.5, 2.5)["session:a"] == 0.5


def test_a_failed_request_counts_against_the_slo() -> None:
    """Failures stay in the denominator even when they were quick."""
    node = spec()
    records = run(node, work(20, node, service=0.1), list(range(20)))
    records.failure[:5] = 3
    got = figures(records, ("all",), 1.0, 0.99, bursts=True)
    assert got.scalars["slo_attainment"] == 0.75
    assert got.scalars["failed_fraction"] == 0.25


def test_interval_is_students_t() -> None:
    """Five values: mean ± t(0.975, 4) s / sqrt 5."""
    got = interval([1, 2, 3, 4, 5])
    assert got.mean == 3
    assert got.lo == pytest.approx(3 - 2.7764451 * np.sqrt(2.5 / 5))
    assert interval([1.0]).lo is None
    assert interval([1.0, float("nan")]).mean is None
    assert interval([0.9, 1.0, 1.0], highest=1.0).hi == 1.0


def test_a_result_tells_each_compile_of_its_first_replication_and_the_memory_of_a_device() -> None:
    """The events are those of the records, in order; where memory is simulated its size and watermark are in the result."""
    profile = store.load("mi300x-published")
    scenario = loader.load("new_shapes", ("measurement.requests=100", "load.rps=[0.02]"))
    result, _ = replicate.run(scenario, profile, 1)
    happened = run_once(scenario, profile, 1, 0.02).events.compiles
    told = result.points[0].compile_events
    assert len(happened) > 10
    assert [(begin, tokens, took) for begin, _, tokens, took in told] == [(t, k, s) for t, _, _, k, s in happened[:200]]
    assert {who for _, who, _, _ in told} == {"intent:migraphx"}
    assert result.memory_capacity_bytes is None
    cliff = loader.load("sdpa_memory_cliff", ("measurement.requests=100",))
    full, _ = replicate.run(cliff, profile, 1)
    assert profile.device.memory_bytes is not None
    assert full.memory_capacity_bytes == profile.device.memory_bytes.value
    assert full.memory_watermark == 0.9
