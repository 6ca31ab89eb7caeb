"""The scenario file, `simcap.scenario/1`: router, signals, requests, arrivals, load, SLO, measurement.

Enters: YAML through `scenarios.loader`. Leaves: frozen models. Times that people read are in `_ms`; the rest is seconds.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import Strict, nearest
from profiles.schema import PROVIDER_DEVICE, ProviderName
from scenarios.workload import TokenLaw, Tokens

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class Node(Strict):
    """The router node. `cpu_workers`: requests whose router work can run at the same time."""

    cpu_workers: Count


class RouterCpu(Strict):
    """Router CPU seconds a request: base_s + per_token_s * tokens. Given here it is an input of yours (`assumed`)."""

    base_s: NonNegative
    per_token_s: NonNegative = 0.0


class Router(Strict):
    """`cpu`: `from_profile`, or your own figures."""

    cpu: Literal["from_profile"] | RouterCpu


class LockDomain(Strict):
    """A mutex that several sessions share. `order`: who gets it next, the longest waiting or anyone."""

    order: Literal["fifo", "random"] = "fifo"


class Signal(Strict):
    """One learned signal: which model answers it and under which limits.

    `sessions`: loaded instances of the model. `lock_domain`: a key of `lock_domains`, or none.
    `max_tokens`: longer text is truncated to it. `buckets`: text is padded up to the next of these lengths, as fixed
    shapes need; a text longer than the last bucket is truncated to it.
    """

    model: str
    artifact: str
    provider: ProviderName
    sessions: Count = 1
    lock_domain: str | None = None
    max_tokens: Tokens | None = None
    buckets: Annotated[tuple[Tokens, ...], Field(min_length=1)] | None = None
    cadence: Literal["tight", "paced"] | None = None

    @model_validator(mode="after")
    def _buckets_increase(self) -> Self:
        if self.buckets and list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"buckets must increase, found {list(self.buckets)}")
        return self

    @property
    def device(self) -> Literal["gpu", "cpu"]:
        return PROVIDER_DEVICE[self.provider]

    def processed_range(self, lo: int, hi: int) -> tuple[int, int]:
        """Smallest and largest token count that an inference sees for texts of lo to hi tokens."""
        cap = min(self.max_tokens or hi, self.buckets[-1] if self.buckets else hi)
        lo, hi = min(lo, cap), min(hi, cap)
        if self.buckets:
            lo, hi = (next(b for b in self.buckets if b >= t) for t in (lo, hi))
        return lo, hi


class RequestClass(Strict):
    """A kind of request. `weight`: its share (all sum to 1). `signals`: `all`, or those that it needs."""

    weight: Annotated[float, Field(gt=0, le=1)]
    tokens: TokenLaw
    signals: Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all"


class Poisson(Strict):
    """Independent arrivals at the offered rate."""

    process: Literal["poisson"]


class Burst(Strict):
    """`burst_size` requests at one instant; the next burst `gap_s` after the last answer of the one before.

    A replication is `bursts` bursts (so `measurement.requests` plays no part); one burst a replication gives the
    percentiles that a load test of a single burst reports.
    """

    process: Literal["burst"]
    bursts: Count = 1
    gap_s: NonNegative = 0.0


class Closed(Strict):
    """N clients; each thinks (exponential, mean `think_time_s`; 0 means not at all), asks, and waits for the answer."""

    process: Literal["closed"]
    think_time_s: NonNegative


Arrivals = Annotated[Poisson | Burst | Closed, Field(discriminator="process")]

LOAD_OF_PROCESS = {"poisson": "rps", "burst": "burst_size", "closed": "clients"}


class Load(Strict):
    """The load points. Exactly one key, the one that the arrival process takes."""

    rps: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    burst_size: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    clients: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in LOAD_OF_PROCESS.values() if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of rps, burst_size, clients; found {', '.join(given) or 'none'}")
        points = list(getattr(self, given[0]))
        if points != sorted(set(points)):
            raise ValueError(f"load points must increase without repeats, found {points}")
        return self

    @property
    def kind(self) -> Literal["rps", "burst_size", "clients"]:
        return "rps" if self.rps else "burst_size" if self.burst_size else "clients"

    @property
    def points(self) -> tuple[float, ...]:
        return tuple(self.rps or self.burst_size or self.clients or ())


class Slo(Strict):
    """The promise: at least `attainment` of all requests (failed ones included) answered within `latency_ms`."""

    latency_ms: Positive
    attainment: Annotated[float, Field(gt=0, lt=1)] = 0.99

    @property
    def latency_s(self) -> float:
        return self.latency_ms / 1000


class Measurement(Strict):
    """`requests` a replication, warm-up included; every figure has a 95 % interval over `replications`."""

    requests: Annotated[int, Field(ge=100, le=100_000_000)] = 20_000
    replications: Annotated[int, Field(ge=5, le=10_000)] = 5


class Scenario(Strict):
    """The whole file. `profile`: a shipped profile's name or a path; none means that `--profile` must say."""

    schema_version: Literal["simcap.scenario/1"] = Field(alias="schema")
    name: Name
    question: str
    profile: str | None = None
    node: Node
    router: Router
    lock_domains: dict[Name, LockDomain] = {}
    signals: Annotated[dict[Name, Signal], Field(min_length=1)]
    stages: Annotated[tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...], Field(min_length=1)]
    classes: Annotated[dict[Name, RequestClass], Field(min_length=1)]
    arrivals: Arrivals
    load: Load
    slo: Slo
    measurement: Measurement = Measurement()

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        self._check_signals()
        self._check_classes()
        wanted = LOAD_OF_PROCESS[self.arrivals.process]
        if self.load.kind != wanted:
            raise ValueError(
                f"arrivals.process {self.arrivals.process!r} takes load.{wanted}, found load.{self.load.kind}"
            )
        return self

    def _check_signals(self) -> None:
        for name, signal in self.signals.items():
            if signal.lock_domain is not None and signal.lock_domain not in self.lock_domains:
                raise ValueError(
                    f"signals.{name}.lock_domain {signal.lock_domain!r} is not in lock_domains; "
                    f"{nearest(signal.lock_domain, self.lock_domains)}"
                )
        staged = [name for stage in self.stages for name in stage]
        for name in staged:
            if name not in self.signals:
                raise ValueError(f"stages names {name!r}, which is not in signals; {nearest(name, self.signals)}")
            if staged.count(name) > 1:
                raise ValueError(f"stages names {name!r} twice; a signal runs once a request")
        for name in self.signals:
            if name not in staged:
                raise ValueError(f"signal {name!r} is in no stage; add it to one or remove it")

    def _check_classes(self) -> None:
        for name, kind in self.classes.items():
            for wanted in () if kind.signals == "all" else kind.signals:
                if wanted not in self.signals:
                    raise ValueError(f"classes.{name}.signals names {wanted!r}; {nearest(wanted, self.signals)}")
        total = sum(kind.weight for kind in self.classes.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the weights of classes sum to {total:g}; they must sum to 1")
