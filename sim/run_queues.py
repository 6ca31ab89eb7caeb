"""The sharing law of a CPU with more threads than cores: a run queue a core, slices in turn, and late help from idle cores.

Equal shares say that three threads on two cores each get two thirds of a core. A real scheduler gives one of them a core of its
own and lets the other two take turns on the other; when the first ends, its core stands idle for a while before it takes one of
the two. So:
    a thread that starts goes to the core with the fewest threads;
    a core lets its threads run in turn, `slice_s` at a time;
    a core without threads takes one that waits from the longest queue, `pull_s` after it fell idle.
`slice_s` and `pull_s` are of the system's scheduler, measured in calibration (calibrate/scheduling.py). On one core slices towards 0
are equal shares. Sessions have one thread each. Times in seconds; same interface as `sim.device.Device`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import simpy

from sim.events import Call


class RunQueues:
    """The cores of one machine. `finished(job)` is called when a job's own work is done."""

    def __init__(
        self, env: simpy.Environment, finished: Callable[[int], None], cores: int, slice_s: float, pull_s: float
    ) -> None:
        self._env, self._finished = env, finished
        self._slice_s, self._pull_s = slice_s, pull_s
        self._waiting: list[deque[int]] = [deque() for _ in range(cores)]
        self._running: list[int | None] = [None] * cores
        self._began = [0.0] * cores
        self._left: dict[int, float] = {}  # job -> seconds of own work before its present slice

    def start(self, job: int, service_s: float, occupancy: float) -> None:
        """Run `job`: `service_s` seconds of work on a core of its own."""
        self._left[job] = service_s
        core = min(range(len(self._running)), key=self._threads)
        if self._running[core] is None:
            self._run(core, job)
        else:
            self._waiting[core].append(job)

    def leave(self, share: float) -> None:
        """Co-tenants take shares of GPUs only."""
        raise NotImplementedError("nobody shares the cores with this node")

    def abandon(self) -> list[tuple[int, float]]:
        """Everything stops here and now: (job, seconds of own work that are left)."""
        for core, job in enumerate(self._running):
            if job is not None:
                self._left[job] = max(self._left[job] - (self._env.now - self._began[core]), 0.0)
                self._running[core] = None
        left = list(self._left.items())
        self._left.clear()
        for queue in self._waiting:
            queue.clear()
        return left

    def _threads(self, core: int) -> int:
        return len(self._waiting[core]) + (self._running[core] is not None)

    def _run(self, core: int, job: int) -> None:
        self._running[core], self._began[core] = job, self._env.now
        length = min(self._slice_s, self._left[job])
        Call(self._env, length, lambda _: self._slice_ends(core, job, length), 0)

    def _slice_ends(self, core: int, job: int, length: float) -> None:
        if self._running[core] != job or job not in self._left:
            return  # everything was abandoned meanwhile
        self._running[core] = None
        self._left[job] -= length
        ended = self._left[job] <= 1e-12 * max(1.0, self._env.now)
        if ended:
            del self._left[job]
        else:
            self._waiting[core].append(job)
        if self._waiting[core]:
            self._run(core, self._waiting[core].popleft())
        else:
            Call(self._env, self._pull_s, self._pull, core)
        if ended:
            self._finished(job)

    def _pull(self, core: int) -> None:
        """The core has been idle for `pull_s`, unless a thread has come to it meanwhile."""
        if self._running[core] is not None:
            return
        longest = max(self._waiting, key=len)
        if longest:
            self._run(core, longest.popleft())
