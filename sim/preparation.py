"""Between having a session and being on the device: is the session loaded, the program compiled, the memory there?

    session -> loaded? -> program for this shape? -> memory? -> on the device,  or step down to the next provider

Enters: a ticket that holds session k of variant v. Leaves: `start(ticket)`, `step_down(ticket, reason)` or, where the
scenario says that memory that is not there fails the signal, `give_up(ticket, reason)`, now or later; what it waited for
is added to the job's stalls. One `Preparation` serves one variant on one replica.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import simpy

from sim.compile_cache import CompileCache
from sim.events import Call
from sim.node import MemorySpec, VariantSpec
from sim.tracks import Life, Tracks
from sim.vram import Vram
from sim.work import Work

Start = Callable[[int], None]
StepDown = Callable[[int, str], None]


class MemoryQueue:
    """Who waits for memory on one device, in order; tried again whenever memory is given back."""

    def __init__(self, vram: Vram) -> None:
        self.vram = vram
        self._waiting: deque[Callable[[], bool]] = deque()
        self._trying = self._again = False

    def wait(self, attempt: Callable[[], bool]) -> None:
        """`attempt()` is tried again later until it is True."""
        self._waiting.append(attempt)

    def retry(self) -> None:
        """Memory was given back: let those who wait try, first come first served.

        Who gets memory may give some back at once and come here again; that call only asks for another round.
        """
        self._again = True
        if self._trying:
            return
        self._trying = True
        while self._again:
            self._again = False
            while self._waiting and self._waiting[0]():
                self._waiting.popleft()
        self._trying = False


class Preparation:
    """Load, compile and memory of one variant's sessions. `memory_of[k]`: the memory of session k's device, or None."""

    def __init__(
        self,
        env: simpy.Environment,
        v: int,
        variant: VariantSpec,
        work: Work,
        tracks: Tracks,
        *,
        cache: CompileCache | None,
        memory: MemorySpec | None,
        memory_of: list[MemoryQueue | None],
        loaded: bool,
        replica: int,
        life: Life,
        load_rng: np.random.Generator,
        start: Start,
        step_down: StepDown,
        give_up: StepDown,
    ) -> None:
        self._env, self._v, self._variant, self._work, self._tracks = env, v, variant, work, tracks
        self._cache, self._memory, self._memory_of = cache, memory, memory_of
        self._loaded = [loaded] * len(memory_of)
        self._replica, self._load_rng, self._life = replica, load_rng, life
        self._start, self._step_down, self._give_up = start, step_down, give_up
        self._session: dict[int, int] = {}  # ticket -> session that it holds
        if loaded and variant.weights_bytes is not None:
            self._load_all_weights(variant.weights_bytes)

    def _load_all_weights(self, weights: float) -> None:
        for k, queue in enumerate(self._memory_of):
            if queue is not None and not queue.vram.load((self._v, k), weights, 0.0):
                self._loaded[k] = False  # it did not fit at start; its first request finds that out
            elif queue is not None:
                queue.vram.end((self._v, k))

    def begin(self, ticket: int, session: int) -> None:
        """The ticket has the session; see that it can run."""
        self._session[ticket] = session
        if self._is_loaded(session):
            self._program(ticket)
        else:
            self._load(ticket)

    def finished(self, ticket: int) -> None:
        """The inference is over (or was given up): give back what a run holds."""
        session = self._session.pop(ticket)
        queue = self._memory_of[session]
        if queue is not None:
            queue.vram.end((self._v, session))
            queue.retry()

    # -- loading ---------------------------------------------------------------------------------------------------

    def _is_loaded(self, session: int) -> bool:
        queue = self._memory_of[session]
        if queue is not None and self._variant.weights_bytes is not None:
            return queue.vram.loaded((self._v, session))
        return self._loaded[session]

    def _load(self, ticket: int) -> None:
        session = self._session[ticket]
        queue, weights = self._memory_of[session], self._variant.weights_bytes
        if queue is None or weights is None:
            self._read(ticket)
            return
        key = (self._v, session)
        self._allocate(ticket, lambda: queue.vram.load(key, weights, self._env.now), weights, 0.0, self._read)

    def _read(self, ticket: int) -> None:
        """The weights have their place; reading them takes the measured load time."""
        law = self._variant.load
        seconds = 0.0 if law is None else float(law.ppf(self._load_rng.random()))
        session = self._session[ticket]
        self._loaded[session] = True
        if self._cache is not None:
            self._cache.forget(session)
        began = self._env.now

        def loaded(ticket: int) -> None:
            self._stall("load", ticket, began)
            self._program(ticket)

        Call(self._env, seconds, loaded, ticket)

    # -- compiling -------------------------------------------------------------------------------------------------

    def _program(self, ticket: int) -> None:
        cache = self._cache
        if cache is None:
            self._activate(ticket)
            return
        session, shape = self._session[ticket], self._shape(ticket)
        if cache.ready(session, shape):
            self._activate(ticket)
        elif cache.spec.cold_shape == "pad" and (larger := cache.padded(session, shape)) is not None:
            self._tracks.steps_down[self._v, "padded"] += 1
            self._pad(ticket, larger)
        elif cache.spec.cold_shape == "fall_back" and cache.need(shape) != "load":
            if cache.need(shape) == "compile":
                self._compile(self._request(ticket), session, shape)
            self._step_down(ticket, "compile_pending")
        else:
            self._get_program(ticket, session, shape)

    def _get_program(self, ticket: int, session: int, shape: int) -> None:
        cache, began = self._cache, self._env.now
        assert cache is not None  # noqa: S101 - only called with one
        i = self._request(ticket)

        def have(_: int = 0) -> None:
            cache.have(session, shape)
            self._stall("compile", ticket, began)
            self._activate(ticket)

        need = cache.need(shape)
        if need == "wait":
            cache.wait_for(shape, have)
        elif need == "load":
            assert self._work.cached_load_s is not None  # noqa: S101 - drawn whenever a variant compiles
            Call(self._env, float(self._work.cached_load_s[i, self._v]), have, 0)
        else:
            self._compile(i, session, shape, have)

    def _compile(self, i: int, session: int, shape: int, then: Callable[[], None] | None = None) -> None:
        """Compile for this session; `then`, if the request waits for it, goes before the others who waited for the shape."""
        cache, compile_s = self._cache, self._work.compile_s
        assert cache is not None  # noqa: S101 - only called with one
        assert compile_s is not None  # noqa: S101 - drawn whenever a variant compiles
        seconds = float(compile_s[i, self._v])
        self._tracks.compiles.append((self._env.now, self._replica, self._v, shape, seconds))
        cache.begin(shape)

        def compiled(_: int) -> None:
            waiting = cache.end(shape)
            cache.have(session, shape)
            for go_on in (then, *waiting):
                if go_on is not None:
                    go_on()

        Call(self._env, seconds, compiled, 0)

    def _pad(self, ticket: int, larger: int) -> None:
        """Run on the larger shape's program: its service time is that of a request of the larger length."""
        self._tracks.padded_to[ticket % self._tracks.jobs] = larger
        self._activate(ticket)

    # -- memory ----------------------------------------------------------------------------------------------------

    def _activate(self, ticket: int) -> None:
        session = self._session[ticket]
        queue, activations = self._memory_of[session], self._work.activation_bytes
        if queue is None or activations is None:
            self._start(ticket)
            return
        need = float(activations[self._request(ticket), self._v])
        key = (self._v, session)
        if not queue.vram.loaded(key):  # evicted while its program compiled
            self._load(ticket)
            return
        weights = self._variant.weights_bytes or 0.0
        self._allocate(ticket, lambda: queue.vram.start(key, need, self._env.now), weights, need, self._start)

    def _allocate(
        self, ticket: int, allocate: Callable[[], bool], weights: float, activation: float, then: Start
    ) -> None:
        """Allocate and go on, or do what the scenario says of memory that is not there."""
        if allocate():
            then(ticket)
            return
        session = self._session[ticket]
        queue, memory, key = self._memory_of[session], self._memory, (self._v, session)
        assert queue is not None  # noqa: S101 - only called where memory is simulated
        assert memory is not None  # noqa: S101
        if memory.out_of_memory == "evict_lru":
            while queue.vram.evict_idle(key):
                self._tracks.steps_down[self._v, "evicted_another"] += 1
                if allocate():
                    then(ticket)
                    return
        if memory.out_of_memory == "wait" and not queue.vram.hopeless(key, weights, activation):
            self._wait_for_memory(ticket, queue, allocate, then)
            return
        refused = self._give_up if memory.out_of_memory == "fail" else self._step_down
        refused(ticket, "out_of_memory")

    def _wait_for_memory(self, ticket: int, queue: MemoryQueue, allocate: Callable[[], bool], then: Start) -> None:
        began = self._env.now

        def attempt() -> bool:
            if not self._tracks.alive(ticket):
                self._step_down(ticket, "dead")
                return True
            if not allocate():
                return False
            self._stall("memory", ticket, began)
            then(ticket)
            return True

        queue.wait(attempt)

    def _stall(self, kind: str, ticket: int, began: float) -> None:
        self._tracks.stall(kind, ticket, self._v, began, min(self._env.now, self._life.until))

    def _request(self, ticket: int) -> int:
        return (ticket % self._tracks.jobs) // self._tracks.signals

    def _shape(self, ticket: int) -> int:
        assert self._work.processed is not None  # noqa: S101 - drawn for every scenario
        job = ticket % self._tracks.jobs
        return int(self._work.processed[job // self._tracks.signals, job % self._tracks.signals])
