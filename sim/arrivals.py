"""When requests arrive: at times drawn or read beforehand, in bursts, or from a closed loop of clients.

Each process is started once on a pipeline and calls `pipeline.arrive(i)` for i = 0, 1, … n-1 in order of arrival.
Randomness is drawn beforehand at unit rate and scaled by the load, so that load points share their random numbers.
Gaps are never cut or stretched: two requests may come at one instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from scenarios.arrivals import Burst, Closed, Gamma, Mmpp, Poisson, Spike, TimeVarying, Trace
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.events import Call
from sim.rates import curve_of, modulated_curve
from sim.streams import Streams

Floats = NDArray[np.float64]


class Door(Protocol):
    """Where requests come in. `answered(i)` is called when request i has its answer."""

    answered: Callable[[int], None]

    def arrive(self, i: int) -> None:
        """Request i is here."""
        ...


class Arrivals(Protocol):
    """A process that brings n requests to a door."""

    def start(self, env: simpy.Environment, pipeline: Door) -> None:
        """Schedule the first arrivals and watch for answers where the process depends on them."""
        ...


class OpenLoop:
    """Arrivals at given times (seconds, not decreasing), whatever the node does."""

    def __init__(self, times: Floats) -> None:
        self.times = times

    def start(self, env: simpy.Environment, pipeline: Door) -> None:
        times: list[float] = self.times.tolist()
        last = len(times) - 1

        def bring(i: int) -> None:
            pipeline.arrive(i)
            if i < last:
                # max: the clock may stand a rounding bit past two arrivals at one instant
                Call(env, max(times[i + 1] - env.now, 0.0), bring, i + 1)

        if times:
            Call(env, times[0] - env.now, bring, 0)


class PagedLoop:
    """Arrivals at given times, a page of them at a time. `more(now)`: places of the next page, empty when all have come.

    Requests are known by their places: `times[place]` says when each arrives.
    """

    def __init__(self, times: list[float], first: range, more: Callable[[float], range]) -> None:
        self._times, self._page, self._more = times, first, more

    def start(self, env: simpy.Environment, pipeline: Door) -> None:
        times, page = self._times, self._page

        def bring(i: int) -> None:
            nonlocal page
            pipeline.arrive(i)
            following = i + 1
            if following == page.stop:
                page = self._more(env.now)
                following = page.start
            if page:
                Call(env, max(times[following] - env.now, 0.0), bring, following)

        Call(env, times[page.start] - env.now, bring, page.start)


class ClosedLoop:
    """`clients` clients: think, ask, wait for the answer, again, until think_s (seconds, one a request) is used up."""

    def __init__(self, clients: int, think_s: Floats) -> None:
        self.clients, self.think_s = clients, think_s

    def start(self, env: simpy.Environment, pipeline: Door) -> None:
        think_s: list[float] = self.think_s.tolist()
        asked = arrived = 0

        def think() -> None:
            nonlocal asked
            if asked < len(think_s):
                Call(env, think_s[asked], bring, 0)
                asked += 1

        def bring(_: int) -> None:
            nonlocal arrived
            i, arrived = arrived, arrived + 1
            pipeline.arrive(i)

        pipeline.answered = lambda _: think()
        for _ in range(self.clients):
            think()


class Bursts:
    """`size` requests at one instant; the next burst `gap_s` after the last answer; `bursts` bursts."""

    def __init__(self, size: int, bursts: int, gap_s: float) -> None:
        self.size, self.bursts, self.gap_s = size, bursts, gap_s

    def start(self, env: simpy.Environment, pipeline: Door) -> None:
        unanswered = 0

        def bring(burst: int) -> None:
            nonlocal unanswered
            unanswered = self.size
            for i in range(burst * self.size, (burst + 1) * self.size):
                pipeline.arrive(i)

        def answered(i: int) -> None:
            nonlocal unanswered
            unanswered -= 1
            if not unanswered and i // self.size + 1 < self.bursts:
                Call(env, self.gap_s, bring, i // self.size + 1)

        pipeline.answered = answered
        Call(env, 0.0, bring, 0)


def requests_of(scenario: Scenario, load: float, trace: TraceRows | None = None) -> int:
    """How many requests a replication has at this load point."""
    if isinstance(scenario.arrivals, Burst):
        return scenario.arrivals.bursts * int(load)
    if trace is not None:
        return min(scenario.measurement.requests, len(trace))
    if scenario.measurement.duration_s is not None:
        return max(round(load * scenario.measurement.duration_s), 100)
    return scenario.measurement.requests


def arrivals_of(
    scenario: Scenario, load: float, streams: Streams, trace: TraceRows | None = None, n: int | None = None
) -> Arrivals:
    """The scenario's arrival process at one load point, or its first n. `trace`: the rows, where it is a trace."""
    n, process = requests_of(scenario, load, trace) if n is None else n, scenario.arrivals
    if isinstance(process, Burst):
        return Bursts(int(load), process.bursts, process.gap_s)
    if isinstance(process, Closed):
        return ClosedLoop(int(load), streams.generator("arrivals").exponential(size=n) * process.think_time_s)
    if isinstance(process, Trace):
        assert trace is not None  # noqa: S101 - the engine reads it before it asks
        return OpenLoop(trace.times_s[:n] / load)
    return OpenLoop(arrival_times(process, load, n, streams))


def arrival_times(
    process: Poisson | Gamma | Mmpp | TimeVarying | Spike, rps: float, n: int, streams: Streams
) -> Floats:
    """(n,) seconds of the first n arrivals at mean rate `rps`; the stream `arrivals` holds unit gaps for every process.

    gamma: a gap has shape 1/cv² and mean 1, so its coefficient of variation is cv.
    """
    unit = np.cumsum(_gaps(process, streams.generator("arrivals"), n))
    return _clock(process, rps, float(unit[-1]), streams)(unit)


def times_in_pieces(
    scenario: Scenario, load: float, n: int, size: int, streams: Streams, trace: TraceRows | None = None
) -> Iterator[Floats]:
    """The times of the open-loop process, `size` after `size`: the same as in one go."""
    process = scenario.arrivals
    pieces = range(0, n, size)
    if isinstance(process, Trace):
        assert trace is not None  # noqa: S101 - the caller has read it
        yield from (trace.times_s[at : min(at + size, n)] / load for at in pieces)
        return
    assert not isinstance(process, Burst | Closed)  # noqa: S101 - those are not known beforehand
    whole = 0.0
    if isinstance(process, Mmpp):  # the path of states must be long enough for all
        for unit in _sums(process, streams.after("arrivals", 0), n, size):
            whole = float(unit[-1])
    times_of, last = _clock(process, load, whole, streams), -np.inf
    for unit in _sums(process, streams.after("arrivals", 0), n, size):
        times = np.maximum(times_of(unit), last)
        last = float(times[-1])
        yield times


def _gaps(process: Poisson | Gamma | Mmpp | TimeVarying | Spike, rng: np.random.Generator, n: int) -> Floats:
    if isinstance(process, Gamma):
        shape = process.cv**-2
        return rng.gamma(shape, 1 / shape, size=n)
    return rng.exponential(size=n)


def _sums(
    process: Poisson | Gamma | Mmpp | TimeVarying | Spike, rng: np.random.Generator, n: int, size: int
) -> Iterator[Floats]:
    """Running sums of the gaps, added up in the same order as in one go."""
    total = 0.0
    for at in range(0, n, size):
        gaps = _gaps(process, rng, min(size, n - at))
        gaps[0] += total
        unit = np.cumsum(gaps)
        total = float(unit[-1])
        yield unit


def _clock(
    process: Poisson | Gamma | Mmpp | TimeVarying | Spike, rps: float, whole: float, streams: Streams
) -> Callable[[Floats], Floats]:
    """From amounts of unit arrivals, at most `whole`, to their seconds."""
    if isinstance(process, Mmpp):
        return modulated_curve(process, rps, whole, streams.generator("arrivals:states")).times
    if isinstance(process, TimeVarying | Spike):
        return curve_of(process, rps).times
    return lambda unit: np.asarray(unit / rps)


def notes_of_arrivals(scenario: Scenario, trace: TraceRows | None) -> tuple[str, ...]:
    """What a reader must know about the arrivals: how much of a trace was replayed, how much of a cycle was seen."""
    process, asked = scenario.arrivals, scenario.measurement.requests
    if trace is not None:
        return _trace_notes(trace, asked)
    notes = []
    for load in scenario.load.points:
        lasts = requests_of(scenario, load) / load
        if isinstance(process, TimeVarying) and lasts < process.points[-1][0]:
            notes.append(
                f"At {load:g} requests a second a replication lasts about {lasts:.4g} s, less than one period of the rate "
                f"({process.points[-1][0]:g} s): only its beginning is seen. Raise measurement.requests or measurement.duration_s to see all of it."
            )
        if isinstance(process, Spike) and lasts < process.at_s + process.duration_s:
            seen = "only the beginning" if lasts > process.at_s else "nothing"
            notes.append(
                f"At {load:g} requests a second a replication lasts about {lasts:.4g} s and sees {seen} of the spike at "
                f"{process.at_s:g} s. Raise measurement.requests or measurement.duration_s."
            )
    return tuple(notes)


def _trace_notes(trace: TraceRows, asked: int) -> tuple[str, ...]:
    rows = min(len(trace), asked)
    first = f"Arrivals are the first {rows} requests of the trace {trace.path}, the same in every replication"
    notes = [f"{first}: intervals cover the spread of service times, not that of traffic."]
    if len(trace) < asked:
        notes.append(
            f"The trace has {len(trace)} requests, fewer than measurement.requests ({asked}): all are replayed."
        )
    if trace.skipped:
        notes.append(f"{trace.skipped} lines of the trace could not be read and were skipped: {'; '.join(trace.bad)}.")
    return tuple(notes)
