"""In front of the replicas: where requests arrive, fail, are sent again, and get their answers; and the faults.

    arrive -> balancer -> a replica's pipeline -> answered
                |  refused, timed out, crashed … -> retry after a pause, or answered as failed

What happens inside a replica is told in `sim.pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import simpy

from scenarios.node import Crash, Join
from sim.balancer import Inside, balancer
from sim.compile_cache import DiskCache
from sim.events import Call
from sim.node import NodeSpec
from sim.pipeline import Pipeline
from sim.replica import Place, furnish
from sim.streams import Streams
from sim.tracks import FAILURES, Life, Tracks
from sim.work import Work


class Front:
    """The replicas as one service. `answered(i)` is called when request i has its answer or has failed for good."""

    def __init__(self, env: simpy.Environment, node: NodeSpec, work: Work, tracks: Tracks, streams: Streams) -> None:
        self._env, self._node, self._work, self._tracks, self._streams = env, node, work, tracks, streams
        self.answered: Callable[[int], None] = lambda _: None
        self._limits = node.limits
        self._weight, self._within = tracks.weight, tracks.within
        count = node.replicas.count
        absent = {fault.replica for fault in node.replicas.faults if isinstance(fault, Join)}
        self._disks: list[dict[int, DiskCache]] = [{} for _ in range(count)]
        self._generation = [0] * count
        self._lives: dict[int, Life] = {}  # of the present generation of each replica
        self._inside = [Inside(up=k not in absent) for k in range(count)]
        self._requests: list[set[int]] | None = [set() for _ in range(count)] if node.replicas.faults else None
        self._drained: dict[int, Callable[[], None]] = {}
        self._pipelines = [self._pipeline(k, warm=not node.replicas.cold_start) for k in range(count)]
        self._pick = balancer(node.replicas.balancer, self._inside, work, streams.generator("balancer"))
        self._plan_faults()

    def _pipeline(self, k: int, *, warm: bool) -> Pipeline:
        life = self._lives[k] = Life()
        place = Place(k, self._generation[k], warm, self._disks[k], life)
        return Pipeline(
            self._env,
            self._work,
            self._tracks,
            lambda walk: furnish(self._env, self._node, self._work, self._tracks, self._streams, place, walk),
            left=self._done,
            failed=self._fail,
            answer_without_signal=self._limits.answer_without_signal,
        )

    def arrive(self, i: int) -> None:
        """Request i is sent by its client."""
        self._tracks.arrived[i] = self._env.now
        if self._limits.timeout_s is not None:
            Call(self._env, self._limits.timeout_s, self._deadline, i)
        self._enter(i)

    def _enter(self, i: int) -> None:
        if self._tracks.answered[i] == self._tracks.answered[i]:
            return  # timed out while it paused before a retry
        k = self._pick(i)
        if k is None:
            self._fail_outside(i, FAILURES.index("no_replica"))
            return
        inside, most = self._inside[k], self._limits.max_in_flight
        if most is not None and inside.requests >= most:
            self._fail_outside(i, FAILURES.index("refused"))
            return
        inside.requests += 1
        inside.seconds += self._weight[i]
        self._tracks.replica[i] = k
        self._within[i] = 1
        if self._requests is not None:
            self._requests[k].add(i)
        self._pipelines[k].enter(i)

    def _leave(self, i: int) -> None:
        k = self._tracks.replica[i]
        inside = self._inside[k]
        self._within[i] = 0
        inside.requests -= 1
        inside.seconds = inside.seconds - self._weight[i] if inside.requests else 0.0
        if self._requests is not None:
            self._requests[k].discard(i)
        if not inside.requests and k in self._drained:
            self._drained.pop(k)()

    def _done(self, i: int) -> None:
        self._leave(i)
        self._tracks.answered[i] = self._env.now
        self.answered(i)

    def _fail(self, i: int, reason: int) -> None:
        """Request i has failed inside its replica."""
        self._leave(i)
        self._tracks.epoch[i] += 1
        self._fail_outside(i, reason)

    def _fail_outside(self, i: int, reason: int) -> None:
        tracks = self._tracks
        if tracks.retries[i] < self._limits.retries and FAILURES[reason] != "timeout":
            tracks.retries[i] += 1
            tracks.forget_attempt(i)
            Call(self._env, self._limits.backoff_s, self._enter, i)
            return
        tracks.failure[i] = reason
        tracks.answered[i] = self._env.now
        self.answered(i)

    def _deadline(self, i: int) -> None:
        tracks = self._tracks
        if tracks.answered[i] == tracks.answered[i]:
            return
        (self._fail if self._within[i] else self._fail_outside)(i, FAILURES.index("timeout"))

    def settled(self, now: float) -> Callable[[slice], bool]:
        """Whether a page of requests has all its answers and nothing to come refers to any of them (see `sim.pages`).

        What may: its time-outs, pauses before retries that a time-out overtook, and inferences that outlive their request.
        A ticket in a queue does no harm: whoever meets it sees by its epoch that it is dead.
        """
        tracks, limits = self._tracks, self._limits
        held = np.array([t % tracks.jobs // tracks.signals for p in self._pipelines for t in p.held()], dtype=np.int64)

        def settled(page: slice) -> bool:
            answered = np.array(tracks.answered[page])
            quiet = answered.max() + limits.backoff_s  # NaN of a request without an answer is not below any time
            if limits.timeout_s is not None:
                quiet = max(quiet, max(tracks.arrived[page]) + limits.timeout_s)
            waits = limits.timeout_s is not None or limits.retries > 0
            over = quiet < now if waits else not np.isnan(quiet)
            return bool(over) and not np.any((held >= page.start) & (held < page.stop))

        return settled

    # -- faults ----------------------------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        for number, fault in enumerate(self._node.replicas.faults):
            Call(self._env, fault.at_s, self._fault, number)

    def _fault(self, number: int) -> None:
        fault = self._node.replicas.faults[number]
        warm = fault.comes_back == "warm"
        if isinstance(fault, Crash):
            self._crash(fault.replica)
            self._after(fault.down_s, partial(self._restore, fault.replica, warm=warm))
        elif isinstance(fault, Join):
            self._restore(fault.replica, warm=warm)
        else:
            self._restart_in_turn(0, fault.down_s, warm=warm)

    def _crash(self, k: int) -> None:
        self._inside[k].up = False
        self._stop(k)
        assert self._requests is not None  # noqa: S101 - kept whenever there are faults
        for i in sorted(self._requests[k], key=self._tracks.number.__getitem__):
            self._fail(i, FAILURES.index("crash"))

    def _stop(self, k: int) -> None:
        """The process of replica k ends: nothing in it holds or works from now on."""
        self._lives[k].until = self._env.now
        self._pipelines[k].stop()

    def _restore(self, k: int, *, warm: bool) -> None:
        self._generation[k] += 1
        self._pipelines[k] = self._pipeline(k, warm=warm)
        self._inside[k].up = True

    def _restart_in_turn(self, k: int, down_s: float, *, warm: bool) -> None:
        """Drain replica k, hold it down, bring it back, go on with the next."""
        if k == len(self._inside):
            return

        def back() -> None:
            self._restore(k, warm=warm)
            self._restart_in_turn(k + 1, down_s, warm=warm)

        def drained() -> None:
            self._stop(k)
            self._after(down_s, back)

        self._inside[k].up = False
        if self._inside[k].requests:
            self._drained[k] = drained
        else:
            drained()

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        Call(self._env, seconds, lambda _: do(), 0)
