"""One request's walk through one replica, told top to bottom.

    enter -> router CPU -> stage 1 -> stage 2 … -> leave
    a stage: for each of its signals
        lock domain -> session of the first provider -> [load, compile, memory] -> device
                       or step down to the session of the next provider
    and the stage ends when all its signals have ended

Each step writes its time and hands the ticket on (see `sim.tracks` for tickets). Stations, devices and preparations
decide who waits; this module only says what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import simpy

from sim.batching import BatchingSessions
from sim.device import Device
from sim.events import Call
from sim.preparation import Preparation
from sim.replica import Furniture
from sim.run_queues import RunQueues
from sim.station import Sessions
from sim.tracks import FAILURES, Tracks
from sim.work import Work


class Pipeline:
    """The walk. `left(i)`: request i has all its answers. `failed(i, reason)`: it will not get them here."""

    def __init__(
        self,
        env: simpy.Environment,
        work: Work,
        tracks: Tracks,
        furnish: Callable[[Pipeline], Furniture],
        *,
        left: Callable[[int], None],
        failed: Callable[[int, int], None],
        answer_without_signal: bool,
    ) -> None:
        self._env, self._work, self._tracks = env, work, tracks
        self._left, self._failed = left, failed
        self._answer_without_signal = answer_without_signal
        self._jobs, self._signals = tracks.jobs, tracks.signals
        self._mortal = tracks.mortal
        self._service_s, self._occupancy = tracks.service_s, tracks.occupancy
        self._can_fail = work.fails is not None
        self._position: dict[int, int] = {}  # ticket -> place in the provider order, where it is not the first
        self._session: dict[int, int] = {}  # ticket -> session that it holds

        rooms = furnish(self)
        self._cpu, self._lock_of, self._order = rooms.cpu, rooms.lock_of, rooms.order
        self._sessions: list[Sessions | BatchingSessions] = rooms.sessions
        self._batches = any(isinstance(sessions, BatchingSessions) for sessions in rooms.sessions)
        self._device_of: list[list[Device | RunQueues]] = rooms.device_of
        self._device_number = rooms.device_number
        self._preparation: list[Preparation | None] = rooms.preparation
        self._available, self._queue_limit = rooms.available, rooms.queue_limit

    # -- the request -----------------------------------------------------------------------------------------------

    def enter(self, i: int) -> None:
        """Request i is at this replica."""
        self._tracks.entered[i] = self._env.now
        self._cpu.acquire(self._tracks.epoch[i] * self._jobs + i * self._signals)

    def router_work(self, ticket: int) -> None:
        """A CPU worker is at the request."""
        i = (ticket % self._jobs) // self._signals
        self._tracks.router_started[i] = self._env.now
        Call(self._env, self._tracks.router_s[i], self._router_done, ticket)

    def _router_done(self, ticket: int) -> None:
        self._cpu.release()
        if not self._mortal or self._tracks.alive(ticket):
            i = (ticket % self._jobs) // self._signals
            self._tracks.router_ended[i] = self._env.now
            self._next_stage(i)

    def _next_stage(self, i: int) -> None:
        tracks = self._tracks
        stages, at = tracks.walks[i], tracks.stage[i]
        if at == len(stages):
            self._left(i)
            return
        tracks.stage[i] = at + 1
        tracks.unjoined[i] = len(stages[at])
        first = tracks.epoch[i] * self._jobs + i * self._signals
        for s in stages[at]:
            self._ready(first + s, s)

    def _join(self, ticket: int) -> None:
        """One signal of the stage has ended; the last one to end moves the request on."""
        if self._mortal and not self._tracks.alive(ticket):
            return
        i = (ticket % self._jobs) // self._signals
        self._tracks.unjoined[i] -= 1
        if not self._tracks.unjoined[i]:
            self._next_stage(i)

    def held(self) -> Iterable[int]:
        """Tickets that hold a session."""
        return self._session.keys()

    def stop(self) -> None:
        """The replica's process ends: what is on its devices ends here, undone."""
        for device in {id(d): d for devices in self._device_of for d in devices}.values():
            for ticket, left_s in device.abandon():
                self._tracks.lose(ticket, self._env.now, left_s)

    # -- one signal of it ------------------------------------------------------------------------------------------

    def _ready(self, ticket: int, s: int) -> None:
        if self._mortal and not self._tracks.alive(ticket):
            return  # a signal before it in this stage has failed the request
        self._tracks.ready[ticket % self._jobs] = self._env.now
        lock, limit = self._lock_of[s], self._queue_limit[s]
        if limit is not None and (lock or self._sessions[s]).waiting() >= limit:
            self._signal_failed(ticket, "queue_full")
        elif lock is None:
            self.locked(ticket)
        else:
            lock.acquire(ticket)

    def locked(self, ticket: int) -> None:
        """The signal's lock domain is held (or it has none)."""
        job = ticket % self._jobs
        self._tracks.locked[job] = self._env.now
        s = job % self._signals
        if self._available[s]:
            self._sessions[s].acquire(ticket)
        else:
            self._step_down(ticket, s, "not_available")

    def seated(self, v: int, ticket: int, session: int) -> None:
        """Session `session` of variant v is held."""
        self._session[ticket] = session
        preparation = self._preparation[v]
        if preparation is None:
            self.run(v, ticket)
        else:
            preparation.begin(ticket, session)

    def prepared(self, v: int, ticket: int) -> None:
        """Session, program and memory are there, perhaps after a wait in which the request has failed."""
        if self._tracks.alive(ticket):
            self.run(v, ticket)
        else:
            self._leave_session(v, ticket)
            self._let_go(ticket, ticket % self._jobs % self._signals)

    def run(self, v: int, ticket: int) -> None:
        """Everything is there: onto the device."""
        job = ticket % self._jobs
        i = job // self._signals
        own, share = self._service_s[i][v], self._occupancy[i][v]
        session = self._session[ticket]
        sessions = self._sessions[v]
        if self._batches and isinstance(sessions, BatchingSessions):
            members = sessions.members(ticket)
            own = self._work.batch_service[v]([(m % self._jobs) // self._signals for m in members])
            for member in members[1:]:
                self._note_start(member % self._jobs, v, session, own, 0.0)
        elif self._tracks.padded_to and job in self._tracks.padded_to:
            own, share = self._work.at_length[v](i, self._tracks.padded_to[job])
        self._note_start(job, v, session, own, share)
        self._device_of[v][session].start(ticket, own, share)

    def _note_start(self, job: int, v: int, session: int, own: float, share: float) -> None:
        tracks = self._tracks
        tracks.started[job] = self._env.now
        tracks.own_s[job] = own
        tracks.share[job] = share
        tracks.variant[job] = v
        tracks.device[job] = self._device_number[v][session]

    def _fails(self, i: int, v: int) -> bool:
        return self._work.fails is not None and bool(self._work.fails[i, v])

    def ended(self, ticket: int) -> None:
        """The device is done with the ticket."""
        job = ticket % self._jobs
        i, s = divmod(job, self._signals)
        v = self._order[s][self._position.get(ticket, 0)] if self._position else s  # variant s is signal s's first
        alive = not self._mortal or self._tracks.alive(ticket)
        if alive and self._can_fail and self._fails(i, v):
            began, now = self._tracks.started[job], self._env.now
            self._tracks.lose(ticket, now)
            key = "fallback", job
            self._tracks.stalls[key] = self._tracks.stalls.get(key, 0.0) + now - began
            self.step_down(v, ticket, "failed")
            return
        if not alive:
            self._tracks.lose(ticket, self._env.now)
        sessions = self._sessions[v]
        members = sessions.forget(ticket) if self._batches and isinstance(sessions, BatchingSessions) else (ticket,)
        for member in members:
            if not self._mortal or self._tracks.alive(member):
                self._tracks.ended[member % self._jobs] = self._env.now
        self._leave_session(v, ticket)
        self._let_go(ticket, s)
        for member in members:
            self._join(member)

    # -- stepping down the provider order --------------------------------------------------------------------------

    def step_down(self, v: int, ticket: int, reason: str) -> None:
        """Variant v cannot or did not do it: give its session back and try the next provider."""
        self._leave_session(v, ticket)
        self._step_down(ticket, v, reason)

    def give_up(self, v: int, ticket: int, reason: str) -> None:
        """Variant v cannot do it and no other provider is to be tried."""
        self._leave_session(v, ticket)
        self._tracks.steps_down[v, reason] += 1
        self._let_go(ticket, ticket % self._jobs % self._signals)
        self._signal_failed(ticket, reason)

    def _step_down(self, ticket: int, v: int, reason: str) -> None:
        job = ticket % self._jobs
        s = job % self._signals
        if not self._tracks.alive(ticket):
            self._let_go(ticket, s)
            return
        self._tracks.steps_down[v, reason] += 1
        self._tracks.padded_to.pop(job, None)
        place = self._position.get(ticket, 0) + 1
        while place < len(self._order[s]):
            following = self._order[s][place]
            self._position[ticket] = place
            if self._available[following]:
                self._sessions[following].acquire(ticket)
                return
            self._tracks.steps_down[following, "not_available"] += 1
            place += 1
        self._let_go(ticket, s)
        self._signal_failed(ticket, "out_of_memory" if reason == "out_of_memory" else "provider")

    def _leave_session(self, v: int, ticket: int) -> None:
        preparation = self._preparation[v]
        if preparation is not None:
            preparation.finished(ticket)
        self._sessions[v].release(self._session.pop(ticket))

    def _let_go(self, ticket: int, s: int) -> None:
        if self._position:
            self._position.pop(ticket, None)
        lock = self._lock_of[s]
        if lock is not None:
            lock.release()

    def _signal_failed(self, ticket: int, reason: str) -> None:
        if self._answer_without_signal:
            self._tracks.steps_down[ticket % self._signals, f"answered_without:{reason}"] += 1
            self._join(ticket)
        elif self._tracks.alive(ticket):
            self._failed((ticket % self._jobs) // self._signals, FAILURES.index(reason))
