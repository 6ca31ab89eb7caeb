"""What the engine needs to know of a scenario, resolved to numbers: the structure of the node and of its replicas.

Enters: scenario, profile. Leaves: `NodeSpec`. Signals are numbered in the order of the scenario. A variant is one step
of a signal's provider order: variants 0 … S-1 are the first choices of signals 0 … S-1, fallbacks follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profiles.distribution import QuantileLaw
from profiles.entry import Entry
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.loader import entries_of
from scenarios.node import PARTITION_DEVICES, Bytes, Choice, Fault, Memory, Signal, Timeline
from scenarios.schema import Scenario
from sim.threads import RunQueueSpec, run_queues_of


@dataclass(frozen=True)
class CompileSpec:
    """`scenarios.node.Compile`, plus the seconds of draws that `Work` holds."""

    programs: Literal["one", "map"]
    disk_cache: Literal["none", "cold", "warm"]
    cold_shape: Literal["wait", "pad", "fall_back"]
    warmup: tuple[int, ...]


@dataclass(frozen=True)
class VariantSpec:
    """One step of a signal's provider order. `weights_bytes` is None where memory is not simulated."""

    signal: int
    provider: str
    artifact: str
    available: bool = True
    compile: CompileSpec | None = None
    weights_bytes: float | None = None
    load: QuantileLaw | None = None  # seconds to load a session; None: sessions are never loaded during the run


@dataclass(frozen=True)
class MemorySpec:
    """Device memory in bytes. `session_cap` None: no cap. `others`: bytes of co-tenants over time."""

    capacity_bytes: float
    session_cap: float | None
    grow_to_power_of_two: bool
    shrink_after_run: bool
    out_of_memory: Literal["fail", "fall_back", "evict_lru", "wait"]
    watermark: float
    others: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class LimitSpec:
    """None: no limit. Seconds."""

    max_in_flight: int | None = None
    timeout_s: float | None = None
    retries: int = 0
    backoff_s: float = 0.0
    answer_without_signal: bool = False


@dataclass(frozen=True)
class ReplicaSpec:
    """How many equal nodes there are and what happens to them."""

    count: int = 1
    balancer: str = "round_robin"
    cold_start: bool = False
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class NodeSpec:
    """One router node and its copies. The first eight fields describe any node; the rest have neutral defaults.

    sessions, lock_of, device_of, batching, queue_limit are indexed by signal; `placement` by variant and session
    gives device numbers, and empty means that all sessions of a signal stand on `device_of`.
    """

    cpu_workers: int
    signals: tuple[str, ...]
    stages: tuple[tuple[int, ...], ...]
    sessions: tuple[int, ...]
    lock_of: tuple[int | None, ...]
    locks: tuple[tuple[str, Literal["fifo", "random"]], ...]
    device_of: tuple[int, ...]
    devices: tuple[str, ...]
    variants: tuple[VariantSpec, ...] = ()
    placement: tuple[tuple[int, ...], ...] = ()
    batching: tuple[tuple[int, float] | None, ...] = ()
    queue_limit: tuple[int | None, ...] = ()
    memory: MemorySpec | None = None
    compute_left: tuple[tuple[float, float], ...] = ((0.0, 1.0),)  # share of each GPU that co-tenants leave, over time
    limits: LimitSpec = LimitSpec()
    replicas: ReplicaSpec = ReplicaSpec()
    run_queues: RunQueueSpec | None = None  # of the CPU; None: more threads than cores share them equally
    lock_width: tuple[int, ...] = ()  # by lock domain: how many it lets through at once; empty means one each

    def lock_servers(self, k: int) -> int:
        return self.lock_width[k] if self.lock_width else 1

    def variant(self, v: int) -> VariantSpec:
        """Variant v; a node without variants has plain first choices."""
        return self.variants[v] if self.variants else VariantSpec(v, "", "")

    @property
    def variant_count(self) -> int:
        return len(self.variants) or len(self.signals)

    def device_number(self, v: int, session: int) -> int:
        return self.placement[v][session] if self.placement else self.device_of[self.variant(v).signal]


def node_of(scenario: Scenario, profile: Profile) -> NodeSpec:
    """The scenario's node with names resolved to numbers."""
    bound = entries_of(scenario, profile)  # draw_work binds them, and has the trace
    signals = list(scenario.signals.values())
    names = tuple(scenario.signals)
    locks = tuple((name, domain.order) for name, domain in scenario.lock_domains.items())
    lock_number = {name: k for k, (name, _) in enumerate(locks)}
    devices = _devices(scenario)
    steps = _variant_order(signals)
    placement = _placement(scenario, steps, devices)
    cpu_only = all(choice.device == "cpu" for _, choice in steps)
    return NodeSpec(
        cpu_workers=scenario.node.cpu_workers,
        signals=names,
        stages=tuple(tuple(names.index(name) for name in stage.signals) for stage in scenario.walk),
        sessions=tuple(signal.sessions for signal in signals),
        lock_of=tuple(lock_number[s.lock_domain] if s.lock_domain else None for s in signals),
        locks=locks,
        device_of=tuple(placement[s][0] for s in range(len(signals))),
        devices=devices,
        variants=tuple(
            _variant(s, choice, bound[names[s]][choice.provider, choice.artifact], scenario) for s, choice in steps
        ),
        placement=placement,
        batching=tuple((b.max_batch, b.max_delay_ms / 1000) if (b := s.batching) else None for s in signals),
        queue_limit=tuple(s.queue_limit for s in signals),
        memory=_memory(scenario, profile) if scenario.node.memory and not cpu_only else None,
        compute_left=_compute_left(scenario),
        limits=_limits(scenario),
        replicas=ReplicaSpec(
            count=scenario.replicas.count,
            balancer=scenario.replicas.balancer,
            cold_start=scenario.replicas.start == "cold",
            faults=scenario.replicas.faults,
        ),
        run_queues=run_queues_of(scenario, profile),
        lock_width=tuple(domain.width for domain in scenario.lock_domains.values()),
    )


def _variant_order(signals: list[Signal]) -> list[tuple[int, Choice]]:
    first: list[tuple[int, Choice]] = list(enumerate(signals))
    return first + [(s, choice) for s, signal in enumerate(signals) for choice in signal.fallbacks]


def _devices(scenario: Scenario) -> tuple[str, ...]:
    kinds = {choice.device for signal in scenario.signals.values() for choice in signal.choices}
    gpus = scenario.node.gpu_devices
    names = ["gpu"] if gpus == 1 else [f"gpu{k}" for k in range(gpus)]
    return tuple((["cpu"] if "cpu" in kinds else []) + (names if "gpu" in kinds else []))


def _placement(
    scenario: Scenario, steps: list[tuple[int, Choice]], devices: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """Sessions on devices of their kind in turn, signal after signal, so that load spreads."""
    signals, names = list(scenario.signals.values()), list(scenario.signals)
    turn = {"cpu": 0, "gpu": 0}
    placed = []
    for s, choice in steps:
        own = [d for d, name in enumerate(devices) if name.startswith(choice.device)]
        count = signals[s].sessions
        if signals[s].exclusive and count > len(own):
            raise InputError(
                f"signals.{names[s]}.sessions: {count} exclusive sessions, but the node has {len(own)} "
                f"{choice.device} device(s); raise node.gpus or node.partition, or lower sessions"
            )
        start = turn[choice.device]
        placed.append(tuple(own[(start + k) % len(own)] for k in range(count)))
        turn[choice.device] = (start + count) % len(own)
    return tuple(placed)


def _variant(s: int, choice: Choice, entry: Entry, scenario: Scenario) -> VariantSpec:
    spec = None
    if choice.compile is not None:
        c = choice.compile
        spec = CompileSpec(c.programs, c.disk_cache, c.cold_shape, c.warmup_tokens)
    weights = None
    if scenario.node.memory is not None and choice.device == "gpu":
        if entry.memory is None or entry.memory.weights_bytes is None:
            raise InputError(
                f"node.memory: profile figures for {entry.key} have no weights_bytes; measure them, or leave node.memory out"
            )
        weights = entry.memory.weights_bytes.value
    loads = scenario.replicas.start == "cold" or any(f.comes_back == "cold" for f in scenario.replicas.faults)
    loads = loads or (scenario.node.memory is not None and scenario.node.memory.out_of_memory == "evict_lru")
    load = None
    if loads:
        if entry.load is None:
            raise InputError(
                f"replicas or out_of_memory load sessions during the run, but {entry.key} has no load figure in the profile"
            )
        load = entry.load.law()
    return VariantSpec(s, choice.provider, choice.artifact, choice.available, spec, weights, load)


def _memory(scenario: Scenario, profile: Profile) -> MemorySpec:
    memory = scenario.node.memory
    assert memory is not None  # noqa: S101 - the caller has looked
    capacity: Bytes | float | None = memory.capacity_bytes
    if capacity is None:
        if profile.device.memory_bytes is None:
            raise InputError(
                f"node.memory.capacity_bytes: profile {profile.name} does not know its device's memory; give it here"
            )
        capacity = profile.device.memory_bytes.value
    capacity = float(capacity) / PARTITION_DEVICES[scenario.node.partition]
    others = _sum_timelines([t.memory_bytes for t in scenario.node.co_tenants])
    return MemorySpec(
        capacity_bytes=capacity,
        session_cap=_session_cap(memory, capacity - others[0][1], sum(s.sessions for s in scenario.signals.values())),
        grow_to_power_of_two=memory.arena.growth == "next_power_of_two",
        shrink_after_run=memory.arena.shrink == "after_run",
        out_of_memory=memory.out_of_memory,
        watermark=memory.watermark,
        others=others,
    )


def _session_cap(memory: Memory, free: float, sessions: int) -> float | None:
    """The router's default: free memory at start * 0.95 / number of sessions (facts: VSR onnx-binding gpu_memory.rs)."""
    if memory.session_cap == "router_default":
        return free * 0.95 / sessions
    return float(memory.session_cap) if memory.session_cap is not None else None


def _compute_left(scenario: Scenario) -> tuple[tuple[float, float], ...]:
    taken = _sum_timelines([t.compute for t in scenario.node.co_tenants])
    for time, share in taken:
        if share >= 1:
            raise InputError(
                f"node.co_tenants: together they take {share:.3g} of the GPU's compute at {time:g} s; leave some"
            )
    return tuple((time, 1.0 - share) for time, share in taken)


def _sum_timelines(values: list[float | int | Timeline]) -> tuple[tuple[float, float], ...]:
    """Pointwise sum of step functions."""
    steps = [v.points if isinstance(v, Timeline) else ((0.0, float(v)),) for v in values]
    times = sorted({0.0, *(t for points in steps for t, _ in points)})
    return tuple((t, sum(max(p for p in points if p[0] <= t)[1] for points in steps)) for t in times)


def _limits(scenario: Scenario) -> LimitSpec:
    limits = scenario.limits
    return LimitSpec(
        max_in_flight=limits.max_in_flight,
        timeout_s=None if limits.timeout_ms is None else limits.timeout_ms / 1000,
        retries=limits.retry.attempts if limits.retry else 0,
        backoff_s=limits.retry.backoff_ms / 1000 if limits.retry else 0.0,
        answer_without_signal=scenario.router.on_signal_failure == "answer_without",
    )
