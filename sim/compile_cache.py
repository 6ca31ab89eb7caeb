"""Programs of a provider that compiles per input shape, for the sessions of one variant on one replica.

A session keeps one program (A, B, A, B lengths compile each time) or a map of them. A shape that it does not have is
loaded from the on-disk cache where that holds it, else compiled. One compile of a shape at a time: whoever needs the
same shape meanwhile waits for it and then has it. The on-disk cache outlives a crash of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sim.node import CompileSpec


class DiskCache:
    """Shapes whose compiled programs are on disk."""

    def __init__(self, spec: CompileSpec) -> None:
        self.kind = spec.disk_cache
        self._shapes: set[int] = set(spec.warmup) if spec.disk_cache == "cold" else set()

    def holds(self, shape: int) -> bool:
        return self.kind == "warm" or shape in self._shapes

    def keep(self, shape: int) -> None:
        if self.kind == "cold":
            self._shapes.add(shape)


class CompileCache:
    """Programs in the memory of each session, over a disk cache that replicas of one generation share."""

    def __init__(self, spec: CompileSpec, sessions: int, disk: DiskCache, *, warmed: bool) -> None:
        self.spec = spec
        self.disk = disk
        self._one = spec.programs == "one"
        warm = list(spec.warmup) if warmed else []
        self._programs: list[set[int]] = [set(warm[-1:] if self._one else warm) for _ in range(sessions)]
        self._compiling: dict[int, list[Callable[[], None]]] = {}

    def ready(self, session: int, shape: int) -> bool:
        """True when this session can run the shape now."""
        return shape in self._programs[session]

    def padded(self, session: int, shape: int) -> int | None:
        """The smallest ready shape that is larger, to pad to, or None."""
        return min((p for p in self._programs[session] if p > shape), default=None)

    def need(self, shape: int) -> Literal["load", "wait", "compile"]:
        """What it takes to get a program that is not ready."""
        if self.disk.holds(shape):
            return "load"
        return "wait" if shape in self._compiling else "compile"

    def begin(self, shape: int) -> None:
        """A compile of this shape starts."""
        self._compiling[shape] = []

    def wait_for(self, shape: int, then: Callable[[], None]) -> None:
        """Call `then` when the compile of this shape that is under way ends."""
        self._compiling[shape].append(then)

    def have(self, session: int, shape: int) -> None:
        """The session has the program now (one-program sessions lose the one before)."""
        if self._one:
            self._programs[session].clear()
        self._programs[session].add(shape)

    def forget(self, session: int) -> None:
        """The session was loaded anew: its programs are gone from memory (the disk keeps what it has)."""
        self._programs[session].clear()

    def end(self, shape: int) -> list[Callable[[], None]]:
        """The compile ended: the disk has it, and those who waited are returned in order, to be called."""
        self.disk.keep(shape)
        return self._compiling.pop(shape)
