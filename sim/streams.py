"""Named random streams, all spawned from one seed.

A stream is known by (seed, replication, name) and by nothing else: not by the load point, not by how many streams
exist, not by the order of asking. So two variants of a scenario see the same arrivals, lengths and service draws
(common random numbers), and adding a load point changes none of the others. Nothing else in `sim` makes a generator.
"""

from __future__ import annotations

import hashlib

import numpy as np


class Streams:
    """The streams of one replication."""

    def __init__(self, seed: int, replication: int) -> None:
        self._seed, self._replication = seed, replication

    def generator(self, name: str) -> np.random.Generator:
        """A fresh generator at the start of the stream `name`."""
        digest = hashlib.sha256(name.encode()).digest()
        words = np.frombuffer(digest[:16], dtype="<u4").tolist()
        sequence = np.random.SeedSequence(self._seed, spawn_key=(self._replication, *words))
        return np.random.Generator(np.random.PCG64DXSM(sequence))
