"""Our engines against fleet-sim's on the same workload: one text after the other on N servers, the emptiest first.

Enters: requests, rounds. Leaves: `engine, N GPUs` -> times faster, or nothing where fleet-sim cannot be imported. fleet-sim is taken
from the checkout of the router project that SEMANTIC_ROUTER names, or as installed. Its GPU is a server with one slot whose
prefill is the whole service, so one GPU is M/D/1 in both, and the answer times are compared to 1e-9 s before anything is
timed. With several GPUs both send a request to the server with the fewest; of equal ones fleet-sim takes the first and ours
the next in turn, which with a constant service is nearest to its end. A few lines apart from either give 13.997 and
14.850 ms for 4 GPUs at 80 %, so mean latencies are asked to agree within 10 % there and ours to be no longer.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import SERVICE_S, Case
from benchmarks.timing import in_turns
from sim.arrivals import OpenLoop
from sim.engine import Asked, simulate
from sim.metrics import figures
from sim.node import NodeSpec, ReplicaSpec
from sim.records import Records
from sim.streams import Streams
from sim.work import Work

GPUS = (1, 4, 40)
LOAD = 0.8
TOKENS = 512


class OneSlot:
    """What fleet-sim asks of a GPU: one slot, a service of constant length, nothing to decode."""

    name, cost_per_hr = "one slot", 1.0
    chunk, blk_size, max_slots, total_kv_blks = 1 << 30, 1 << 30, 1, 1

    def iter_latency(self, n_active: int, mean_seq_len: float | None = None) -> float:
        return 0.0

    def prefill_iter_latency(
        self, chunk_tokens: int, kv_history_tokens: float, n_active: int, mean_seq_len: float | None = None
    ) -> float:
        return SERVICE_S

    def n_slots(self, max_ctx: int) -> int:
        return 1

    def service_time(self, l_in: int, l_out: int, max_ctx: int) -> float:
        return SERVICE_S

    def throughput(self, max_ctx: int, mean_l_in: float, mean_l_out: float) -> float:
        return 1 / SERVICE_S


def imported() -> Any | None:
    """fleet-sim, or None where it is not here."""
    root = os.environ.get("SEMANTIC_ROUTER")
    if root:
        sys.path.insert(0, str(Path(root) / "src" / "fleet-sim"))
    try:
        return importlib.import_module("fleet_sim")
    except ImportError:
        return None


def case(n: int, gpus: int) -> Case:
    rng = np.random.default_rng(gpus)
    replicas = ReplicaSpec(count=gpus, balancer="join_shortest_queue")
    node = NodeSpec(10**6, ("s",), ((0,),), (1,), (None,), (), (0,), ("gpu",), replicas=replicas)
    work = Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.full(n, TOKENS, dtype=np.int64),
        router_s=np.zeros(n),
        needed=np.ones((n, 1), dtype=bool),
        service_s=np.full((n, 1), SERVICE_S),
        occupancy=np.ones((n, 1)),
    )
    return node, work, np.cumsum(rng.exponential(SERVICE_S / (LOAD * gpus), n))


def theirs(fleet_sim: Any, gpus: int, times: np.ndarray) -> np.ndarray:
    """(n,) seconds at which each request ends."""
    request = importlib.import_module("fleet_sim.core.request").Request
    pool = fleet_sim.PoolConfig("all", OneSlot(), gpus, 2 * TOKENS, lb_strategy="least_loaded")
    fleet = fleet_sim.Fleet(fleet_sim.FleetConfig(pools=[pool], router_type="LeastLoadedRouter"))
    arrivals = [(t, request(i, t, TOKENS, 0)) for i, t in enumerate(times.tolist())]
    fleet.run(arrivals)
    return np.array([one.end_time for _, one in arrivals])


def ours(one: Case, name: Asked) -> Records:
    node, work, times = one
    return simulate(node, work, OpenLoop(times), Streams(1, 0), engine=name)


def against_fleet_sim(n: int, rounds: int) -> dict[str, float]:
    """Times faster, for each engine and number of GPUs."""
    fleet_sim = imported()
    if fleet_sim is None:
        return {}
    found = {}
    for gpus in GPUS:
        one = case(n, gpus)
        times = one[2]
        ended, answered = theirs(fleet_sim, gpus, times), ours(one, "simpy").answered
        if gpus == 1:
            np.testing.assert_allclose(answered, ended, rtol=0, atol=1e-9)
        mine, other = (answered - times).mean(), (ended - times).mean()
        assert 0.9 * other <= mine <= other + 1e-9, f"{gpus} GPUs: mean latency {mine} s here, {other} s in fleet-sim"
        took = in_turns(
            {
                "fleet-sim": lambda gpus=gpus, times=times: theirs(fleet_sim, gpus, times),
                **{
                    name: lambda one=one, name=name: figures(ours(one, name), ("a",), 0.1, 0.99, bursts=False)
                    for name in ("simpy", "compiled")
                },
            },
            rounds,
        )
        fleet = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
        found |= {f"{name}, {fleet}": took["fleet-sim"] / took[name] for name in ("simpy", "compiled")}
    return found
