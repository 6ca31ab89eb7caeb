"""What the engine needs to know of a scenario, resolved to indexes: the node, and the work that requests bring.

Enters: scenario, profile, streams. Leaves: `NodeSpec` (the fixed structure) and `Work` (pre-drawn arrays, seconds).
Signals are numbered in the order of the scenario; n is the number of requests, S the number of signals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.schema import Profile
from scenarios.loader import bind
from scenarios.schema import RouterCpu, Scenario, Signal
from sim.streams import Streams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class NodeSpec:
    """One router node. Tuples are indexed by signal unless said otherwise."""

    cpu_workers: int
    signals: tuple[str, ...]
    stages: tuple[tuple[int, ...], ...]  # signal numbers, stage by stage
    sessions: tuple[int, ...]
    lock_of: tuple[int | None, ...]
    locks: tuple[tuple[str, Literal["fifo", "random"]], ...]  # by lock number
    device_of: tuple[int, ...]
    devices: tuple[str, ...]  # by device number


@dataclass(frozen=True)
class Work:
    """What each request asks of the node, drawn before the run.

    class_of, tokens: (n,). router_s: (n,) CPU seconds. needed: (n, S). service_s: (n, S) seconds when alone on the
    device. occupancy: (n, S), share of the device. Draws exist for signals that a request does not need, too, so that
    variants stay aligned.
    """

    class_of: Ints
    tokens: Ints
    router_s: Floats
    needed: Bools
    service_s: Floats
    occupancy: Floats


def node_of(scenario: Scenario) -> NodeSpec:
    """The scenario's node with names resolved to numbers."""
    names = tuple(scenario.signals)
    locks = tuple((name, domain.order) for name, domain in scenario.lock_domains.items())
    lock_number = {name: k for k, (name, _) in enumerate(locks)}
    devices = tuple(sorted({signal.device for signal in scenario.signals.values()}))
    return NodeSpec(
        cpu_workers=scenario.node.cpu_workers,
        signals=names,
        stages=tuple(tuple(names.index(signal) for signal in stage) for stage in scenario.stages),
        sessions=tuple(signal.sessions for signal in scenario.signals.values()),
        lock_of=tuple(lock_number[s.lock_domain] if s.lock_domain else None for s in scenario.signals.values()),
        locks=locks,
        device_of=tuple(devices.index(signal.device) for signal in scenario.signals.values()),
        devices=devices,
    )


def draw_work(scenario: Scenario, profile: Profile, streams: Streams, n: int) -> Work:
    """Draw classes, lengths and service times of n requests."""
    entries = bind(scenario, profile)
    kinds = list(scenario.classes.values())
    weights = np.array([kind.weight for kind in kinds])
    class_of = streams.generator("class").choice(len(kinds), size=n, p=weights / weights.sum()).astype(np.int64)
    tokens = np.zeros(n, dtype=np.int64)
    for k, (name, kind) in enumerate(scenario.classes.items()):
        lengths = kind.tokens.draw(streams.generator(f"tokens:{name}"), n)
        tokens = np.where(class_of == k, lengths, tokens)

    shape = (n, len(scenario.signals))
    needed, service, occupancy = np.zeros(shape, dtype=bool), np.zeros(shape), np.ones(shape)
    for s, (name, signal) in enumerate(scenario.signals.items()):
        wanted = np.array([kind.signals == "all" or name in kind.signals for kind in kinds])
        needed[:, s] = wanted[class_of]
        processed = _processed(signal, tokens)[needed[:, s]]
        u = streams.generator(f"service:{name}").random(n)[needed[:, s]]
        service[needed[:, s], s] = entries[name].surface(signal.cadence).sample(processed, u)
        occupancy[needed[:, s], s] = entries[name].occupancy_curve().at(processed)
    base, per_token = _router_cpu(scenario, profile)
    router_s = base + per_token * tokens.astype(np.float64)
    return Work(class_of, tokens, router_s, needed, service, occupancy)


def _processed(signal: Signal, tokens: Ints) -> Ints:
    """Tokens that an inference sees: truncated to max_tokens and to the last bucket, padded up to the next bucket."""
    seen = tokens if signal.max_tokens is None else np.minimum(tokens, signal.max_tokens)
    if signal.buckets is not None:
        buckets = np.array(signal.buckets, dtype=np.int64)
        seen = buckets[np.minimum(np.searchsorted(buckets, seen), buckets.size - 1)]
    return seen


def _router_cpu(scenario: Scenario, profile: Profile) -> tuple[float, float]:
    if isinstance(scenario.router.cpu, RouterCpu):
        return scenario.router.cpu.base_s, scenario.router.cpu.per_token_s
    assert profile.router is not None  # noqa: S101 - bind has refused it with an error for the user
    return profile.router.base_s.value, profile.router.per_token_s.value
