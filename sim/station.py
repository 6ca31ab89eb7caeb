"""Places where tickets queue: the router's CPU workers and lock domains (`Station`), sessions (`Sessions`).

All are a number of servers with a queue. A station holds no clock: it is told `acquire` and `release`, and calls `then`
at once for whoever gets a server. Tickets that have died while waiting are passed over in a loop, not by recursion, so
that a queue of many dead ones is no deep stack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

Alive = Callable[[int], bool] | None  # None: nobody dies in this run


class Station:
    """`servers` servers; `then(ticket)` is called for each that gets one. `rng`: next is anyone who waits, else FIFO."""

    def __init__(
        self, servers: int, then: Callable[[int], None], alive: Alive, rng: np.random.Generator | None = None
    ) -> None:
        self._free = servers
        self._then = then
        self._alive = alive
        self._rng = rng
        self._waiting: deque[int] = deque()

    def acquire(self, ticket: int) -> None:
        """Give `ticket` a server now, or when one is released and its turn has come."""
        if self._free:
            self._free -= 1
            self._then(ticket)
        else:
            self._waiting.append(ticket)

    def release(self) -> None:
        """A server is free again; it goes to the next living ticket in line at this same instant."""
        while self._waiting:
            ticket = self._waiting.popleft() if self._rng is None else _pop_any(self._waiting, self._rng)
            if self._alive is None or self._alive(ticket):
                self._then(ticket)
                return
        self._free += 1

    def waiting(self) -> int:
        """How many living tickets wait."""
        return _count_living(self._waiting, self._alive)


class Sessions:
    """Sessions of one variant, each running one ticket at a time; `then(ticket, session)`, lowest free number first."""

    def __init__(self, count: int, then: Callable[[int, int], None], alive: Alive) -> None:
        self._free = list(range(count - 1, -1, -1))
        self._then = then
        self._alive = alive
        self._waiting: deque[int] = deque()

    def acquire(self, ticket: int) -> None:
        """Give `ticket` a session now or in its turn."""
        if self._free:
            self._then(ticket, self._free.pop())
        else:
            self._waiting.append(ticket)

    def release(self, session: int) -> None:
        """Session number `session` is free again."""
        while self._waiting:
            ticket = self._waiting.popleft()
            if self._alive is None or self._alive(ticket):
                self._then(ticket, session)
                return
        self._free.append(session)

    def waiting(self) -> int:
        """How many living tickets wait."""
        return _count_living(self._waiting, self._alive)


def _pop_any(waiting: deque[int], rng: np.random.Generator) -> int:
    place = int(rng.integers(len(waiting)))
    waiting.rotate(-place)
    ticket = waiting.popleft()
    waiting.rotate(place)
    return ticket


def _count_living(waiting: deque[int], alive: Alive) -> int:
    """Drop the dead, then count. Only asked where a queue limit could bind, so the sweep is not on every path."""
    if alive is not None and not all(map(alive, waiting)):
        living = [ticket for ticket in waiting if alive(ticket)]
        waiting.clear()
        waiting.extend(living)
    return len(waiting)
