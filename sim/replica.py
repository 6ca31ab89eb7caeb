"""What stands in one replica: CPU workers, lock domains, sessions on devices, their memory and compile caches.

Enters: the node's structure, and a `Pipeline` whose steps the stations call. Leaves: `Furniture`, by signal or variant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import simpy

from sim.batching import BatchingSessions
from sim.compile_cache import CompileCache, DiskCache
from sim.device import Device
from sim.events import Call
from sim.node import NodeSpec
from sim.preparation import MemoryQueue, Preparation
from sim.run_queues import RunQueues
from sim.station import Sessions, Station
from sim.streams import Streams
from sim.tracks import Life, Tracks
from sim.vram import Vram
from sim.work import Work

if TYPE_CHECKING:
    from sim.pipeline import Pipeline


@dataclass(frozen=True)
class Furniture:
    """lock_of, queue_limit, order: by signal. sessions, device_of (by session), preparation, available: by variant."""

    cpu: Station
    lock_of: list[Station | None]
    order: list[list[int]]
    sessions: list[Sessions | BatchingSessions]
    device_of: list[list[Device | RunQueues]]
    device_number: list[list[int]]
    preparation: list[Preparation | None]
    available: list[bool]
    queue_limit: list[int | None]


@dataclass(frozen=True)
class Place:
    """Which replica this is, and in which state it starts. `generation` counts its restarts.

    What a crash leaves on its way (an inference, a compile) holds nothing after `life.until`.
    """

    number: int
    generation: int
    warm: bool
    disks: dict[int, DiskCache]  # by variant; outlives restarts
    life: Life


def furnish(
    env: simpy.Environment, node: NodeSpec, work: Work, tracks: Tracks, streams: Streams, place: Place, walk: Pipeline
) -> Furniture:
    """Build one replica."""
    alive = tracks.alive if tracks.mortal else None
    where = f"{place.number}:{place.generation}" if place.number or place.generation else ""
    locks = [
        Station(
            node.lock_servers(k),
            walk.locked,
            alive,
            streams.generator(f"lock:{name}{where}") if order == "random" else None,
        )
        for k, (name, order) in enumerate(node.locks)
    ]
    devices = [_device(env, node, name, walk) for name in node.devices]
    memories = [_memory(env, node, tracks, place.number, d) for d in range(len(devices))]
    for device, name in zip(devices, node.devices, strict=True):
        if name.startswith("gpu"):
            _follow(env, node.compute_left, device.leave)
    variants = range(node.variant_count)
    placed = [[node.device_number(v, k) for k in range(node.sessions[node.variant(v).signal])] for v in variants]
    sessions: list[Sessions | BatchingSessions] = []
    preparations: list[Preparation | None] = []
    for v in variants:
        s = node.variant(v).signal
        count = node.sessions[s]
        batching = node.batching[s] if node.batching else None
        then = partial(walk.seated, v)
        sessions.append(
            BatchingSessions(env, count, *batching, then, alive) if batching else Sessions(count, then, alive)
        )
        preparations.append(_preparation(env, node, work, tracks, streams, place, walk, v, memories))
    return Furniture(
        cpu=Station(node.cpu_workers, walk.router_work, alive),
        lock_of=[None if k is None else locks[k] for k in node.lock_of],
        order=[[v for v in variants if node.variant(v).signal == s] for s in range(len(node.signals))],
        sessions=sessions,
        device_of=[[devices[d] for d in numbers] for numbers in placed],
        device_number=placed,
        preparation=preparations,
        available=[node.variant(v).available for v in variants],
        queue_limit=list(node.queue_limit) or [None] * len(node.signals),
    )


def _device(env: simpy.Environment, node: NodeSpec, name: str, walk: Pipeline) -> Device | RunQueues:
    law = node.run_queues
    if law is None or name != "cpu":
        return Device(env, walk.ended)
    return RunQueues(env, walk.ended, law.cores, law.slice_s, law.pull_s)


def _memory(env: simpy.Environment, node: NodeSpec, tracks: Tracks, replica: int, d: int) -> MemoryQueue | None:
    if node.memory is None or not node.devices[d].startswith("gpu"):
        return None

    def changed(used: float) -> None:
        tracks.memory.append((env.now, replica, d, used))

    def crossed(used: float) -> None:
        tracks.watermarks.append((env.now, replica, d, used))

    vram = Vram(node.memory, changed, crossed)
    queue = MemoryQueue(vram)

    def others(held: float) -> None:
        vram.co_tenants(held)
        queue.retry()

    _follow(env, node.memory.others, others)
    return queue


def _preparation(
    env: simpy.Environment,
    node: NodeSpec,
    work: Work,
    tracks: Tracks,
    streams: Streams,
    place: Place,
    walk: Pipeline,
    v: int,
    memories: list[MemoryQueue | None],
) -> Preparation | None:
    variant = node.variant(v)
    count = node.sessions[variant.signal]
    if variant.compile is None and variant.load is None and node.memory is None:
        return None
    simulated = variant.weights_bytes is not None  # else this variant's memory is none of a GPU's
    memory_of = [memories[node.device_number(v, k)] if simulated else None for k in range(count)]
    cache = None
    if variant.compile is not None:
        disk = place.disks.setdefault(v, DiskCache(variant.compile))
        cache = CompileCache(variant.compile, count, disk, warmed=place.warm)
    return Preparation(
        env,
        v,
        variant,
        work,
        tracks,
        cache=cache,
        memory=node.memory,
        memory_of=memory_of,
        loaded=place.warm,
        replica=place.number,
        life=place.life,
        load_rng=streams.generator(f"load:{v}:{place.number}:{place.generation}"),
        start=partial(walk.prepared, v),
        step_down=partial(walk.step_down, v),
        give_up=partial(walk.give_up, v),
    )


def _follow(env: simpy.Environment, steps: tuple[tuple[float, float], ...], apply: Callable[[float], None]) -> None:
    """Call `apply(value)` at each step of a timeline; the first at once, those in the past at the last value."""

    def change(k: int) -> None:
        apply(steps[k][1])

    past = max(k for k, (time, _) in enumerate(steps) if time <= env.now)
    change(past)
    for k, (time, _) in enumerate(steps):
        if time > env.now:
            Call(env, time - env.now, change, k)
