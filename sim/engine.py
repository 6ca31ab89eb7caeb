"""Wiring: put a node, its work and an arrival process on one clock, run it dry, return the records.

Two engines give the same records, bit for bit: `simpy`, the reference, simulates everything; `compiled` the closed core
of the node (`sim.compiled.covers`) some hundred times as fast. `auto` takes the compiled one where it covers the run and
the run is long enough to be worth its start. Only this module builds the SimPy clock.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.loader import read_trace
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim import compiled
from sim.arrivals import Arrivals, PagedLoop, arrivals_of, requests_of
from sim.events import Clock
from sim.front import Front
from sim.node import NodeSpec, node_of
from sim.pages import House
from sim.records import Records, records_of
from sim.streams import OngoingStreams, Streams
from sim.tracks import Tracks
from sim.work import Work, draw_work

EngineName = Literal["simpy", "compiled"]
Asked = Literal["auto", "simpy", "compiled"]

WORTH_COMPILING = 50_000
"""Requests of a whole run from which `auto` takes the compiled engine. SimPy takes 1 to 2 s of CPU for as many; starting
the compiled engine takes 0.4 s, and about 10 s once on a machine, when its code is compiled and kept on disk.
docs/explanation/engines.md has the measurements."""

LEAST_REPLICATIONS = 5  # `run_once` is one of at least so many; scenarios.schema.Measurement


@dataclass(frozen=True)
class Choice:
    """The engine that runs, and why in words."""

    engine: EngineName
    why: str


def run_once(
    scenario: Scenario,
    profile: Profile,
    seed: int,
    load: float,
    replication: int = 0,
    trace: TraceRows | None = None,
    *,
    engine: Asked = "auto",
) -> Records:
    """One replication of one load point. The same arguments give the same records, bit for bit, whatever the engine.

    `trace`: rows of `loader.read_trace`, if the caller has read them; else a scenario with a trace reads them here.
    """
    trace = trace if trace is not None else read_trace(scenario)
    streams = Streams(seed, replication)
    work = draw_work(scenario, profile, streams, requests_of(scenario, load, trace), trace)
    return simulate(
        node_of(scenario, profile), work, arrivals_of(scenario, load, streams, trace), streams, engine=engine
    )


def simulate(node: NodeSpec, work: Work, arrivals: Arrivals, streams: Streams, *, engine: Asked = "simpy") -> Records:
    """Run until nothing is left to happen. A request that is still waiting then (for memory, say) has failed."""
    if choose(engine, node, work, arrivals, LEAST_REPLICATIONS * work.tokens.size).engine == "compiled":
        return compiled.simulate(node, work, arrivals, streams)
    with _no_collector():
        env = Clock()
        tracks = Tracks(node, work)
        front = Front(env, node, work, tracks, streams)
        arrivals.start(env, front)
        env.run_dry()
        return records_of(node, work, tracks, env.now)


def simulate_in_pages(
    node: NodeSpec, house: House, streams: OngoingStreams, add: Callable[[Records], None], engine: EngineName
) -> None:
    """The same for requests that come page by page, at given times; `add` gets the records of each page in order.

    Events are with some page that left after they happened. `streams`: not those that draw the pages.
    """
    if engine == "compiled":
        from sim import compiled_pages

        compiled_pages.simulate(node, house, streams, add)
        return
    with _no_collector():
        env = Clock()
        first = house.take()
        tracks = Tracks(node, house.work, house.total)
        front = Front(env, node, house.work, tracks, streams)
        times: list[float] = house.times.tolist()

        def hand_over(settled: Callable[[slice], bool]) -> None:
            for page in house.leave(settled):
                add(records_of(node, house.work.rows(page), tracks, env.now, page))

        def more(now: float) -> range:
            if not house.more:
                return range(0)
            hand_over(front.settled(now))
            page = house.take()
            tracks.put(house.work.rows(page), page.start)
            times[page] = house.times[page].tolist()
            return range(page.start, page.stop)

        PagedLoop(times, range(first.start, first.stop), more).start(env, front)
        env.run_dry()
        hand_over(lambda _: True)


@contextmanager
def _no_collector() -> Iterator[None]:
    """A run makes hardly any garbage in cycles, and looking for it takes a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def choose(asked: Asked, node: NodeSpec, work: Work, arrivals: Arrivals, requests: int) -> Choice:
    """The engine for a run of `requests` requests in all. InputError: `compiled` was asked for and cannot."""
    if asked == "simpy":
        return Choice("simpy", "asked for")
    reason = compiled.missing() or compiled.covers(node, work, arrivals)
    if asked == "compiled":
        if reason is not None:
            raise InputError(f"--engine compiled: {reason}; use --engine auto or simpy")
        return Choice("compiled", "asked for")
    if reason is not None:
        return Choice("simpy", reason)
    if requests < WORTH_COMPILING and "sim.compiled_loop" not in sys.modules:
        return Choice("simpy", f"{requests} requests are fewer than the {WORTH_COMPILING} that are worth compiled code")
    return Choice("compiled", "the node is in its closed core")
