"""Balancers and batching against bounds and limits that theory gives."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sim.arrivals import OpenLoop
from sim.engine import simulate
from sim.node import NodeSpec, ReplicaSpec
from sim.records import Records
from sim.streams import Streams
from sim.work import Work
from tests.support.small_nodes import spec, work

RHO, SERVERS = 0.8, 2


def exponential_runs(node: NodeSpec, rate: float, n: int = 20_000, replications: int = 10) -> list[Records]:
    runs = []
    for r in range(replications):
        streams = Streams(11, r)
        brought: Work = replace(
            work(n, node, occupancy=1.0), service_s=streams.generator("service").exponential(size=(n, 1))
        )
        times = np.cumsum(streams.generator("arrivals").exponential(1 / rate, size=n))
        runs.append(simulate(node, brought, OpenLoop(times), streams, engine="auto"))
    return runs


def sojourn(node: NodeSpec, rate: float) -> tuple[float, float]:
    """Mean time in the system with the half-width of its 99 % interval."""
    means = np.array([float(run.latency[2000:].mean()) for run in exponential_runs(node, rate)])
    return float(means.mean()), float(stats.t.ppf(0.995, means.size - 1) * means.std(ddof=1) / math.sqrt(means.size))


def test_join_the_shortest_queue_lies_between_pooling_and_blind_splitting() -> None:
    """Two exponential servers: pooled M/M/2 is a lower bound, random splitting (two M/M/1) an upper one, and exact."""
    rate = RHO * SERVERS
    pooled = 1 / (1 - RHO**2)  # M/M/2 sojourn with mean service 1: 1 / (1 - rho^2)
    split = 1 / (1 - RHO)
    times = {
        name: sojourn(replace(spec(), replicas=ReplicaSpec(count=2, balancer=name)), rate)
        for name in ("random", "power_of_two", "join_shortest_queue")
    }
    mean, half = times["random"]
    assert half < 0.08 * split
    assert abs(mean - split) <= half, "blind splitting of Poisson arrivals is M/M/1 at each"
    for name in ("join_shortest_queue", "power_of_two"):
        mean, half = times[name]
        assert mean - half > pooled
        assert mean + half < split
    # With two servers, two drawn at random are both of them.
    assert times["power_of_two"][0] == pytest.approx(times["join_shortest_queue"][0], rel=0.05)


@pytest.mark.parametrize("max_batch", [1, 4, 16])
def test_a_flooded_batching_session_serves_max_batch_a_batch(max_batch: int) -> None:
    """Under endless load every batch is full, so throughput is max_batch over the time of a full batch."""
    node = replace(spec(), batching=((max_batch, 0.5),))
    n = 40 * max_batch
    brought = replace(work(n, node), batch_service={0: lambda members: 1 + 0.1 * len(members)})
    records = simulate(node, brought, OpenLoop(np.zeros(n)), Streams(1, 0))
    assert records.answered.max() == pytest.approx(40 * (1 + 0.1 * max_batch))


def test_batching_with_unit_batches_and_markov_service_is_mm1() -> None:
    """max_batch 1 with exponential batch times: the sojourn of M/M/1."""
    node = replace(spec(), batching=((1, 0.0),))
    means = []
    for r in range(12):
        streams, n = Streams(5, r), 30_000
        service = streams.generator("service").exponential(size=n)
        brought = replace(work(n, node), batch_service={0: lambda m, s=service: float(s[m[0]])})
        times = np.cumsum(streams.generator("arrivals").exponential(1 / 0.7, size=n))
        means.append(float(simulate(node, brought, OpenLoop(times), streams).latency[2000:].mean()))
    half = stats.t.ppf(0.995, 11) * np.std(means, ddof=1) / math.sqrt(12)
    assert half < 0.05 / 0.3
    assert abs(np.mean(means) - 1 / 0.3) <= half
