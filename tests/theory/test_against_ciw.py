"""The engine against Ciw, an independent simulator of queueing networks, on what both can express.

For each network both run independent replications. Each one's mean must lie in the other's 99 % interval, and the
intervals must be narrow, so that agreement means something.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from sim.arrivals import OpenLoop
from sim.engine import simulate
from sim.node import NodeSpec
from sim.streams import Streams
from sim.work import Work

ciw = pytest.importorskip("ciw", reason="Ciw comes with the dev extra")


@dataclass(frozen=True)
class Network:
    """Stations in a row, exponential service. Poisson arrivals at `rate`; `waiting`: room to wait at the last station."""

    rate: float
    services: tuple[float, ...]  # mean seconds by station
    servers: tuple[int, ...]
    sharing: bool = False  # one processor-sharing station
    waiting: int | None = None
    requests: int = 20_000
    replications: int = 8


NETWORKS = {
    "M/M/1 at 0.7": Network(0.7, (1.0,), (1,)),
    "M/M/3 at 0.8": Network(2.4, (1.0,), (3,), replications=12),
    "three stations in a row": Network(0.7, (1.0, 0.5, 1.5), (1, 2, 2), requests=12_000, replications=10),
    "M/M/1 with room for three": Network(0.9, (1.0,), (1,), waiting=3),
    "M/M/2 with room for one": Network(1.8, (1.0,), (2,), waiting=1),
    "processor sharing at 0.6": Network(0.6, (1.0,), (1,), sharing=True),
}


def ours(network: Network, seed: int) -> dict[str, float]:
    """Mean time in the system of those served, and the share of arrivals that is turned away."""
    count, n = len(network.services), network.requests
    sessions = (n,) if network.sharing else network.servers
    node = NodeSpec(
        cpu_workers=n,
        signals=tuple(f"s{k}" for k in range(count)),
        stages=tuple((k,) for k in range(count)),
        sessions=sessions,
        lock_of=(None,) * count,
        locks=(),
        device_of=tuple(range(count)),
        devices=tuple(f"d{k}" for k in range(count)),
    )
    if network.waiting is not None:
        node = replace(node, queue_limit=(*(None,) * (count - 1), network.waiting))
    streams = Streams(1, seed)
    service = [streams.generator(f"s{k}").exponential(s, size=n) for k, s in enumerate(network.services)]
    share = 1.0 if network.sharing else 1 / max(network.servers)
    work = Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.ones(n, dtype=np.int64),
        router_s=np.zeros(n),
        needed=np.ones((n, count), dtype=bool),
        service_s=np.column_stack(service),
        occupancy=np.full((n, count), share),
    )
    times = np.cumsum(streams.generator("arrivals").exponential(1 / network.rate, size=n))
    records = simulate(node, work, OpenLoop(times), streams)
    kept = np.arange(n) >= n // 10
    served = kept & ~records.failed
    return {"time": float(records.latency[served].mean()), "turned_away": float(records.failed[kept].mean())}


def theirs(network: Network, seed: int) -> dict[str, float]:
    count = len(network.services)
    room = [float("inf")] * (count - 1) + [math.inf if network.waiting is None else network.waiting]
    model = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(network.rate)] + [None] * (count - 1),
        service_distributions=[ciw.dists.Exponential(1 / s) for s in network.services],
        number_of_servers=[math.inf] if network.sharing else list(network.servers),
        routing=[[float(j == i + 1) for j in range(count)] for i in range(count)],
        queue_capacities=room,
        **({"ps_thresholds": [1]} if network.sharing else {}),
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(model, node_class=[ciw.PSNode] if network.sharing else None)
    horizon = network.requests / network.rate
    simulation.simulate_until_max_time(horizon)
    begin, stop = horizon / 10, 0.98 * horizon  # arrivals in this span: past the start, and answered before the end
    visits: dict[int, tuple[float, float]] = {}
    away = 0
    for record in simulation.get_all_records(only=["service", "rejection"]):
        if record.record_type == "rejection":
            away += begin <= record.arrival_date <= stop
            continue
        first, last = visits.get(record.id_number, (math.inf, 0.0))
        visits[record.id_number] = min(first, record.arrival_date), max(last, record.exit_date)
    times = [last - first for first, last in visits.values() if begin <= first <= stop]
    return {"time": float(np.mean(times)), "turned_away": away / (away + len(times))}


def interval(run: Callable[[Network, int], dict[str, float]], network: Network) -> dict[str, tuple[float, float]]:
    results = [run(network, seed) for seed in range(network.replications)]
    spread = {}
    for name in ("time", "turned_away"):
        data = np.array([result[name] for result in results])
        half = stats.t.ppf(0.995, network.replications - 1) * data.std(ddof=1) / math.sqrt(network.replications)
        spread[name] = (float(data.mean()), float(half))
    return spread


EACH_TIME = ("M/M/1 at 0.7", "M/M/2 with room for one", "processor sharing at 0.6")
"""One of each kind; the others are slow proofs."""


@pytest.mark.parametrize(
    "name", [name if name in EACH_TIME else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS]
)
def test_means_lie_in_each_others_intervals(name: str) -> None:
    """Mean time in the system, and the share turned away where room is limited, agree with Ciw."""
    network = NETWORKS[name]
    mine, other = interval(ours, network), interval(theirs, network)
    for figure in ("time", "turned_away") if network.waiting is not None else ("time",):
        (a, half_a), (b, half_b) = mine[figure], other[figure]
        assert half_a <= 0.06 * a
        assert half_b <= 0.06 * b
        assert abs(a - b) <= min(half_a, half_b), f"{figure}: ours {a:.4f} ± {half_a:.4f}, Ciw {b:.4f} ± {half_b:.4f}"
    if network.waiting is None:
        assert mine["turned_away"] == other["turned_away"] == (0.0, 0.0)
