"""When requests arrive and at which loads: the `arrivals` and `load` part of a scenario.

Enters: the YAML mappings `arrivals` and `load`. Leaves: frozen models. Rates are requests a second, times seconds of
simulated time. `load.rps` is the long-run mean rate of every process that takes it; what a process changes is how
arrivals lie about that mean. Shapes and durations (holding times, a day, a spike) are in real time: they do not shrink
when the load grows. docs/explanation/workloads.md has the formulas.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from profiles.document import Strict
from scenarios.node import Count, NonNegative, Positive

LoadKind = Literal["rps", "burst_size", "clients", "rate_scale"]

LOAD_OF_PROCESS: dict[str, LoadKind] = {
    "poisson": "rps",
    "gamma": "rps",
    "mmpp": "rps",
    "time_varying": "rps",
    "spike": "rps",
    "trace": "rate_scale",
    "burst": "burst_size",
    "closed": "clients",
}


class Process(Strict):
    """What all processes share. `steady`: arrivals have one law for ever, so there is a warm-up that ends, and a queue
    that still grows at the end is saturated. Without it a run is a story with an end: all of it is measured.
    """

    steady: ClassVar[bool] = True


class Poisson(Process):
    """Independent arrivals at the offered rate."""

    process: Literal["poisson"]


class Gamma(Process):
    """Independent gaps with a gamma law. `cv`: standard deviation over mean of a gap; 1 is Poisson, above 1 clusters."""

    process: Literal["gamma"]
    cv: Annotated[float, Field(gt=0, le=20)]


class MmppState(Strict):
    """`rate`: relative to the other states; 0 is silence. `holding_s`: mean stay (exponential), seconds of real time."""

    rate: NonNegative
    holding_s: Positive


class Mmpp(Process):
    """Markov-modulated Poisson: the rate jumps between states, each kept for an exponential time.

    `transitions[i][j]`: probability that state j follows state i (zero on the diagonal, rows sum to 1). With two states
    they follow each other and it is left out. A run starts in a state drawn by its share of time.
    """

    process: Literal["mmpp"]
    states: Annotated[tuple[MmppState, ...], Field(min_length=2, max_length=100)]
    transitions: tuple[tuple[Annotated[float, Field(ge=0, le=1)], ...], ...] | None = None

    @model_validator(mode="after")
    def _is_chain(self) -> Self:
        count = len(self.states)
        if self.transitions is None and count > 2:
            raise ValueError(f"{count} states need transitions: a row of {count} probabilities for each state")
        if not any(state.rate for state in self.states):
            raise ValueError("every state has rate 0; at least one must let requests arrive")
        for i, row in enumerate(self.transitions or ()):
            if len(row) != count or abs(sum(row) - 1) > 1e-6 or row[i] != 0:
                raise ValueError(f"transitions[{i}] must be {count} probabilities that sum to 1, with 0 at place {i}")
        if self.transitions is not None and len(self.transitions) != count:
            raise ValueError(f"{len(self.transitions)} rows of transitions for {count} states; give one for each")
        if not np.all(np.linalg.matrix_power(np.eye(count) + self.chain(), count) > 0):
            raise ValueError("some state can never be reached from some other; every state must lead to all")
        return self

    def chain(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """(K, K) probabilities of the next state."""
        return np.array(self.transitions or ((0.0, 1.0), (1.0, 0.0)), dtype=float)

    def shares(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """(K,) long-run share of time in each state: visits times mean stay."""
        count = len(self.states)
        equations = np.vstack([self.chain().T - np.eye(count), np.ones(count)])
        visits = np.linalg.lstsq(equations, np.append(np.zeros(count), 1.0), rcond=None)[0]
        stays = visits * np.array([state.holding_s for state in self.states])
        return np.asarray(stays / stays.sum())


class TimeVarying(Process):
    """Poisson with a rate that follows `points` of [time_s, relative rate], straight lines in between, over and over.

    The first time is 0, the last is the period (86400 for a day). Two points at one time are a jump.
    """

    process: Literal["time_varying"]
    points: Annotated[tuple[tuple[NonNegative, NonNegative], ...], Field(min_length=2, max_length=100_000)]
    steady: ClassVar[bool] = False

    @model_validator(mode="after")
    def _is_profile(self) -> Self:
        times, rates = zip(*self.points, strict=True)
        if times[0] != 0 or times[-1] <= 0 or any(b < a for a, b in pairwise(times)):
            raise ValueError("times must start at 0, not decrease, and end at the period")
        if not any(dt > 0 and a + b > 0 for dt, a, b in zip(np.diff(times), rates, rates[1:], strict=False)):
            raise ValueError("the rate is 0 all the time; it must be above 0 somewhere")
        return self


class Spike(Process):
    """Poisson at a base rate, `factor` times as much from `at_s` for `duration_s`.

    With `every_s` the spike returns each that many seconds, and `load.rps` is the mean rate of a whole cycle. Without it
    there is one spike, and `load.rps` is the base rate before and after (which is the long-run mean, too).
    """

    process: Literal["spike"]
    factor: NonNegative
    at_s: NonNegative
    duration_s: Positive
    every_s: Positive | None = None
    steady: ClassVar[bool] = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.every_s is not None and self.at_s + self.duration_s > self.every_s:
            raise ValueError(
                f"the spike ends {self.at_s + self.duration_s:g} s into a cycle of every_s {self.every_s:g}; it must fit"
            )
        if self.every_s == self.duration_s and self.factor == 0:
            raise ValueError("factor 0 all the time: no request would ever arrive")
        return self


class Columns(Strict):
    """Names of the columns (CSV) or keys (JSONL) to read; what is left out is found by the known formats."""

    timestamp: str | None = None
    tokens: str | None = None
    kind: str | None = Field(default=None, alias="class")


class Trace(Process):
    """A log replayed with its own timestamps, divided by `load.rate_scale`.

    `path`: CSV or JSONL, plain or gzip; relative to the scenario file. `columns`: for logs that fleet-sim does not know.
    `classes`: value of the class column -> request class, for values that are not class names already. `time_unit`: of
    timestamps that are numbers. `sort`: order by time first (reads the whole file). `on_bad_line`: `refuse` the file or
    `skip` the line and say how many.
    """

    process: Literal["trace"]
    path: Annotated[str, Field(min_length=1)]
    columns: Columns = Columns()
    classes: dict[str, str] = {}
    time_unit: Literal["s", "ms", "us", "ns"] = "s"
    sort: bool = False
    on_bad_line: Literal["refuse", "skip"] = "refuse"
    steady: ClassVar[bool] = False

    @model_validator(mode="after")
    def _mapped(self) -> Self:
        if self.classes and self.columns.kind is None:
            raise ValueError("classes maps the values of a class column; name that column in columns.class")
        return self


class Burst(Process):
    """`burst_size` requests at one instant; the next burst `gap_s` after the last answer of the one before.

    A replication is `bursts` bursts (so `measurement.requests` plays no part); one burst a replication gives the
    percentiles that a load test of a single burst reports.
    """

    process: Literal["burst"]
    bursts: Count = 1
    gap_s: NonNegative = 0.0
    steady: ClassVar[bool] = False


class Closed(Process):
    """N clients; each thinks (exponential, mean `think_time_s`; 0 means not at all), asks, and waits for the answer."""

    process: Literal["closed"]
    think_time_s: NonNegative


Arrivals = Annotated[
    Poisson | Gamma | Mmpp | TimeVarying | Spike | Trace | Burst | Closed, Field(discriminator="process")
]


class Load(Strict):
    """The load points. Exactly one key, the one that the arrival process takes.

    `rps`: mean requests a second. `rate_scale`: a trace's clock runs that many times as fast. `burst_size`: requests at
    one instant. `clients`: of a closed loop.
    """

    rps: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    rate_scale: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    burst_size: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    clients: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            valid = ", ".join(type(self).model_fields)
            raise ValueError(f"give exactly one of {valid}; found {', '.join(given) or 'none'}")
        if list(self.points) != sorted(set(self.points)):
            raise ValueError(f"load points must increase without repeats, found {list(self.points)}")
        return self

    @property
    def kind(self) -> LoadKind:
        kinds: tuple[LoadKind, ...] = ("rps", "rate_scale", "burst_size", "clients")
        return next(kind for kind in kinds if getattr(self, kind) is not None)

    @property
    def points(self) -> tuple[float, ...]:
        return tuple(getattr(self, self.kind))
