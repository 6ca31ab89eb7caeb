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
    """Mutable state of one run, indexed by request or by job."""

    def __init__(self, node: NodeSpec, work: Work) -> None:
        n, signals = work.needed.shape
        jobs = n * signals
        self.requests: int = n
        self.signals: int = signals
        self.jobs: int = jobs
        self.mortal = _mortal(node, work)
        self.router_s: list[float] = work.router_s.tolist()
        self.service_s: list[list[float]] = work.service_s.tolist()
        self.occupancy: list[list[float]] = work.occupancy.tolist()
        self.walks = _walks(node, work)

        self.arrived, self.entered = [NEVER] * n, [NEVER] * n
        self.router_started, self.router_ended, self.answered = [NEVER] * n, [NEVER] * n, [NEVER] * n
        self.failure, self.retries, self.replica = [0] * n, [0] * n, [0] * n
        self.epoch: list[int] = [0] * n
        self.stage, self.unjoined = [0] * n, [0] * n

        self.ready, self.locked = [NEVER] * jobs, [NEVER] * jobs
        self.started, self.ended = [NEVER] * jobs, [NEVER] * jobs
        self.variant = [-1] * jobs
        self.own_s = [0.0] * jobs  # seconds of own work on the device
        self.share = [0.0] * jobs  # occupancy used; 0 for those that ride along in another's batch
        self.device = [-1] * jobs
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
