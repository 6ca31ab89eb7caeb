"""Wiring: put a node, its work and an arrival process on one SimPy clock, run it dry, return the records.

Only this module builds the `simpy.Environment`. Policy lives in the modules named for it.
"""

from __future__ import annotations

import simpy

from profiles.schema import Profile
from scenarios.schema import Scenario
from sim.arrivals import Arrivals, arrivals_of, requests_of
from sim.node import NodeSpec, Work, draw_work, node_of
from sim.pipeline import Pipeline
from sim.records import Records
from sim.streams import Streams


def run_once(scenario: Scenario, profile: Profile, seed: int, load: float, replication: int = 0) -> Records:
    """One replication of one load point. The same arguments give the same records, bit for bit."""
    streams = Streams(seed, replication)
    work = draw_work(scenario, profile, streams, requests_of(scenario, load))
    return simulate(node_of(scenario), work, arrivals_of(scenario, load, streams), streams)


def simulate(node: NodeSpec, work: Work, arrivals: Arrivals, streams: Streams) -> Records:
    """Run until every request has its answer."""
    env = simpy.Environment()
    pipeline = Pipeline(env, node, work, streams)
    arrivals.start(env, pipeline)
    env.run()
    return pipeline.records()
