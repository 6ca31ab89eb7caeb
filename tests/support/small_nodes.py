"""Small nodes with service times of 1, so that every time in a test is known by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.arrivals import OpenLoop
from sim.engine import simulate
from sim.node import NodeSpec
from sim.records import Records
from sim.streams import Streams
from sim.work import Work


def spec(
    stages: Sequence[Sequence[int]] = ((0,),),
    *,
    sessions: Sequence[int] | None = None,
    locks: Sequence[int | None] | None = None,
    order: str = "fifo",
    cpu_workers: int = 100,
) -> NodeSpec:
    """A node on one device; `stages` name signals by number, `locks` give each signal's lock domain by number."""
    count = sum(len(stage) for stage in stages)
    lock_of = tuple(locks) if locks else (None,) * count
    domains = sorted({k for k in lock_of if k is not None})
    return NodeSpec(
        cpu_workers=cpu_workers,
        signals=tuple("abcdefgh"[:count]),
        stages=tuple(tuple(stage) for stage in stages),
        sessions=tuple(sessions) if sessions else (1,) * count,
        lock_of=lock_of,
        locks=tuple((f"lock{k}", order) for k in domains),  # type: ignore[misc]  # tests pass the two literals
        device_of=(0,) * count,
        devices=("gpu",),
    )


def work(
    requests: int,
    node: NodeSpec,
    *,
    service: float = 1.0,
    occupancy: float = 0.1,
    router: float = 0.0,
    needed: np.ndarray | None = None,
) -> Work:
    """Equal requests."""
    shape = (requests, len(node.signals))
    return Work(
        class_of=np.zeros(requests, dtype=np.int64),
        tokens=np.full(requests, 512, dtype=np.int64),
        router_s=np.full(requests, router),
        needed=np.ones(shape, dtype=bool) if needed is None else needed,
        service_s=np.full(shape, service),
        occupancy=np.full(shape, occupancy),
    )


def run(node: NodeSpec, brought: Work, times: Sequence[float], seed: int = 1) -> Records:
    """Open arrivals at `times`."""
    return simulate(node, brought, OpenLoop(np.array(times, dtype=float)), Streams(seed, 0))
