"""Places where jobs queue: the router's CPU workers, lock domains, sessions.

All three are one thing, a number of servers with a queue, and differ in how many servers and who goes next. A station
holds no clock: it is told `acquire` and `release`, and calls `then(job)` at once for whoever holds a server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np


class Station:
    """`servers` servers, first come first served."""

    def __init__(self, servers: int, then: Callable[[int], None]) -> None:
        self._free = servers
        self._then = then
        self._waiting: deque[int] = deque()

    def acquire(self, job: int) -> None:
        """Give `job` a server now, or when one is released and its turn has come."""
        if self._free:
            self._free -= 1
            self._then(job)
        else:
            self._waiting.append(job)

    def release(self) -> None:
        """A server is free again; it goes to the next job in line at this same instant."""
        if self._waiting:
            self._then(self._next())
        else:
            self._free += 1

    def _next(self) -> int:
        return self._waiting.popleft()


class RandomStation(Station):
    """As `Station`, but each waiting job is equally likely to be next (an unfair mutex)."""

    def __init__(self, servers: int, then: Callable[[int], None], rng: np.random.Generator) -> None:
        super().__init__(servers, then)
        self._rng = rng

    def _next(self) -> int:
        place = int(self._rng.integers(len(self._waiting)))
        self._waiting.rotate(-place)
        job = self._waiting.popleft()
        self._waiting.rotate(place)
        return job
