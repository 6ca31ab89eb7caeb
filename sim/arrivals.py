"""When requests arrive: Poisson at a rate, bursts, or a closed loop of clients.

Each process is started once on a pipeline and calls `pipeline.arrive(i)` for i = 0, 1, … n-1 in order of arrival.
Randomness is drawn beforehand at unit rate and scaled by the load, so that load points share their random numbers.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from scenarios.schema import Burst, Poisson, Scenario
from sim.events import Call
from sim.pipeline import Pipeline
from sim.streams import Streams

Floats = NDArray[np.float64]


class Arrivals(Protocol):
    """A process that brings n requests to a pipeline."""

    def start(self, env: simpy.Environment, pipeline: Pipeline) -> None:
        """Schedule the first arrivals and watch for answers where the process depends on them."""
        ...


class OpenLoop:
    """Arrivals at given times (seconds, not decreasing), whatever the node does."""

    def __init__(self, times: Floats) -> None:
        self._times = times.tolist()

    def start(self, env: simpy.Environment, pipeline: Pipeline) -> None:
        times, last = self._times, len(self._times) - 1

        def bring(i: int) -> None:
            pipeline.arrive(i)
            if i < last:
                Call(env, times[i + 1] - env.now, bring, i + 1)

        if times:
            Call(env, times[0] - env.now, bring, 0)


class ClosedLoop:
    """`clients` clients: think, ask, wait for the answer, again, until think_s (seconds, one a request) is used up."""

    def __init__(self, clients: int, think_s: Floats) -> None:
        self._clients, self._think_s = clients, think_s.tolist()

    def start(self, env: simpy.Environment, pipeline: Pipeline) -> None:
        asked = arrived = 0

        def think() -> None:
            nonlocal asked
            if asked < len(self._think_s):
                Call(env, self._think_s[asked], bring, 0)
                asked += 1

        def bring(_: int) -> None:
            nonlocal arrived
            i, arrived = arrived, arrived + 1
            pipeline.arrive(i)

        pipeline.answered = lambda _: think()
        for _ in range(self._clients):
            think()


class Bursts:
    """`size` requests at one instant; the next burst `gap_s` after the last answer; `bursts` bursts."""

    def __init__(self, size: int, bursts: int, gap_s: float) -> None:
        self._size, self._bursts, self._gap_s = size, bursts, gap_s

    def start(self, env: simpy.Environment, pipeline: Pipeline) -> None:
        unanswered = 0

        def bring(burst: int) -> None:
            nonlocal unanswered
            unanswered = self._size
            for i in range(burst * self._size, (burst + 1) * self._size):
                pipeline.arrive(i)

        def answered(i: int) -> None:
            nonlocal unanswered
            unanswered -= 1
            if not unanswered and i // self._size + 1 < self._bursts:
                Call(env, self._gap_s, bring, i // self._size + 1)

        pipeline.answered = answered
        Call(env, 0.0, bring, 0)


def requests_of(scenario: Scenario, load: float) -> int:
    """How many requests a replication has at this load point."""
    if isinstance(scenario.arrivals, Burst):
        return scenario.arrivals.bursts * int(load)
    return scenario.measurement.requests


def arrivals_of(scenario: Scenario, load: float, streams: Streams) -> Arrivals:
    """The scenario's arrival process at one load point."""
    n, process = requests_of(scenario, load), scenario.arrivals
    if isinstance(process, Poisson):
        return OpenLoop(np.cumsum(streams.generator("arrivals").exponential(size=n)) / load)
    if isinstance(process, Burst):
        return Bursts(int(load), process.bursts, process.gap_s)
    return ClosedLoop(int(load), streams.generator("arrivals").exponential(size=n) * process.think_time_s)
