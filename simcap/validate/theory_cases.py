"""The exact values that the simulation is held against: one list, for `simcap validate theory` and for tests/theory.

Enters: an `Effort`. Leaves: for each case the exact figures and one simulated figure a replication. `within`: the
half-width, as a share of the exact value, that the 99 % interval keeps at the case's full effort; a wider one would let
a wrong engine hide in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from profiles.distribution import QuantileLaw, lognormal_about
from sim.arrivals import ClosedLoop
from sim.streams import Streams
from sim.work import Work
from simcap.validate.theory_nodes import (
    Draw,
    Effort,
    chain,
    deterministic,
    erlang_c,
    exponential,
    locked,
    mean_sojourn,
    mean_value_analysis,
    mean_wait,
    open_runs,
    poisson,
    room_limited,
    runs,
    turned_away,
    work,
)

MANY = 100_000  # sessions, so that nobody waits for one


@dataclass(frozen=True)
class Case:
    """One node. `exact`: figure -> the value theory gives; `simulated` gives as many lists, one value a replication."""

    name: str
    exact: dict[str, float]
    within: dict[str, float]
    requests: int
    replications: int
    simulated: Callable[[Effort], dict[str, list[float]]]


@cache
def lognormal() -> QuantileLaw:
    return lognormal_about(1.0, 1.0, levels=tuple(np.linspace(0, 1, 401)))


def _lognormal(rng: np.random.Generator, count: int) -> np.ndarray:
    return lognormal().ppf(rng.random(count))


def cases() -> list[Case]:
    """All of them, in the order of the table."""
    law = lognormal()
    laws: list[tuple[str, Draw, float, float]] = [
        ("deterministic", deterministic, 1.0, 1.0),
        ("lognormal", _lognormal, law.mean, law.variance + law.mean**2),
        ("exponential", exponential, 1.0, 2.0),
    ]
    return [
        *(_mmc(servers, rho) for servers in (1, 4) for rho in (0.5, 0.9)),
        *(_mg1(*one, rho) for one in laws[:2] for rho in (0.5, 0.8)),
        *(_sharing(*one[:3]) for one in laws),
        *(_closed(clients) for clients in (1, 3, 12)),
        _lock_in_order(),
        _lock_at_random(),
        _room(1, 4, 0.9),
        _room(2, 3, 1.8),
    ]


def _mmc(servers: int, rho: float) -> Case:
    """The mean wait is ErlangC / (c mu - lambda)."""
    lam = rho * servers
    requests, replications = (40_000, 12) if rho < 0.8 else (120_000, 24)

    def simulated(effort: Effort) -> dict[str, list[float]]:
        made = open_runs(chain(sessions=servers), lam, exponential, 1 / servers, effort)
        return {"mean wait": mean_wait(made, effort)}

    exact = {"mean wait": erlang_c(servers, lam) / (servers - lam)}
    return Case(f"M/M/{servers}, load {rho}", exact, {"mean wait": 0.06}, requests, replications, simulated)


def _mg1(name: str, draw: Draw, mean: float, second: float, rho: float) -> Case:
    """Pollaczek-Khinchine: the mean wait is lambda E[S^2] / (2 (1 - rho))."""
    lam = rho / mean

    def simulated(effort: Effort) -> dict[str, list[float]]:
        return {"mean wait": mean_wait(open_runs(chain(), lam, draw, 1.0, effort), effort)}

    title = "M/D/1" if name == "deterministic" else f"M/G/1 {name}"
    exact = {"mean wait": lam * second / (2 * (1 - rho))}
    return Case(f"{title}, load {rho}", exact, {"mean wait": 0.06}, 80_000, 16, simulated)


def _sharing(name: str, draw: Draw, mean: float) -> Case:
    """Processor sharing through the device law: the mean sojourn is E[S] / (1 - rho), whatever the service law."""
    rho = 0.7

    def simulated(effort: Effort) -> dict[str, list[float]]:
        return {"mean time": mean_sojourn(open_runs(chain(sessions=MANY), rho / mean, draw, 1.0, effort), effort)}

    # The exponential one is the shortest: its tests run it on the reference engine.
    requests, within = (30_000, 0.06) if name == "exponential" else (60_000, 0.04)
    exact = {"mean time": mean / (1 - rho)}
    return Case(f"shared device, {name}, load {rho}", exact, {"mean time": within}, requests, 16, simulated)


def _closed(clients: int) -> Case:
    """Clients over a router CPU and two exponential sessions in a row: exact mean-value analysis."""
    think, demands = 2.0, [0.3, 1.0, 0.6]
    throughput, response = mean_value_analysis(clients, think, demands)

    def brought(streams: Streams, n: int) -> Work:
        draws = [streams.generator(f"d{k}").exponential(d, size=n) for k, d in enumerate(demands)]
        return work(draws[0], draws[1:], 1.0)

    def simulated(effort: Effort) -> dict[str, list[float]]:
        made = runs(
            chain(stages=2, cpu_workers=1),
            effort,
            brought,
            lambda streams, n: ClosedLoop(clients, streams.generator("arrivals").exponential(think, size=n)),
        )
        kept = slice(effort.skip, effort.requests - clients)
        spans = [float(run.arrived[kept][-1] - run.arrived[kept][0]) for run in made]
        return {
            "throughput": [(kept.stop - kept.start - 1) / span for span in spans],
            "mean time": [float(run.latency[kept].mean()) for run in made],
        }

    name = f"closed network, {clients} client{'s' if clients > 1 else ''}"
    exact, within = {"throughput": throughput, "mean time": response}, {"throughput": 0.02, "mean time": 0.04}
    return Case(name, exact, within, 30_000, 16, simulated)


def _lock_in_order() -> Case:
    """Two inferences of a request, one lock, first come first served: M/G/1 whose service is the sum of both."""
    rho, each = 0.7, 0.5

    def brought(streams: Streams, n: int) -> Work:
        times = [streams.generator(f"service{k}").exponential(each, size=n) for k in range(2)]
        return work(np.zeros(n), times, 0.01)

    def simulated(effort: Effort) -> dict[str, list[float]]:
        return {"mean time": mean_sojourn(runs(locked("fifo"), effort, brought, poisson(rho)), effort)}

    second = 2 * each**2 + (2 * each) ** 2  # variance of the sum plus the square of its mean
    exact = {"mean time": 2 * each + rho * second / (2 * (1 - rho))}
    return Case(f"lock domain in order, load {rho}", exact, {"mean time": 0.05}, 40_000, 12, simulated)


def _lock_at_random() -> Case:
    """One of two inferences a request, one lock that picks at random: the mean wait of M/M/1, whatever the order."""
    rho = 0.7

    def brought(streams: Streams, n: int) -> Work:
        first = streams.generator("which").random(n) < 0.5
        times = [streams.generator(f"service{k}").exponential(size=n) for k in range(2)]
        return work(np.zeros(n), times, 0.01, np.column_stack([first, ~first]))

    def simulated(effort: Effort) -> dict[str, list[float]]:
        return {"mean time": mean_sojourn(runs(locked("random"), effort, brought, poisson(rho)), effort)}

    return Case(
        f"lock domain at random, load {rho}", {"mean time": 1 / (1 - rho)}, {"mean time": 0.06}, 40_000, 12, simulated
    )


def _room(servers: int, room: int, offered: float) -> Case:
    """At most `room` requests inside, the others refused: M/M/c/K."""

    def simulated(effort: Effort) -> dict[str, list[float]]:
        made = open_runs(chain(sessions=servers, max_in_flight=room), offered, exponential, 1 / servers, effort)
        return {"turned away": turned_away(made, effort), "mean time": mean_sojourn(made, effort)}

    away, time = room_limited(servers, room, offered)
    exact, within = {"turned away": away, "mean time": time}, {"turned away": 0.05, "mean time": 0.03}
    name = f"M/M/{servers}, room for {room}, load {offered / servers:g}"
    return Case(name, exact, within, 20_000, 12, simulated)
