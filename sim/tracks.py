"""What all replicas write while the simulation runs: the time of each step, and who is still alive.

Request i has jobs i*S + s. A ticket is what stations and devices pass around: epoch * J + job with J = n*S. A request's
epoch rises when it fails, so that what is left of a failed attempt in a queue or on a device is known to be dead. In a
run without failures every epoch is 0 and a ticket is its job. Plain lists: reading one element of a NumPy array costs
several times as much.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from sim.node import NodeSpec
from sim.work import Work

NEVER = float("nan")

FAILURES = (
    "none",
    "refused",
    "queue_full",
    "timeout",
    "crash",
    "no_replica",
    "out_of_memory",
    "provider",
    "unfinished",
)
"""Why a request failed; records hold the position in this tuple."""

STALLS = ("load", "compile", "memory", "fallback")
"""Why a job that holds its session is not on the device yet."""


class Life:
    """Until when a replica has lived: infinity, or the second of its crash."""

    def __init__(self) -> None:
        self.until = float("inf")


class Lost(NamedTuple):
    """An inference that nobody waits for: it failed, or its request has failed meanwhile. Seconds; work = share * own seconds done."""

    variant: int
    device: int
    start: float
    end: float
    share: float
    work: float


class Tracks:
    """Mutable state of one run, indexed by request or by job. `most`: requests that it may come to hold, n by default."""

    def __init__(self, node: NodeSpec, work: Work, most: int | None = None) -> None:
        n, signals = work.needed.shape
        self._node = node
        self.signals: int = signals
        self.jobs: int = signals * (most or n)
        self.mortal = _mortal(node, work)
        self.router_s: list[float] = []
        self.service_s: list[list[float]] = []
        self.occupancy: list[list[float]] = []
        self.weight: list[float] = []  # seconds of inference, what a balancer goes by
        self.walks: list[tuple[tuple[int, ...], ...]] = []

        self.arrived: list[float] = []
        self.entered: list[float] = []
        self.router_started: list[float] = []
        self.router_ended: list[float] = []
        self.answered: list[float] = []
        self.failure: list[int] = []
        self.retries: list[int] = []
        self.replica: list[int] = []
        self.epoch: list[int] = []
        self.stage: list[int] = []
        self.unjoined: list[int] = []
        self.within: list[int] = []  # 1 while the request is in a replica, 0 while it pauses before a retry

        self.ready: list[float] = []
        self.locked: list[float] = []
        self.started: list[float] = []
        self.ended: list[float] = []
        self.variant: list[int] = []
        self.own_s: list[float] = []  # seconds of own work on the device
        self.share: list[float] = []  # occupancy used; 0 for those that ride along in another's batch
        self.device: list[int] = []
        self.lost: list[Lost] = []
        # variant, start, end: a session held by who is not on the device
        self.holds: list[tuple[int, float, float]] = []
        self.ghosts: dict[int, Lost] = {}  # ticket of a dead attempt that still runs -> what it holds, its end unknown
        self.padded_to: dict[int, int] = {}  # job -> tokens of the larger program that it ran on
        self.stalls: dict[tuple[str, int], float] = {}  # (kind, job) -> seconds
        self.steps_down: Counter[tuple[int, str]] = Counter()  # (variant, reason) -> count
        self.compiles: list[tuple[float, int, int, int, float]] = []  # time, replica, variant, tokens, seconds
        self.memory: list[tuple[float, int, int, float]] = []  # time, replica, device, bytes in use
        self.watermarks: list[tuple[float, int, int, float]] = []  # time, replica, device, bytes: crossed upwards
        self.number: list[int] = []  # the how manyeth request of the run it is; kept where a replica can crash
        self._came = 0
        self.put(work, 0)

    def put(self, work: Work, at: int) -> None:
        """New requests take the places from `at` on, where none was or where all are answered and nothing is under way.

        The epoch of a place that was taken before rises, so that no two requests ever have a ticket in common.
        """
        n = work.tokens.size
        end, first, last = at + n, at * self.signals, (at + n) * self.signals
        self.router_s[at:end] = work.router_s.tolist()
        self.service_s[at:end] = work.service_s.tolist()
        self.occupancy[at:end] = work.occupancy.tolist()
        self.weight[at:end] = work.service_s[:, : self.signals].sum(axis=1).tolist()
        self.walks[at:end] = _walks(self._node, work)
        if self._node.replicas.faults:
            self.number[at:end] = range(self._came, self._came + n)
        self._came += n
        epochs = [epoch + 1 for epoch in self.epoch[at:end]]
        self.epoch[at:end] = epochs or [0] * n
        for seconds in (self.arrived, self.entered, self.router_started, self.router_ended, self.answered):
            seconds[at:end] = [NEVER] * n
        for number in (self.failure, self.retries, self.replica, self.stage, self.unjoined, self.within):
            number[at:end] = [0] * n
        for seconds in (self.ready, self.locked, self.started, self.ended):
            seconds[first:last] = [NEVER] * (last - first)
        for seconds in (self.own_s, self.share):
            seconds[first:last] = [0.0] * (last - first)
        for number in (self.variant, self.device):
            number[first:last] = [-1] * (last - first)
        for job in [job for job in self.padded_to if first <= job < last]:
            del self.padded_to[job]

    def alive(self, ticket: int) -> bool:
        """True while the attempt that this ticket belongs to is the request's current one."""
        epoch, job = divmod(ticket, self.jobs)
        return self.epoch[job // self.signals] == epoch

    def stall(self, kind: str, ticket: int, v: int, begin: float, end: float) -> None:
        """A session of variant v was held from begin to end by a ticket that was not on the device.

        The session's time counts in any case; to the job's own account it goes only while the attempt is alive.
        """
        if end > begin:
            self.holds.append((v, begin, end))
            if self.alive(ticket):
                key = kind, ticket % self.jobs
                self.stalls[key] = self.stalls.get(key, 0.0) + end - begin

    def lose(self, ticket: int, end: float, left_s: float = 0.0) -> None:
        """The device worked for nothing on this ticket until `end`; `left_s` seconds of its own work were never done."""
        ghost = self.ghosts.pop(ticket, None) or self._on_device(ticket % self.jobs)
        self.lost.append(ghost._replace(end=end, work=ghost.work - ghost.share * left_s))

    def _on_device(self, job: int) -> Lost:
        share = self.share[job]
        return Lost(self.variant[job], self.device[job], self.started[job], NEVER, share, share * self.own_s[job])

    def forget_attempt(self, i: int) -> None:
        """A request starts again: what its last attempt left is dropped, so that records tell of the final one."""
        self.stage[i] = 0
        self.router_started[i] = self.router_ended[i] = NEVER
        before = (self.epoch[i] - 1) * self.jobs
        for job in range(i * self.signals, (i + 1) * self.signals):
            if self.started[job] == self.started[job] and self.ended[job] != self.ended[job]:
                self.ghosts[before + job] = self._on_device(job)
            self.ready[job] = self.locked[job] = self.started[job] = self.ended[job] = NEVER
            self.variant[job] = -1
            self.padded_to.pop(job, None)
            for kind in STALLS:
                self.stalls.pop((kind, job), None)


def _mortal(node: NodeSpec, work: Work) -> bool:
    """Whether a request can fail inside a replica. Where none can, nobody asks who is alive (15 times a request)."""
    variants = [node.variant(v) for v in range(node.variant_count)]
    return (
        node.limits.timeout_s is not None
        or bool(node.replicas.faults)
        or any(limit is not None for limit in node.queue_limit)
        or node.memory is not None
        or work.fails is not None
        or any(not variant.available or variant.compile is not None for variant in variants)
    )


def _walks(node: NodeSpec, work: Work) -> list[tuple[tuple[int, ...], ...]]:
    """For each request its stages with only the signals that it needs; empty stages are left out."""
    packed = np.packbits(work.needed, axis=1)  # a pattern of needs is a string of bits
    keys = np.zeros((packed.shape[0], -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    keys[:, : packed.shape[1]] = packed
    words = keys.view(np.uint64)
    key = words[:, 0] if words.shape[1] == 1 else words.view([("", np.uint64)] * words.shape[1]).ravel()
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    walks = []
    for i in first.tolist():
        stages = (tuple(s for s in stage if work.needed[i, s]) for stage in node.stages)
        walks.append(tuple(stage for stage in stages if stage))
    return [walks[k] for k in which.ravel().tolist()]
