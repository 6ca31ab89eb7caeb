"""Open arrivals by hand: times at one instant, a trace at another rate, notes on what a run did not see."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import simpy
import tiny
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.arrivals import OpenLoop, arrivals_of, notes_of_arrivals, requests_of
from sim.streams import Streams


class Door:
    """Notes who came when."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.came: list[tuple[int, float]] = []
        self.answered: Callable[[int], None] = lambda _: None

    def arrive(self, i: int) -> None:
        self.came.append((i, self.env.now))


def came(times: np.ndarray) -> list[tuple[int, float]]:
    env = simpy.Environment()
    door = Door(env)
    OpenLoop(times).start(env, door)
    env.run()
    return door.came


def scenario(**changes: object) -> Scenario:
    return Scenario.model_validate(yaml.safe_load(tiny.SCENARIO) | changes)


TRACE_FIELDS = {
    "arrivals": {"process": "trace", "path": "t.csv"},
    "load": {"rate_scale": [0.5, 1, 4]},
    "measurement": {"requests": 100, "replications": 5},
}


def rows(n: int) -> TraceRows:
    return TraceRows("t.csv", np.arange(n) * 0.25, None, None, skipped=0, bad=(), at_end=True)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(1, 3))
def test_requests_come_in_order_at_their_times(gaps: list[float], repeats: int) -> None:
    """Every request arrives, in order, at its time up to rounding, and the clock never runs backwards."""
    times = np.repeat(np.cumsum(gaps), repeats)
    log = came(times)
    assert [i for i, _ in log] == list(range(times.size))
    assert all(b >= a for (_, a), (_, b) in pairwise(log))
    np.testing.assert_allclose([t for _, t in log], times, rtol=1e-12)


def test_rounding_never_turns_the_clock_back() -> None:
    """Pairs at one instant, at times over twelve powers of ten, where now + (time - now) is not always the time."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        times = np.repeat(np.sort(10.0 ** rng.uniform(-6, 6, size=20)), 2)
        log = came(times)
        assert all(b >= a for (_, a), (_, b) in pairwise(log))
        assert [i for i, _ in log] == list(range(40))


def test_two_requests_at_one_instant_stay_there() -> None:
    """Equal timestamps are not spread out."""
    assert came(np.array([0.0, 1.0, 1.0, 1.0])) == [(0, 0.0), (1, 1.0), (2, 1.0), (3, 1.0)]


def test_a_trace_runs_as_many_times_as_fast_as_the_load_says() -> None:
    """At `rate_scale` 4 the clock of the trace runs four times as fast, and only the wanted requests come."""
    env = simpy.Environment()
    door = Door(env)
    arrivals_of(scenario(**TRACE_FIELDS), 4.0, Streams(1, 0), rows(500)).start(env, door)
    env.run()
    assert door.came == [(i, i * 0.0625) for i in range(100)]


def test_a_trace_is_the_same_in_every_replication() -> None:
    """Replications and seeds change the service draws, not when requests of a trace arrive."""
    logs = []
    for seed, replication in ((1, 0), (1, 1), (2, 0)):
        env = simpy.Environment()
        door = Door(env)
        arrivals_of(scenario(**TRACE_FIELDS), 1.0, Streams(seed, replication), rows(50)).start(env, door)
        env.run()
        logs.append(door.came)
    assert logs[0] == logs[1] == logs[2]


@pytest.mark.parametrize(("has", "replayed"), [(40, 40), (500, 100)])
def test_a_replication_of_a_trace_has_what_the_trace_has_at_most(has: int, replayed: int) -> None:
    """measurement.requests is a limit; a shorter trace is replayed whole, and the notes say so."""
    asked = scenario(**TRACE_FIELDS)
    assert requests_of(asked, 1.0, rows(has)) == replayed
    notes = " ".join(notes_of_arrivals(asked, rows(has)))
    assert f"the first {replayed} requests" in notes
    assert ("fewer than measurement.requests (100)" in notes) == (has < 100)


def test_a_run_that_ends_before_the_spike_says_so() -> None:
    """400 requests at 20 and at 60 a second last 20 s and 6.7 s: the spike at 10 s is missed by the second only."""
    fields = {"process": "spike", "factor": 3, "at_s": 10, "duration_s": 2}
    (note,) = notes_of_arrivals(scenario(arrivals=fields), None)
    assert note.startswith("At 60 requests a second a replication lasts about 6.667 s and sees nothing of the spike")


def test_a_run_that_is_shorter_than_a_day_says_so() -> None:
    """400 requests at 20 and at 60 a second last 20 s and 6.7 s: a period of 15 s is seen whole by the first only."""
    fields = {"process": "time_varying", "points": [[0, 1], [15, 2]]}
    (note,) = notes_of_arrivals(scenario(arrivals=fields), None)
    assert note.startswith("At 60 requests a second")
    assert notes_of_arrivals(scenario(), None) == ()
