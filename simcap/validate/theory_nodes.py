"""Small nodes of which queueing theory knows the exact figures, and replications of them.

Enters: rates, laws of service, a seed. Leaves: lists of one figure a replication. Time in units of the mean service
time unless a case says otherwise. Formulas: Kleinrock, Queueing Systems, vol. 1 (Erlang C, Pollaczek-Khinchine, M/M/c/K);
Reiser and Lavenberg 1980 (mean-value analysis).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.arrivals import Arrivals, OpenLoop
from sim.engine import Asked, simulate
from sim.node import LimitSpec, NodeSpec
from sim.records import Records
from sim.streams import Streams
from sim.work import Work

Draw = Callable[[np.random.Generator, int], np.ndarray]
"""Generator and count -> service times."""

WARM_UP = 0.1  # share of the requests of each replication that is skipped


@dataclass(frozen=True)
class Effort:
    """How much is simulated: `requests` a replication, `replications`, from `seed`, on `engine`."""

    requests: int
    replications: int
    seed: int
    engine: Asked = "auto"

    @property
    def skip(self) -> int:
        return int(self.requests * WARM_UP)


def exponential(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.exponential(size=count)


def deterministic(_: np.random.Generator, count: int) -> np.ndarray:
    return np.ones(count)


def chain(
    stages: int = 1, sessions: int = 1, cpu_workers: int = 10**9, *, max_in_flight: int | None = None
) -> NodeSpec:
    """A chain of signals, each with `sessions` sessions and a device of its own."""
    return NodeSpec(
        cpu_workers=cpu_workers,
        signals=tuple(f"s{k}" for k in range(stages)),
        stages=tuple((k,) for k in range(stages)),
        sessions=(sessions,) * stages,
        lock_of=(None,) * stages,
        locks=(),
        device_of=tuple(range(stages)),
        devices=tuple(f"d{k}" for k in range(stages)),
        limits=LimitSpec(max_in_flight=max_in_flight),
    )


def locked(order: str) -> NodeSpec:
    """Two signals side by side in one lock domain, on a device that neither fills."""
    return NodeSpec(
        cpu_workers=10**9,
        signals=("a", "b"),
        stages=((0, 1),),
        sessions=(1, 1),
        lock_of=(0, 0),
        locks=(("lock", order),),  # type: ignore[arg-type]  # callers pass the two literals
        device_of=(0, 0),
        devices=("gpu",),
    )


def work(router_s: np.ndarray, services: list[np.ndarray], occupancy: float, needed: np.ndarray | None = None) -> Work:
    """One request a row, one signal a column; `needed` None: every signal by every request."""
    n, shape = router_s.size, (router_s.size, len(services))
    return Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.ones(n, dtype=np.int64),
        router_s=router_s,
        needed=np.ones(shape, dtype=bool) if needed is None else needed,
        service_s=np.column_stack(services),
        occupancy=np.full(shape, occupancy),
    )


def runs(
    node: NodeSpec,
    effort: Effort,
    brought: Callable[[Streams, int], Work],
    arrivals: Callable[[Streams, int], Arrivals],
) -> list[Records]:
    """The replications; each draws its work and arrivals from streams of its own."""
    made = []
    for r in range(effort.replications):
        streams = Streams(effort.seed, r)
        jobs, comes = brought(streams, effort.requests), arrivals(streams, effort.requests)
        made.append(simulate(node, jobs, comes, streams, engine=effort.engine))
    return made


def poisson(rate: float) -> Callable[[Streams, int], Arrivals]:
    """Poisson arrivals at `rate`."""
    return lambda streams, n: OpenLoop(np.cumsum(streams.generator("arrivals").exponential(size=n)) / rate)


def open_runs(node: NodeSpec, rate: float, draw: Draw, occupancy: float, effort: Effort) -> list[Records]:
    """Poisson arrivals at one signal whose service times `draw` gives."""
    return runs(
        node,
        effort,
        lambda streams, n: work(np.zeros(n), [draw(streams.generator("service"), n)], occupancy),
        poisson(rate),
    )


def mean_wait(made: list[Records], effort: Effort) -> list[float]:
    """Mean time from arrival until service begins, warm-up skipped."""
    return [float((run.started[:, 0] - run.arrived)[effort.skip :].mean()) for run in made]


def mean_sojourn(made: list[Records], effort: Effort) -> list[float]:
    """Mean time from arrival to answer of those that are answered, warm-up skipped."""
    return [float(run.latency[effort.skip :][~run.failed[effort.skip :]].mean()) for run in made]


def turned_away(made: list[Records], effort: Effort) -> list[float]:
    """Share of arrivals that is refused, warm-up skipped."""
    return [float(run.failed[effort.skip :].mean()) for run in made]


def erlang_c(servers: int, offered: float) -> float:
    """Probability that an arrival waits in M/M/c."""
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1 - offered / servers)
    return last / (sum(terms) + last)


def room_limited(servers: int, room: int, offered: float) -> tuple[float, float]:
    """M/M/c/K with mean service 1: the share turned away, and the mean time in the system of the others."""
    weights = [offered**k / (math.factorial(min(k, servers)) * servers ** max(k - servers, 0)) for k in range(room + 1)]
    shares = [w / sum(weights) for w in weights]
    inside = sum(k * share for k, share in enumerate(shares))
    return shares[-1], inside / (offered * (1 - shares[-1]))


def mean_value_analysis(clients: int, think: float, demands: list[float]) -> tuple[float, float]:
    """Exact MVA of a closed product-form network: throughput and mean response time (excluding thinking)."""
    queue = [0.0] * len(demands)
    throughput, response = 0.0, 0.0
    for n in range(1, clients + 1):
        stay = [d * (1 + q) for d, q in zip(demands, queue, strict=True)]
        response = sum(stay)
        throughput = n / (think + response)
        queue = [throughput * s for s in stay]
    return throughput, response
