"""Dynamic batching: a free session takes up to `max_batch` waiting tickets at once and runs them together.

It starts when the batch is full, or `max_delay_s` after its first ticket began to wait, whichever is sooner; tickets
that come while every session is busy form the next batch and their delay counts from their own arrival. Offers what
`sim.station.Sessions` offers; `then(leader, session)` is called for the first ticket of a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import simpy

from sim.events import Call
from sim.station import Alive


class BatchingSessions:
    """Sessions of one signal that run batches. `members(leader)` gives the tickets that run with a leader."""

    def __init__(
        self,
        env: simpy.Environment,
        count: int,
        max_batch: int,
        max_delay_s: float,
        then: Callable[[int, int], None],
        alive: Alive,
    ) -> None:
        self._env, self._max_batch, self._max_delay_s = env, max_batch, max_delay_s
        self._free = list(range(count - 1, -1, -1))
        self._then, self._alive = then, alive
        self._waiting: deque[tuple[float, int]] = deque()  # since when, ticket
        self._batches: dict[int, list[int]] = {}

    def acquire(self, ticket: int) -> None:
        """Wait for a batch."""
        self._waiting.append((self._env.now, ticket))
        if self._free:
            if len(self._waiting) >= self._max_batch:
                self._form()
            else:
                Call(self._env, self._max_delay_s, self._due, ticket)

    def _due(self, ticket: int) -> None:
        """The delay of this ticket is over; if it still waits and a session is free, its batch starts as it is."""
        if self._free and any(waiting == ticket for _, waiting in self._waiting):
            self._form()

    def _form(self) -> None:
        batch: list[int] = []
        while self._waiting and len(batch) < self._max_batch:
            _, ticket = self._waiting.popleft()
            if self._alive is None or self._alive(ticket):
                batch.append(ticket)
        if batch:
            self._batches[batch[0]] = batch
            self._then(batch[0], self._free.pop())

    def members(self, leader: int) -> list[int]:
        """The tickets of the batch that `leader` leads."""
        return self._batches[leader]

    def forget(self, leader: int) -> list[int]:
        """The batch is over; its tickets."""
        return self._batches.pop(leader)

    def release(self, session: int) -> None:
        """A session is free again: a full or overdue batch starts at once, a partial one when its first ticket is due."""
        self._free.append(session)
        while self._alive is not None and self._waiting and not self._alive(self._waiting[0][1]):
            self._waiting.popleft()
        if not self._waiting:
            return
        since, first = self._waiting[0]
        left = since + self._max_delay_s - self._env.now
        if len(self._waiting) >= self._max_batch or left <= 0:
            self._form()
        else:
            Call(self._env, left, self._due, first)

    def waiting(self) -> int:
        """How many living tickets wait."""
        return sum(self._alive is None or self._alive(ticket) for _, ticket in self._waiting)
