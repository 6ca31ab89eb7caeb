"""Wiring: put a node, its work and an arrival process on one SimPy clock, run it dry, return the records.

Only this module builds the `simpy.Environment`. Policy lives in the modules named for it.
"""

from __future__ import annotations

import simpy

from profiles.schema import Profile
from scenarios.loader import read_trace
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.arrivals import Arrivals, arrivals_of, requests_of
from sim.front import Front
from sim.node import NodeSpec, node_of
from sim.records import Records, records_of
from sim.streams import Streams
from sim.tracks import Tracks
from sim.work import Work, draw_work


def run_once(
    scenario: Scenario, profile: Profile, seed: int, load: float, replication: int = 0, trace: TraceRows | None = None
) -> Records:
    """One replication of one load point. The same arguments give the same records, bit for bit.

    `trace`: rows of `loader.read_trace`, if the caller has read them; else a scenario with a trace reads them here.
    """
    trace = trace if trace is not None else read_trace(scenario)
    streams = Streams(seed, replication)
    work = draw_work(scenario, profile, streams, requests_of(scenario, load, trace), trace)
    return simulate(node_of(scenario, profile), work, arrivals_of(scenario, load, streams, trace), streams)


def simulate(node: NodeSpec, work: Work, arrivals: Arrivals, streams: Streams) -> Records:
    """Run until nothing is left to happen. A request that is still waiting then (for memory, say) has failed."""
    env = simpy.Environment()
    tracks = Tracks(node, work)
    front = Front(env, node, work, tracks, streams)
    arrivals.start(env, front)
    env.run()
    return records_of(node, work, tracks, env.now)
