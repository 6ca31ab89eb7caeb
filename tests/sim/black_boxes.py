"""Probes whose capacity is known: single-server queues by Lindley's recursion, and shares of breaches drawn from a law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sim.search_levels import Outcome, Probe


def mm1(seed: int, within: float, *, service: float = 1.0, fixed: float = 0.0) -> Probe:
    """M/M/1 with mean service time `service`; `fixed` seconds are added to each sojourn and occupy nobody."""

    def probe(load: float, replication: int, requests: int) -> Outcome:
        gaps = np.random.default_rng([seed, replication, 0]).exponential(size=requests) / load
        work = np.random.default_rng([seed, replication, 1]).exponential(size=requests) * service
        walk = np.cumsum(np.concatenate([[0.0], work[:-1] - gaps[1:]]))
        sojourn = walk - np.minimum.accumulate(walk) + work
        arrived = np.cumsum(gaps)
        answered, end = arrived + sojourn, float(arrived[-1])
        busy = float(np.clip(end - (answered - work), 0.0, work).sum()) / end
        return Outcome(
            latency_s=(sojourn + fixed).astype(np.float32),
            breached=sojourn + fixed > within,
            backlog_share=float((answered > end).mean()),
            served=float((answered <= end).sum()) / end,
            utilisation={"session:a": busy},
        )

    return probe


def noisy(seed: int, capacity: float, allowed: float, *, sigma: float, slope: float) -> Probe:
    """Share of breaches allowed * exp(slope (x / capacity - 1)) on average, times a lognormal of mean 1 per replication."""

    def probe(load: float, replication: int, requests: int) -> Outcome:
        normal = np.random.default_rng([seed, replication, requests]).standard_normal()
        spread = sigma * np.sqrt(10_000 / requests)
        share = allowed * np.exp(slope * (load / capacity - 1) + spread * normal - spread**2 / 2)
        late = np.zeros(requests, dtype=bool)
        late[np.random.default_rng([seed, replication]).permutation(requests)[: round(min(share, 1.0) * requests)]] = (
            True
        )
        return Outcome(
            latency_s=np.where(late, 2.0, 0.5).astype(np.float32),
            breached=late,
            backlog_share=0.0,
            served=load,
            utilisation={"session:a": min(0.5 * load / capacity, 1.0)},
        )

    return probe


def burst(within: float, *, jitter: float = 0.0, seed: int = 0) -> Probe:
    """`load` requests at one instant before one server with service times of 1 (times a lognormal, if jittered)."""

    def probe(load: float, replication: int, requests: int) -> Outcome:
        del requests
        size = int(load)
        work = np.exp(jitter * np.random.default_rng([seed, replication]).standard_normal(size))
        latency = np.cumsum(work)
        return Outcome(latency.astype(np.float32), latency > within, 0.0, float("nan"), {"session:a": 1.0})

    return probe


class Counting:
    """A probe that counts the loads that it was asked for."""

    def __init__(self, probe: Callable[[float, int, int], Outcome]) -> None:
        self._probe = probe
        self.loads: list[float] = []
        self.requests = 0

    def __call__(self, load: float, replication: int, requests: int) -> Outcome:
        if load not in self.loads:
            self.loads.append(load)
        self.requests += requests
        return self._probe(load, replication, requests)
