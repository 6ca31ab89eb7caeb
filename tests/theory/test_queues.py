"""The engine against exact results of queueing theory.

Each test runs independent replications and asserts two things: the exact value lies in the 99 % interval of the mean,
and that interval is narrow, so that a wrong engine could not hide in a wide one. No seeded digit is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from profiles.distribution import lognormal_about
from sim.arrivals import Arrivals, ClosedLoop, OpenLoop
from sim.engine import simulate
from sim.node import NodeSpec
from sim.records import Records
from sim.streams import Streams
from sim.work import Work

Draw = Callable[[np.random.Generator, int], np.ndarray]


def node(stages: int = 1, sessions: int = 1, cpu_workers: int = 10**9) -> NodeSpec:
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
    )


def work(router_s: np.ndarray, services: list[np.ndarray], occupancy: float) -> Work:
    n = router_s.size
    shape = (n, len(services))
    return Work(
        class_of=np.zeros(n, dtype=np.int64),
        tokens=np.ones(n, dtype=np.int64),
        router_s=router_s,
        needed=np.ones(shape, dtype=bool),
        service_s=np.column_stack(services),
        occupancy=np.full(shape, occupancy),
    )


def engine_for(requests: int) -> Literal["simpy", "compiled"]:
    """The reference up to half a million requests, the compiled engine beyond: both tell the same, bit for bit."""
    return "simpy" if requests <= 500_000 else "compiled"


def open_runs(
    spec: NodeSpec, rate: float, draw: Draw, occupancy: float, *, n: int, replications: int, skip: int
) -> list[Records]:
    runs = []
    for r in range(replications):
        streams = Streams(2026, r)
        times = np.cumsum(streams.generator("arrivals").exponential(size=n)) / rate
        service = draw(streams.generator("service"), n)
        brought = work(np.zeros(n), [service], occupancy)
        runs.append(simulate(spec, brought, OpenLoop(times), streams, engine=engine_for(n * replications)))
    assert all(np.all(np.isfinite(run.answered)) for run in runs), "every request must be answered"
    assert skip < n
    return runs


def assert_contains(exact: float, means: list[float], within: float) -> None:
    data = np.array(means)
    half = stats.t.ppf(0.995, data.size - 1) * data.std(ddof=1) / math.sqrt(data.size)
    assert half <= within * exact, f"interval ±{half:.4g} is too wide to prove {exact:.4g}"
    assert abs(data.mean() - exact) <= half, f"exact {exact:.5g} outside {data.mean():.5g} ± {half:.2g}"


def waits(run: Records, skip: int) -> float:
    """Mean time from arrival until service begins, warm-up skipped."""
    return float((run.started[:, 0] - run.arrived)[skip:].mean())


def erlang_c(servers: int, offered: float) -> float:
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1 - offered / servers)
    return last / (sum(terms) + last)


@pytest.mark.parametrize("rho", [0.5, 0.9])
@pytest.mark.parametrize("servers", [1, 4])
def test_mmc_waiting_time(servers: int, rho: float) -> None:
    """M/M/c: the mean wait is ErlangC / (c mu - lambda), at moderate and at high load."""
    lam = rho * servers
    n, replications = (40_000, 12) if rho < 0.8 else (120_000, 24)
    runs = open_runs(
        node(sessions=servers),
        lam,
        lambda rng, k: rng.exponential(size=k),
        1 / servers,
        n=n,
        replications=replications,
        skip=n // 10,
    )
    exact = erlang_c(servers, lam) / (servers - lam)
    assert_contains(exact, [waits(run, n // 10) for run in runs], within=0.06)


LOGNORMAL = lognormal_about(1.0, 1.0, levels=tuple(np.linspace(0, 1, 401)))
LAWS: dict[str, tuple[Draw, float, float]] = {
    "deterministic": (lambda _, k: np.ones(k), 1.0, 1.0),
    "lognormal": (
        lambda rng, k: LOGNORMAL.ppf(rng.random(k)),
        LOGNORMAL.mean,
        LOGNORMAL.variance + LOGNORMAL.mean**2,
    ),
}


@pytest.mark.parametrize("law", list(LAWS))
@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_mg1_pollaczek_khinchine(law: str, rho: float) -> None:
    """M/D/1 and M/G/1 with a lognormal service: the mean wait is lambda E[S^2] / (2 (1 - rho))."""
    draw, mean, second = LAWS[law]
    lam = rho / mean
    n = 80_000
    runs = open_runs(node(), lam, draw, 1.0, n=n, replications=16, skip=n // 10)
    assert_contains(lam * second / (2 * (1 - rho)), [waits(run, n // 10) for run in runs], within=0.06)


@pytest.mark.parametrize("law", ["deterministic", "lognormal", "exponential"])
def test_mg1_processor_sharing_is_insensitive(law: str) -> None:
    """M/G/1 processor sharing through the device law: the mean sojourn is E[S] / (1 - rho) whatever the service law."""
    draw, mean, _ = LAWS.get(law, (lambda rng, k: rng.exponential(size=k), 1.0, 2.0))
    rho, n = 0.7, 30_000 if law == "exponential" else 60_000  # the shorter one runs on the reference engine
    runs = open_runs(node(sessions=100_000), rho / mean, draw, 1.0, n=n, replications=16, skip=n // 10)
    sojourn = [float(run.latency[n // 10 :].mean()) for run in runs]
    assert_contains(mean / (1 - rho), sojourn, within=0.06 if law == "exponential" else 0.04)


def test_processor_sharing_below_one_does_not_slow() -> None:
    """Up to 1/f inferences share the device at full speed: M/G/∞ when that many never meet."""
    runs = open_runs(node(sessions=100_000), 2.0, LAWS["lognormal"][0], 1e-6, n=20_000, replications=3, skip=0)
    for run in runs:
        np.testing.assert_allclose(run.latency, run.work.service_s[:, 0], rtol=1e-9)


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


@pytest.mark.parametrize("clients", [1, 3, 12])
def test_closed_network_against_mean_value_analysis(clients: int) -> None:
    """Clients over a router CPU and two exponential sessions in a row: throughput and response equal exact MVA."""
    think, demands, n = 2.0, [0.3, 1.0, 0.6], 30_000
    throughput, response = [], []
    for r in range(16):
        streams = Streams(7, r)
        draws = [streams.generator(f"d{k}").exponential(d, size=n) for k, d in enumerate(demands)]
        loop: Arrivals = ClosedLoop(clients, streams.generator("arrivals").exponential(think, size=n))
        run = simulate(node(stages=2, cpu_workers=1), work(draws[0], draws[1:], 1.0), loop, streams)
        kept = slice(n // 10, n - clients)
        span = run.arrived[kept][-1] - run.arrived[kept][0]
        throughput.append((kept.stop - kept.start - 1) / span)
        response.append(float(run.latency[kept].mean()))
    exact_throughput, exact_response = mean_value_analysis(clients, think, demands)
    assert_contains(exact_throughput, throughput, within=0.02)
    assert_contains(exact_response, response, within=0.04)


def test_same_seed_same_records_and_order_of_events() -> None:
    """The same seed gives the same records bit for bit, and a FIFO session serves in order of arrival."""
    one, two = (
        open_runs(node(), 0.8, lambda rng, k: rng.exponential(size=k), 1.0, n=2_000, replications=1, skip=0)[0]
        for _ in range(2)
    )
    assert one.answered.tobytes() == two.answered.tobytes()
    assert all(a <= b for a, b in pairwise(one.started[:, 0].tolist()))
