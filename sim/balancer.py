"""Which replica gets a request.

`round_robin`, `random`; `join_shortest_queue` (fewest requests inside), `least_loaded` (least seconds of inference
outstanding), `power_of_two` (the emptier of two drawn at random); `affinity` (equal processed lengths go to one
replica, by rendezvous hashing, so that its compile cache stays hot). Ties go to the next in turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from sim.work import Ints, Work


class Inside:
    """What the balancer sees of a replica: whether it takes requests, and how much is inside."""

    __slots__ = ("requests", "seconds", "up")

    def __init__(self, *, up: bool) -> None:
        self.up = up
        self.requests = 0
        self.seconds = 0.0


def balancer(
    name: str, replicas: Sequence[Inside], work: Work, rng: np.random.Generator
) -> Callable[[int], int | None]:
    """A function from request number to replica number, None when no replica is up."""
    if len(replicas) == 1 or name == "round_robin":
        return _round_robin(replicas)
    count, turn = len(replicas), 0

    def in_turn() -> list[int]:
        """Replicas that are up, starting after the one that was picked last."""
        return [k for step in range(count) if replicas[k := (turn + step) % count].up]

    def least(load: Callable[[Inside], float], candidates: list[int]) -> int:
        return min(candidates, key=lambda k: load(replicas[k]))

    def choose(i: int, up: list[int]) -> int:
        if name == "random":
            return up[int(rng.integers(len(up)))]
        if name == "least_loaded":
            return least(lambda r: r.seconds, up)
        if name == "join_shortest_queue":
            return least(lambda r: r.requests, up)
        if name == "power_of_two":
            drawn = rng.choice(len(up), size=min(2, len(up)), replace=False).tolist()
            return least(lambda r: r.requests, [up[k] for k in drawn])
        if name == "affinity":
            return max(up, key=lambda k: _rendezvous(_length(work, i), k))
        raise ValueError(f"no balancer {name!r}")

    def pick(i: int) -> int | None:
        nonlocal turn
        up = in_turn()
        if not up:
            return None
        chosen = choose(i, up)
        turn = (chosen + 1) % count
        return chosen

    return pick


def _round_robin(replicas: Sequence[Inside]) -> Callable[[int], int | None]:
    """The next in turn that is up, found without looking at all of them."""
    count, turn = len(replicas), 0

    def pick(_: int) -> int | None:
        nonlocal turn
        for step in range(count):
            chosen = (turn + step) % count
            if replicas[chosen].up:
                turn = (chosen + 1) % count
                return chosen
        return None

    return pick


def affinity(work: Work, count: int) -> Ints:
    """(n,) the replica of each request under `affinity` while all `count` replicas are up."""
    lengths = work.tokens if work.processed is None else work.processed.max(axis=1)
    known, which = np.unique(lengths, return_inverse=True)
    of_length = [max(range(count), key=lambda k: _rendezvous(int(length), k)) for length in known]
    return np.array(of_length, dtype=np.int64)[which]


def _length(work: Work, i: int) -> int:
    return int(work.tokens[i] if work.processed is None else work.processed[i].max())


def _rendezvous(length: int, replica: int) -> bytes:
    return hashlib.blake2b(f"{length}:{replica}".encode(), digest_size=8).digest()
