"""Which loads are played, and with which requests: the very ones that the simulator draws.

Enters: scenario, profile (for lengths of runs only), seed and run. Leaves: `Point`s, and for each the `Work` and the times
that both the live host and the simulator get. Closed points come first: the throughput of the largest is the saturation,
of which the open points are shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrate.live import Load
from profiles.schema import Profile
from scenarios.arrivals import Closed, Gamma, Mmpp, Poisson, Spike, TimeVarying
from scenarios.schema import Scenario
from sim.arrivals import Arrivals, ClosedLoop, OpenLoop, arrival_times
from sim.streams import Streams
from sim.work import Work, draw_work

LEAST_REQUESTS = 100


@dataclass(frozen=True)
class Point:
    """closed: `clients` clients. open: arrivals at `share` of the measured saturation, `rps` requests a second."""

    loop: Literal["closed", "open"]
    clients: int = 0
    share: float = 0.0
    rps: float = 0.0

    @property
    def key(self) -> str:
        return f"closed-{self.clients}" if self.loop == "closed" else f"open-{100 * self.share:.0f}"

    @property
    def label(self) -> str:
        if self.loop == "closed":
            return f"closed, {self.clients} client{'s' if self.clients > 1 else ''}"
        return f"open, {100 * self.share:.0f} % load"


@dataclass(frozen=True)
class Requests:
    """n requests of one point of one run, for the host and for the simulator. `think_s`: of a closed loop."""

    work: Work
    times_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    clients: int

    @property
    def load(self) -> Load:
        assert self.work.processed is not None  # noqa: S101 - `draw_work` always has it
        return Load(self.work.needed, self.work.processed, self.times_s, self.clients)

    def arrivals(self) -> Arrivals:
        return ClosedLoop(self.clients, self.times_s) if self.clients else OpenLoop(self.times_s)


def requests_for(
    scenario: Scenario, profile: Profile, point: Point, seed: int, run: int, *, seconds: float, parallel: int
) -> Requests:
    """As many as keep the node busy for about `seconds`. parallel: inferences that run at full speed at once."""
    streams = Streams(seed, run)
    pilot = draw_work(scenario, profile, streams, LEAST_REQUESTS)
    capacity = parallel / float(
        np.where(pilot.needed, pilot.service_s[:, : pilot.needed.shape[1]], 0).sum(axis=1).mean()
    )
    rate = point.rps if point.loop == "open" else capacity * min(1.0, (1 + point.clients) / (1 + parallel))
    n = max(round(seconds * rate), LEAST_REQUESTS)
    return Requests(draw_work(scenario, profile, streams, n), times_of(scenario, point, n, streams), point.clients)


def times_of(
    scenario: Scenario, point: Point, n: int, streams: Streams
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Thinking times of a closed point (the scenario's where it has clients, else none), arrivals of an open one (by the
    scenario's process where it has a rate, else Poisson).
    """
    process = scenario.arrivals
    if point.loop == "closed":
        think = process.think_time_s if isinstance(process, Closed) else 0.0
        return np.asarray(streams.generator("arrivals").exponential(size=n) * think)
    rated = process if isinstance(process, Poisson | Gamma | Mmpp | TimeVarying | Spike) else Poisson(process="poisson")
    return arrival_times(rated, point.rps, n, streams)
