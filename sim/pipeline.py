"""One request's walk through the node, told top to bottom.

    arrive -> router CPU -> stage 1 -> stage 2 … -> answer
    a stage: for each of its signals  lock domain -> session -> device,  and the stage ends when all have ended

Request i has jobs i*S + s, one for each signal s; both are plain integers, so nothing is allocated on the way. Each
step writes its time and hands the job on. Stations and devices decide who waits; this module only says what comes next.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import simpy

from sim.device import Device
from sim.events import Call
from sim.node import NodeSpec, Work
from sim.records import Records
from sim.station import RandomStation, Station
from sim.streams import Streams

NEVER = float("nan")


class Pipeline:
    """The node with its queues. `answered(i)` is called when request i has its answer."""

    def __init__(self, env: simpy.Environment, node: NodeSpec, work: Work, streams: Streams) -> None:
        self._env, self._node, self._work = env, node, work
        n, signals = work.service_s.shape
        self._signals = signals
        self.answered: Callable[[int], None] = lambda _: None

        # Plain lists: reading one element of a NumPy array costs several times as much.
        self._router_s = work.router_s.tolist()
        self._service_s = work.service_s.ravel().tolist()
        self._occupancy = work.occupancy.ravel().tolist()
        self._stages_of = _stages_by_need(node, work)
        self._stage = [0] * n
        self._unjoined = [0] * n

        self._t_arrived, self._t_router_started = [NEVER] * n, [NEVER] * n
        self._t_router_ended, self._t_answered = [NEVER] * n, [NEVER] * n
        jobs = n * signals
        self._t_ready, self._t_locked = [NEVER] * jobs, [NEVER] * jobs
        self._t_started, self._t_ended = [NEVER] * jobs, [NEVER] * jobs

        self._cpu = Station(node.cpu_workers, self._router_work)
        locks = [self._lock(name, order, streams) for name, order in node.locks]
        self._lock_of = [None if k is None else locks[k] for k in node.lock_of]
        self._sessions = [Station(count, self._run) for count in node.sessions]
        devices = [Device(env, self._ended) for _ in node.devices]
        self._device_of = [devices[k] for k in node.device_of]

    def _lock(self, name: str, order: str, streams: Streams) -> Station:
        if order == "random":
            return RandomStation(1, self._locked, streams.generator(f"lock:{name}"))
        return Station(1, self._locked)

    def arrive(self, i: int) -> None:
        """Request i is here."""
        self._t_arrived[i] = self._env.now
        self._cpu.acquire(i)

    def _router_work(self, i: int) -> None:
        self._t_router_started[i] = self._env.now
        Call(self._env, self._router_s[i], self._router_done, i)

    def _router_done(self, i: int) -> None:
        self._t_router_ended[i] = self._env.now
        self._cpu.release()
        self._next_stage(i)

    def _next_stage(self, i: int) -> None:
        stages = self._stages_of[i]
        if self._stage[i] == len(stages):
            self._t_answered[i] = self._env.now
            self.answered(i)
            return
        stage = stages[self._stage[i]]
        self._stage[i] += 1
        self._unjoined[i] = len(stage)
        for s in stage:
            self._ready(i * self._signals + s, s)

    def _ready(self, job: int, s: int) -> None:
        self._t_ready[job] = self._env.now
        lock = self._lock_of[s]
        if lock is None:
            self._locked(job)
        else:
            lock.acquire(job)

    def _locked(self, job: int) -> None:
        self._t_locked[job] = self._env.now
        self._sessions[job % self._signals].acquire(job)

    def _run(self, job: int) -> None:
        self._t_started[job] = self._env.now
        self._device_of[job % self._signals].start(job, self._service_s[job], self._occupancy[job])

    def _ended(self, job: int) -> None:
        self._t_ended[job] = self._env.now
        i, s = divmod(job, self._signals)
        self._sessions[s].release()
        lock = self._lock_of[s]
        if lock is not None:
            lock.release()
        self._unjoined[i] -= 1
        if not self._unjoined[i]:
            self._next_stage(i)

    def records(self) -> Records:
        """All that happened, as arrays."""
        shape = self._work.service_s.shape
        return Records(
            node=self._node,
            work=self._work,
            arrived=np.array(self._t_arrived),
            router_started=np.array(self._t_router_started),
            router_ended=np.array(self._t_router_ended),
            answered=np.array(self._t_answered),
            failed=np.zeros(shape[0], dtype=bool),
            ready=np.array(self._t_ready).reshape(shape),
            locked=np.array(self._t_locked).reshape(shape),
            started=np.array(self._t_started).reshape(shape),
            ended=np.array(self._t_ended).reshape(shape),
        )


def _stages_by_need(node: NodeSpec, work: Work) -> list[tuple[tuple[int, ...], ...]]:
    """For each request its stages with only the signals that it needs; empty stages are left out."""
    patterns, which = np.unique(work.needed, axis=0, return_inverse=True)
    walks = []
    for pattern in patterns:
        stages = (tuple(s for s in stage if pattern[s]) for stage in node.stages)
        walks.append(tuple(stage for stage in stages if stage))
    return [walks[k] for k in which.ravel().tolist()]
