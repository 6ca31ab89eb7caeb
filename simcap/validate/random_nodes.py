"""Random small nodes with random work, for the invariants: plain ones, and ones that use every mechanism at once.

Enters: a `Chooser`: NumPy's generator in `simcap validate theory`, Hypothesis in tests/invariants. Leaves: a `Case` that
can be run. Times in seconds, memory in units of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from profiles.distribution import QuantileLaw
from scenarios.node import Crash, Fault, RollingRestart
from sim.arrivals import OpenLoop
from sim.engine import simulate
from sim.node import CompileSpec, LimitSpec, MemorySpec, NodeSpec, ReplicaSpec, VariantSpec
from sim.records import Records
from sim.streams import Streams
from sim.work import Work

T = TypeVar("T")

LOAD = QuantileLaw([0, 1], [0.5, 1.5])
BALANCERS = ("round_robin", "least_loaded", "join_shortest_queue", "power_of_two", "affinity")


class Chooser(Protocol):
    """Where choices come from."""

    def integer(self, low: int, high: int) -> int:
        """One of low … high, both included."""

    def real(self, low: float, high: float) -> float:
        """A number from low to high."""

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options."""


class Generator:
    """Choices of a NumPy generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def integer(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high, endpoint=True))

    def real(self, low: float, high: float) -> float:
        return float(self._rng.uniform(low, high))

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]


@dataclass(frozen=True)
class Case:
    """A node, what arrives at it and when."""

    node: NodeSpec
    work: Work
    times: np.ndarray
    seed: int

    def run(self) -> Records:
        return simulate(self.node, self.work, OpenLoop(self.times), Streams(self.seed, 0))


def plain(pick: Chooser) -> Case:
    """One or two stages, locks, one or two devices; nothing fails."""
    signals = pick.integer(1, 4)
    cut = pick.integer(0, signals - 1)
    order = pick.one_of(("fifo", "random"))
    devices = pick.integer(1, 2)
    node = NodeSpec(
        cpu_workers=pick.integer(1, 3),
        signals=tuple("abcd"[:signals]),
        stages=tuple(stage for stage in (tuple(range(cut)), tuple(range(cut, signals))) if stage),
        sessions=tuple(pick.integer(1, 3) for _ in range(signals)),
        lock_of=tuple(pick.one_of((None, 0, 1)) for _ in range(signals)),
        locks=(("l0", order), ("l1", order)),  # type: ignore[arg-type]  # of the two literals
        device_of=tuple(pick.integer(0, devices - 1) for _ in range(signals)),
        devices=("gpu", "cpu")[:devices],
        lock_width=pick.one_of(((), (1, 2), (3, 1))),
    )
    n, seed = pick.integer(1, 40), pick.integer(0, 2**20)
    rng = Streams(seed, 0).generator("random node")
    brought = Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.ones(n, dtype=np.int64),
        needed=rng.random((n, signals)) < pick.one_of((0.5, 1.0)),
        router_s=rng.exponential(0.2, n) * pick.one_of((0.0, 1.0)),
        service_s=rng.exponential(1.0, (n, signals)),
        occupancy=rng.uniform(0.05, 1.0, (n, signals)),
    )
    return Case(node, brought, np.cumsum(rng.exponential(pick.one_of((0.0, 0.3, 2.0)), n)), seed)


def full(pick: Chooser) -> Case:
    """Fallback, compile, memory, limits, retries, crashes, balancers, co-tenants: all at once."""
    node, seed, n = _full_node(pick), pick.integer(0, 2**20), pick.integer(1, 30)
    rng = Streams(seed, 0).generator("random node")
    wide, deep = (n, node.variant_count), (n, len(node.signals))
    brought = Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.full(n, 64),
        router_s=rng.exponential(0.05, n),
        needed=rng.random(deep) < 0.8,
        service_s=rng.exponential(0.5, wide),
        occupancy=rng.uniform(0.1, 1.0, wide),
        processed=rng.choice([64, 128, 256], size=deep),
        fails=rng.random(wide) < pick.one_of((0.0, 0.2)),
        compile_s=rng.exponential(2.0, wide),
        cached_load_s=np.full(wide, 0.1),
        activation_bytes=rng.uniform(0.1, 6.0, wide),
        at_length={v: lambda _, tokens: (tokens / 256, 0.5) for v in range(len(node.signals))},
    )
    return Case(node, brought, np.cumsum(rng.exponential(0.4, n)), seed)


def _full_node(pick: Chooser) -> NodeSpec:
    signals = pick.integer(1, 3)
    memory = _memory(pick) if pick.one_of((False, True)) else None
    weights = 1.0 if memory else None
    first = tuple(
        VariantSpec(s, "migraphx", "a", pick.one_of((False, True)), _compile(pick), weights, LOAD)
        for s in range(signals)
    )
    second = tuple(VariantSpec(s, "cpu", "b") for s in range(signals))
    return NodeSpec(
        cpu_workers=pick.integer(1, 3),
        signals=tuple("abc"[:signals]),
        stages=(tuple(range(signals)),),
        sessions=tuple(pick.integer(1, 2) for _ in range(signals)),
        lock_of=tuple(pick.one_of((None, 0)) for _ in range(signals)),
        locks=(("l", pick.one_of(("fifo", "random"))),),
        device_of=(0,) * signals,
        devices=("gpu", "cpu"),
        variants=first + second,
        placement=tuple((0, 0) for _ in first) + tuple((1, 1) for _ in second),
        queue_limit=tuple(pick.one_of((None, 2)) for _ in range(signals)),
        memory=memory,
        compute_left=((0.0, 1.0), (4.0, pick.real(0.2, 1.0))),
        limits=LimitSpec(
            max_in_flight=pick.one_of((None, 5)),
            timeout_s=pick.one_of((None, 4.0)),
            retries=pick.integer(0, 2),
            backoff_s=0.3,
            answer_without_signal=pick.one_of((False, True)),
        ),
        replicas=_replicas(pick),
    )


def _memory(pick: Chooser) -> MemorySpec:
    others = ((0.0, pick.real(0, 3)), (pick.real(1, 20), pick.real(0, 3)))
    return MemorySpec(
        capacity_bytes=pick.real(5, 12),
        session_cap=pick.one_of((None, 4.0)),
        grow_to_power_of_two=pick.one_of((False, True)),
        shrink_after_run=pick.one_of((False, True)),
        out_of_memory=pick.one_of(("fail", "fall_back", "evict_lru", "wait")),
        watermark=0.9,
        others=others,
    )


def _compile(pick: Chooser) -> CompileSpec | None:
    if pick.one_of((True, False)):
        return None
    return CompileSpec(
        programs=pick.one_of(("one", "map")),
        disk_cache=pick.one_of(("none", "cold", "warm")),
        cold_shape=pick.one_of(("wait", "pad", "fall_back")),
        warmup=pick.one_of(((), (128,))),
    )


def _replicas(pick: Chooser) -> ReplicaSpec:
    faults: Sequence[tuple[Fault, ...]] = (
        (),
        (Crash(kind="crash", at_s=3, replica=0, down_s=2, comes_back="cold"),),
        (RollingRestart(kind="rolling_restart", at_s=2, down_s=1, comes_back="warm"),),
    )
    return ReplicaSpec(
        count=pick.integer(1, 3),
        balancer=pick.one_of(BALANCERS),
        cold_start=pick.one_of((False, True)),
        faults=pick.one_of(faults),
    )
