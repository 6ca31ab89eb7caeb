"""Memory of one device: weights of loaded sessions, arenas that grow and do not shrink, co-tenants, a cap a session.

A session holds its weights and an arena. An inference whose activations exceed the arena asks for the difference,
rounded up to a power of two or taken as it is; the arena keeps it, unless it shrinks after each run. An allocation that
does not fit under the session's cap or on the device changes nothing and is refused. Bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sim.node import MemorySpec

Key = tuple[int, int]  # variant, session


@dataclass
class _Held:
    weights: float
    arena: float = 0.0
    busy: bool = False
    used_at: float = 0.0


class Vram:
    """`changed(bytes_in_use)` is called after every change, `crossed(bytes)` when the watermark is crossed upwards."""

    def __init__(self, spec: MemorySpec, changed: Callable[[float], None], crossed: Callable[[float], None]) -> None:
        self._spec = spec
        self._changed, self._crossed = changed, crossed
        self._held: dict[Key, _Held] = {}
        self._others = spec.others[0][1]
        self._sessions = 0.0
        self._above = False

    @property
    def in_use(self) -> float:
        """Bytes that sessions and co-tenants hold."""
        return self._sessions + self._others

    def loaded(self, key: Key) -> bool:
        return key in self._held

    def load(self, key: Key, weights: float, now: float) -> bool:
        """Hold a session's weights; False and nothing changed when they do not fit."""
        if not self._fits(weights, 0.0):
            return False
        self._held[key] = _Held(weights, busy=True, used_at=now)
        self._add(weights)
        return True

    def start(self, key: Key, activation: float, now: float) -> bool:
        """Hold the activations of one inference; False and nothing changed when they do not fit."""
        held = self._held[key]
        more = max(activation - held.arena, 0.0)
        if more and self._spec.grow_to_power_of_two:
            more = float(1 << (int(more) - 1).bit_length()) if more > 1 else 1.0
        if more and not self._fits(more, held.weights + held.arena):
            return False
        held.busy, held.used_at = True, now
        held.arena += more
        self._add(more)
        return True

    def end(self, key: Key) -> None:
        """The inference ended; the arena stays unless the scenario shrinks it."""
        held = self._held.get(key)
        if held is None:
            return
        held.busy = False
        if self._spec.shrink_after_run and held.arena:
            self._add(-held.arena)
            held.arena = 0.0

    def evict_idle(self, needed_by: Key) -> bool:
        """Unload the idle session that has not been used for longest; False when there is none."""
        idle = [(held.used_at, key) for key, held in self._held.items() if not held.busy and key != needed_by]
        if not idle:
            return False
        held = self._held.pop(min(idle)[1])
        self._add(-(held.weights + held.arena))
        return True

    def hopeless(self, key: Key, weights: float, activation: float) -> bool:
        """True when the session would not fit even if it had the device to itself beside the co-tenants of any time."""
        total = weights + activation
        cap = self._spec.session_cap
        least = min(bytes_ for _, bytes_ in self._spec.others)
        return (cap is not None and total > cap) or total + least > self._spec.capacity_bytes

    def co_tenants(self, held: float) -> None:
        """Co-tenants hold this much from now on (they are served first: they can squeeze us, not we them)."""
        self._others = held
        self._report()

    def _fits(self, more: float, session_now: float) -> bool:
        cap = self._spec.session_cap
        if cap is not None and session_now + more > cap:
            return False
        return self.in_use + more <= self._spec.capacity_bytes

    def _add(self, bytes_: float) -> None:
        if bytes_:
            self._sessions += bytes_
            self._report()

    def _report(self) -> None:
        above = self.in_use > self._spec.watermark * self._spec.capacity_bytes
        if above and not self._above:
            self._crossed(self.in_use)
        self._above = above
        self._changed(self.in_use)
