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
        return self.after(name, 0)

    def after(self, name: str, doubles: int) -> np.random.Generator:
        """A fresh generator in the stream `name`, after that many draws of `random()`."""
        digest = hashlib.sha256(name.encode()).digest()
        words = np.frombuffer(digest[:16], dtype="<u4").tolist()
        sequence = np.random.SeedSequence(self._seed, spawn_key=(self._replication, *words))
        bits = np.random.PCG64DXSM(sequence)
        return np.random.Generator(bits.advance(doubles) if doubles else bits)


class OngoingStreams(Streams):
    """The same streams for who draws piece by piece: `generator` goes on where the last one of that name has stopped.

    Whatever takes its draws request by request gets the same numbers in pieces as in one go.
    """

    def __init__(self, seed: int, replication: int) -> None:
        super().__init__(seed, replication)
        self._known: dict[str, np.random.Generator] = {}

    def generator(self, name: str) -> np.random.Generator:
        """The generator of the stream `name`, wherever it stands by now."""
        if name not in self._known:
            self._known[name] = super().generator(name)
        return self._known[name]
