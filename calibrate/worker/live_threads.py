"""Threads of a live node: places that are handed on in order, threads that take tasks, and a clock that brings them.

Enters: tasks (request, signal). Leaves: calls of the functions given, on threads of their own. All order is ours: a lock of
Python's may be taken by whoever comes by, and the simulated node's may not.
"""

from __future__ import annotations

import heapq
import os
import random
import threading
import time
from collections import deque
from typing import Any, Callable, List, Optional, Tuple

Job = Tuple[int, int]  # request, signal
FIRST, ORDINARY = -20, 0


def prioritise(nice: int) -> None:
    """Ask the system for this priority of the calling thread; it may refuse, or know no such thing."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
    except (OSError, AttributeError):
        pass


class Gate:
    """`width` places, handed on to who has waited longest (or to anyone, where order is random). Threads block here."""

    def __init__(self, width: int, order: str = "fifo", seed: int = 0) -> None:
        self._guard = threading.Lock()
        self._free = list(range(width - 1, -1, -1))
        self._waiting = deque()  # type: deque[Tuple[Any, List[int]]]
        self._draw = random.Random(seed) if order == "random" else None  # noqa: S311 - order in a queue is no secret

    def acquire(self) -> int:
        """The number of the place that is now held."""
        with self._guard:
            if self._free:
                return self._free.pop()
            bell, place = threading.Lock(), []  # type: threading.Lock, List[int]
            bell.acquire()
            self._waiting.append((bell, place))
        bell.acquire()  # until `release` hands a place over
        return place[0]

    def release(self, place: int) -> None:
        with self._guard:
            if not self._waiting:
                self._free.append(place)
                return
            if self._draw is not None:
                self._waiting.rotate(-self._draw.randrange(len(self._waiting)))
            bell, into = self._waiting.popleft()
        into.append(place)
        bell.release()


class Threads:
    """Runs tasks, each on a thread at once: an idle one, or a new one. With `width`, at most so many; the rest queue up."""

    def __init__(
        self, run: Callable[[Job], None], width: Optional[int] = None, order: str = "fifo", seed: int = 0
    ) -> None:
        self._run, self._width = run, width
        self._guard = threading.Lock()
        self._idle = []  # type: List[Tuple[threading.Lock, List[Optional[Job]]]]
        self._queue = deque()  # type: deque[Job]
        self._count = 0
        self._draw = random.Random(seed) if order == "random" else None  # noqa: S311

    def submit(self, job: Job) -> None:
        with self._guard:
            if self._idle:
                bell, box = self._idle.pop()
            elif self._width is not None and self._count >= self._width:
                self._queue.append(job)
                return
            else:
                self._count += 1
                bell, box = threading.Lock(), []
                bell.acquire()
                threading.Thread(target=self._live, args=(bell, box), daemon=True).start()
        box.append(job)
        bell.release()

    def _live(self, bell: Any, box: List[Optional[Job]]) -> None:
        prioritise(ORDINARY)  # a new thread has the priority of the one that made it
        while True:
            bell.acquire()
            job = box.pop()
            while job is not None:
                self._run(job)
                with self._guard:
                    if self._queue:
                        if self._draw is not None:
                            self._queue.rotate(-self._draw.randrange(len(self._queue)))
                        job = self._queue.popleft()
                    else:
                        job = None
                        self._idle.append((bell, box))


class Later:
    """Calls `then(i)` at absolute times of the clock, in order, from a thread of its own.

    The thread asks for priority, which the system grants to root only: without it the timetable is late where many threads
    share the cores, as any client on the same machine would be.
    """

    def __init__(self, then: Callable[[int], None]) -> None:
        self._then = then
        self._heap = []  # type: List[Tuple[float, int]]
        self._changed = threading.Condition()
        self.running = False

    def at(self, when: float, i: int) -> None:
        with self._changed:
            heapq.heappush(self._heap, (when, i))
            self._changed.notify()

    def start(self) -> None:
        self.running = True
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        prioritise(FIRST)
        while True:
            with self._changed:
                while not self._heap:
                    self._changed.wait()
                when, i = self._heap[0]
                left = when - time.perf_counter()
                if left > 0:
                    self._changed.wait(left)
                    continue
                heapq.heappop(self._heap)
            self._then(i)
