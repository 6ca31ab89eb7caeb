"""A live node: sessions, lock domains and threads that answer requests for real, with a time for every step.

Enters: a job with `signals` (the keys of `session.create`, `sessions`: loaded instances, `domain`: number or null), `domains`
(`width`, `order`), `stages` (lists of signals), `arrays` (a .npz: `needed` [n, S], `tokens` [n, S], `times_s` [n]), `clients`
(0: open loop, `times_s` are arrivals; else a closed loop, `times_s` are thinking times), `wait_s` (when to give up), `sentinel`
and `out` (a file to write). Leaves: `out`, a .npz of the steps in seconds from the start, NaN where one did not happen, and a
`live` record with the sentinel's times and what else ran on the machine.

Structure, as the simulated node has it: a signal in no domain has a thread of its own for each inference; a domain of width 1
is a mutex for which such threads wait; a wider domain is a pool of so many worker threads with one queue. Then the inference
takes a free session of its signal, the lowest number first. The thread that ends the last signal of a stage starts the next
stage, answers the request and, in a closed loop, sends the client's next one, so that no wake-up stands between them.
"""

from __future__ import annotations

import gc
import threading
import time
from typing import Any, Dict, List

import numpy as np

from .live_threads import Gate, Job, Later, Threads
from .machine_load import Watch
from .sentinel import Pulse, sentinel
from .session import create, feed

STEPS = ("ready", "locked", "started", "ended", "cpu_s")


class Node:
    """The node and the requests that it answers."""

    def __init__(self, job: Dict[str, Any], arrays: Any) -> None:
        self.needed, self.tokens, self.times = arrays["needed"], arrays["tokens"], arrays["times_s"].tolist()
        n, signals = self.needed.shape
        self.stages = job["stages"]
        self.clients = int(job["clients"])
        self.steps = {name: np.full((n, signals), np.nan) for name in STEPS}
        self.arrived, self.answered = np.full(n, np.nan), np.full(n, np.nan)
        self._stage, self._unjoined = [0] * n, [0] * n
        self._guard = threading.Lock()
        self._asked, self._open = 0, n
        self.done = threading.Event()
        self.failure: List[BaseException] = []
        self.sessions = [[create(s) for _ in range(int(s["sessions"]))] for s in job["signals"]]
        self._seats = [Gate(len(own)) for own in self.sessions]
        self._feeds = [self._feeds_of(s, job["signals"][s]) for s in range(signals)]
        self._domain = [s["domain"] for s in job["signals"]]
        self._domains = job["domains"]
        seed = int(job["seed"])
        self._locks = [Gate(1, d["order"], seed) if int(d["width"]) == 1 else None for d in self._domains]
        self._free = Threads(self._inference)
        self._pools = [
            Threads(self._inference, int(d["width"]), d["order"], seed) if int(d["width"]) > 1 else self._free
            for d in self._domains
        ]
        self._later = Later(self.arrive)
        self.zero = 0.0

    def _feeds_of(self, s: int, spec: Dict[str, Any]) -> Dict[int, Any]:
        """Inputs by token count, made beforehand."""
        wanted = np.unique(self.tokens[:, s][self.needed[:, s]]).tolist()
        return {t: feed(self.sessions[s][0], {**spec, "tokens": t, "batch": 1}) for t in wanted}

    def warm(self) -> None:
        """Every session runs its shortest and its longest text, so that arenas have grown before traffic comes."""
        for s, own in enumerate(self.sessions):
            lengths = sorted(self._feeds[s])
            for session in own:
                for t in (lengths[-1], lengths[0], lengths[-1]) if lengths else ():
                    session.run(None, self._feeds[s][t])

    def start(self) -> None:
        self.zero = time.perf_counter()
        if self.clients:
            for _ in range(self.clients):
                self._think()
        else:
            for i, at in enumerate(self.times):
                self._later.at(self.zero + at, i)
        self._later.start()

    def _now(self) -> float:
        return time.perf_counter() - self.zero

    def _think(self) -> None:
        with self._guard:
            if self._asked == len(self.times):
                return
            i = self._asked
            self._asked += 1
        pause = self.times[i]
        if (
            pause > 0 or not self._later.running
        ):  # the first ones wait for the clock to start, so that all start together
            self._later.at(time.perf_counter() + pause, i)
        else:
            self.arrive(i)

    def arrive(self, i: int) -> None:
        self.arrived[i] = self._now()
        self._next_stage(i)

    def _next_stage(self, i: int) -> None:
        while self._stage[i] < len(self.stages):
            wanted = [s for s in self.stages[self._stage[i]] if self.needed[i, s]]
            self._stage[i] += 1
            if wanted:
                self._unjoined[i] = len(wanted)
                now = self._now()
                for s in wanted:
                    self.steps["ready"][i, s] = now
                for s in wanted:
                    domain = self._domain[s]
                    (self._free if domain is None else self._pools[domain]).submit((i, s))
                return
        self.answered[i] = self._now()
        with self._guard:
            self._open -= 1
            last = not self._open
        if last:
            self.done.set()
        if self.clients:
            self._think()

    def _inference(self, job: Job) -> None:
        i, s = job
        try:
            self._infer(i, s)
        except BaseException as error:  # a thread has nobody above it who could hear
            self.failure.append(error)
            self.done.set()
            return
        with self._guard:
            self._unjoined[i] -= 1
            joined = not self._unjoined[i]
        if joined:
            self._next_stage(i)

    def _infer(self, i: int, s: int) -> None:
        domain = self._domain[s]
        lock = self._locks[domain] if domain is not None else None
        held = lock.acquire() if lock is not None else 0
        self.steps["locked"][i, s] = self._now()
        seat = self._seats[s].acquire()
        session, inputs = self.sessions[s][seat], self._feeds[s][int(self.tokens[i, s])]
        cpu, start = time.thread_time(), self._now()
        session.run(None, inputs)
        end, used = self._now(), time.thread_time() - cpu
        self._seats[s].release(seat)
        if lock is not None:
            lock.release(held)
        self.steps["started"][i, s], self.steps["ended"][i, s], self.steps["cpu_s"][i, s] = start, end, used


def play(job: Dict[str, Any]) -> Dict[str, Any]:
    """The `live` record; TimeoutError when requests are left after `wait_s`."""
    with np.load(job["arrays"]) as arrays:
        node = Node(job, {name: arrays[name] for name in arrays.files})
    node.warm()
    looks = [sentinel(job)]
    pulse = Pulse(job["sentinel"], float(job["sentinel"]["every_s"]))
    gc.collect()
    gc.disable()
    watch = Watch()
    pulse.start()
    node.start()
    finished = node.done.wait(float(job["wait_s"]))
    load = watch.stop()
    pulses = pulse.stop()
    gc.enable()
    if node.failure:
        raise node.failure[0]
    if not finished:
        raise TimeoutError("requests were left after %g s" % float(job["wait_s"]))
    looks.append(sentinel(job))
    with open(job["out"], "wb") as stream:  # noqa: PTH123 - the worker's own style would be a Path; numpy wants the stream
        columns: Dict[str, Any] = {"arrived": node.arrived, "answered": node.answered, **node.steps}
        np.savez(stream, **columns)
    return {"kind": "live", "sentinels": looks, "pulses": pulses, **load}
