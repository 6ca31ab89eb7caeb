"""Nodes and work for benchmarks: three-way fork-join with locks and a shared device, in any size; and M/M/4.

Enters: sizes and a number of requests. Leaves: (node, work, arrival times). Times in seconds. Each case is kept at about
60 % of its capacity, whatever its size, so that a larger node is not an emptier one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.node import NodeSpec, ReplicaSpec
from sim.work import Work

Floats = NDArray[np.float64]
Case = tuple[NodeSpec, Work, Floats]

SERVICE_S = 0.01


def fork_join(n: int, *, signals: int = 3, gpus: int = 1, replicas: int = 1, balancer: str = "round_robin") -> Case:
    """`signals` side by side, one session of each on every GPU. On one GPU the router's two lock domains stand before the
    first two signals and the rest; more GPUs would idle behind them, so there they are left out.
    """  # fmt: skip
    rng = np.random.default_rng(signals * 1000 + gpus * 10 + replicas)
    locked = gpus == 1
    node = NodeSpec(
        cpu_workers=16 * gpus,
        signals=tuple(f"s{k}" for k in range(signals)),
        stages=(tuple(range(signals)),),
        sessions=(gpus,) * signals,
        lock_of=tuple(0 if k < 2 else 1 for k in range(signals)) if locked else (None,) * signals,
        locks=(("sequence", "fifo"), ("token", "fifo")) if locked else (),
        device_of=(0,) * signals,
        devices=tuple(f"gpu{k}" for k in range(gpus)),
        placement=(tuple(range(gpus)),) * signals,
        replicas=ReplicaSpec(count=replicas, balancer=balancer),
    )
    shape = (n, signals)
    share = 0.5
    work = _work(rng, n, rng.exponential(SERVICE_S, shape), np.full(shape, share))
    busy = (
        max(2, signals - 2) if locked else signals * share
    )  # seconds of the fullest lock or device a request, in services
    rate = 0.6 * gpus * replicas / (busy * SERVICE_S)
    return node, work, np.cumsum(rng.exponential(1 / rate, n))


def mm4(n: int) -> Case:
    """M/M/4 at 80 % load: one signal with four sessions that do not slow one another."""
    rng = np.random.default_rng(4)
    node = NodeSpec(10**6, ("s",), ((0,),), (4,), (None,), (), (0,), ("gpu",))
    work = _work(rng, n, rng.exponential(1.0, (n, 1)), np.full((n, 1), 0.25), router_s=0.0)
    return node, work, np.cumsum(rng.exponential(1 / 3.2, n))


def _work(rng: np.random.Generator, n: int, service_s: Floats, occupancy: Floats, router_s: float = 0.001) -> Work:
    return Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.ones(n, dtype=np.int64),
        router_s=rng.exponential(router_s, n) if router_s else np.zeros(n),
        needed=np.ones(service_s.shape, dtype=bool),
        service_s=service_s,
        occupancy=occupancy,
    )
