"""The closed core of the node as one would first write it in SimPy: a process for each request and each inference.

Enters: what `sim.engine.simulate` takes, with open arrivals and one replica. Leaves: (n,) answer times in seconds, the
same as the engine's. It is the measure of how fast our engines are, so it is written as SimPy's documentation does it
(resources, `with`, `all_of`), keeps one timestamp a step as the engine does, and shares the device by the same law with
the same heap, so that it loses nothing by a slow algorithm.
"""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy

from sim.node import NodeSpec
from sim.work import Work

Steps = Generator[simpy.Event, Any, None]


class SharedDevice:
    """Inferences side by side: full speed while their shares sum to at most 1, equally slowed above that."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.running: list[tuple[float, int, float, simpy.Event]] = []
        self.filled = self.virtual = self.updated = 0.0
        self.started = 0
        self.changed = env.event()
        env.process(self.serve())

    def run(self, seconds: float, share: float) -> simpy.Event:
        self.advance()
        self.started += 1
        done = self.env.event()
        heappush(self.running, (self.virtual + seconds, self.started, share, done))
        self.filled += share
        if not self.changed.triggered:
            self.changed.succeed()
        return done

    def advance(self) -> None:
        passed = self.env.now - self.updated
        self.virtual += passed / max(self.filled, 1.0)
        self.updated = self.env.now

    def serve(self) -> Steps:
        while True:
            self.changed = self.env.event()
            if not self.running:
                yield self.changed
                continue
            left = (self.running[0][0] - self.virtual) * max(self.filled, 1.0)
            yield self.env.timeout(max(left, 0.0)) | self.changed
            self.advance()
            while self.running and self.running[0][0] - self.virtual <= 1e-12 * max(1.0, self.env.now):
                _, _, share, done = heappop(self.running)
                self.filled = self.filled - share if self.running else 0.0
                done.succeed()


class Node:
    """CPU workers, lock domains and sessions as resources."""

    def __init__(self, env: simpy.Environment, spec: NodeSpec, work: Work) -> None:
        self.env, self.spec, self.work = env, spec, work
        self.cpu = simpy.Resource(env, spec.cpu_workers)
        self.locks = [simpy.Resource(env, 1) for _ in spec.locks]
        self.sessions = [simpy.Resource(env, count) for count in spec.sessions]
        self.devices = [SharedDevice(env) for _ in spec.devices]
        self.steps: list[dict[str, Any]] = [{} for _ in range(work.tokens.size)]

    def request(self, i: int) -> Steps:
        steps = self.steps[i]
        steps["arrived"] = self.env.now
        with self.cpu.request() as worker:
            yield worker
            steps["router_started"] = self.env.now
            yield self.env.timeout(self.work.router_s[i])
        steps["router_ended"] = self.env.now
        for stage in self.spec.stages:
            needed = [s for s in stage if self.work.needed[i, s]]
            if needed:
                yield self.env.all_of([self.env.process(self.signal(i, s)) for s in needed])
        steps["answered"] = self.env.now

    def signal(self, i: int, s: int) -> Steps:
        self.steps[i]["ready", s] = self.env.now
        lock = self.spec.lock_of[s]
        if lock is None:
            yield from self.inference(i, s)
        else:
            with self.locks[lock].request() as held:
                yield held
                yield from self.inference(i, s)

    def inference(self, i: int, s: int) -> Steps:
        self.steps[i]["locked", s] = self.env.now
        with self.sessions[s].request() as session:
            yield session
            self.steps[i]["started", s] = self.env.now
            device = self.devices[self.spec.device_of[s]]
            yield device.run(self.work.service_s[i, s], self.work.occupancy[i, s])
        self.steps[i]["ended", s] = self.env.now


def simulate(spec: NodeSpec, work: Work, times: np.ndarray) -> np.ndarray:
    """(n,) seconds at which each request is answered."""
    env = simpy.Environment()
    node = Node(env, spec, work)

    def arrive() -> Steps:
        for i, time in enumerate(times):
            yield env.timeout(max(time - env.now, 0.0))
            env.process(node.request(i))

    env.process(arrive())
    env.run()
    return np.array([steps["answered"] for steps in node.steps])
