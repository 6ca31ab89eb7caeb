"""The scenario file, `simcap.scenario/1`: router, signals, requests, arrivals, load, SLO, measurement.

Enters: YAML through `scenarios.loader`. Leaves: frozen models. Times that people read are in `_ms`; the rest is seconds.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import Strict, nearest, problem_at
from scenarios.arrivals import LOAD_OF_PROCESS, Arrivals, Load, Trace
from scenarios.node import (
    Cache,
    Limits,
    LockDomain,
    Name,
    Node,
    Positive,
    Replicas,
    Router,
    Signal,
    Stage,
)
from scenarios.workload import FromTrace, TokenLaw


class RequestClass(Strict):
    """A kind of request. `weight`: its share (all sum to 1). `signals`: `all`, or those that it needs.

    Where a trace has a class column (`arrivals.columns.class`) the trace says which class comes when, and no class has
    a weight.
    """

    weight: Annotated[float, Field(gt=0, le=1)] | None = None
    tokens: TokenLaw
    signals: Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all"


class Slo(Strict):
    """The promise: at least `attainment` of all requests (failed ones included) answered within `latency_ms`."""

    latency_ms: Positive
    attainment: Annotated[float, Field(gt=0, lt=1)] = 0.99

    @property
    def latency_s(self) -> float:
        return self.latency_ms / 1000


class Measurement(Strict):
    """`requests` a replication, warm-up included; every figure has a 95 % interval over `replications`.

    `duration_s` instead makes each replication as long as it says at every load: requests = rate * duration. `warmup`:
    removed by the MSER-5 rule, or kept where the start is what the scenario asks about (a cold start, a crash).
    `precision`: each load point goes on beyond `replications` (10 at least) until the half width of the interval of its
    latency at the SLO's attainment level is at most this share of it, or until `max_replications` (else ten times as many).
    """

    requests: Annotated[int, Field(ge=100, le=100_000_000)] = 20_000
    duration_s: Positive | None = None
    replications: Annotated[int, Field(ge=5, le=10_000)] = 5
    precision: Annotated[float, Field(ge=0.001, le=0.5)] | None = None
    max_replications: Annotated[int, Field(ge=10, le=10_000)] | None = None
    warmup: Literal["mser5", "keep"] = "mser5"

    @model_validator(mode="after")
    def _stops(self) -> Self:
        if self.max_replications is None:
            return self
        if self.precision is None:
            raise problem_at(["max_replications"], "goes with precision: without it all replications are run")
        if self.max_replications < self.replications:
            raise problem_at(
                ["max_replications"], f"is less than replications, {self.replications}: give as many or more"
            )
        return self

    @property
    def most_replications(self) -> int:
        """As many as a load point has where no interval is narrow enough."""
        if self.precision is None:
            return self.replications
        return 10 * self.replications if self.max_replications is None else self.max_replications


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
    stages: Annotated[tuple[Annotated[tuple[str, ...], Field(min_length=1)] | Stage, ...], Field(min_length=1)]
    cache: Cache | None = None
    replicas: Replicas = Replicas()
    limits: Limits = Limits()
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
            raise problem_at(
                ["load"], f"arrivals.process {self.arrivals.process!r} takes load.{wanted}, found load.{self.load.kind}"
            )
        if self.measurement.duration_s is not None and self.load.kind != "rps":
            raise problem_at(
                ["measurement", "duration_s"], f"goes with load.rps, found load.{self.load.kind}; give requests"
            )
        return self

    def _check_signals(self) -> None:
        for name, signal in self.signals.items():
            if signal.lock_domain is not None and signal.lock_domain not in self.lock_domains:
                raise problem_at(
                    ["signals", name, "lock_domain"],
                    f"{signal.lock_domain!r} is not in lock_domains; {nearest(signal.lock_domain, self.lock_domains)}",
                )
        staged = [name for stage in self.walk for name in stage.signals]
        for i, stage in enumerate(self.walk):
            for name in stage.signals:
                if name not in self.signals:
                    raise problem_at(["stages", i], f"{name!r} is not in signals; {nearest(name, self.signals)}")
                if staged.count(name) > 1:
                    raise problem_at(["stages", i], f"{name!r} stands twice in stages; a signal runs once a request")
        for name in self.signals:
            if name not in staged:
                raise problem_at(["signals", name], "this signal is in no stage; add it to one or remove it")
        for k, number in enumerate(self.cache.skips_stages if self.cache else ()):
            if number >= len(self.stages):
                raise problem_at(
                    ["cache", "skips_stages", k],
                    f"there is no stage {number}; {len(self.stages)} stages are numbered from 0",
                )

    @property
    def walk(self) -> tuple[Stage, ...]:
        """The stages in order; a plain list of signals is a stage that every request runs."""
        return tuple(stage if isinstance(stage, Stage) else Stage(signals=stage) for stage in self.stages)

    def _check_classes(self) -> None:
        for name, kind in self.classes.items():
            for wanted in () if kind.signals == "all" else kind.signals:
                if wanted not in self.signals:
                    raise problem_at(
                        ["classes", name, "signals"], f"{wanted!r} is not in signals; {nearest(wanted, self.signals)}"
                    )
        self._check_weights()

    def _check_weights(self) -> None:
        trace = self.arrivals if isinstance(self.arrivals, Trace) else None
        from_trace = trace is not None and trace.columns.kind is not None
        for name, kind in self.classes.items():
            if from_trace and kind.weight is not None:
                raise problem_at(["classes", name, "weight"], "the trace's class column decides; remove the weight")
            if not from_trace and kind.weight is None:
                raise problem_at(["classes", name], "weight is missing: the share of requests of this class")
            if trace is None and isinstance(kind.tokens, FromTrace):
                raise problem_at(["classes", name, "tokens"], "law trace needs arrivals.process trace")
        for value, target in (trace.classes if trace else {}).items():
            if target not in self.classes:
                raise problem_at(
                    ["arrivals", "classes", value], f"{target!r}: no such class; {nearest(target, self.classes)}"
                )
        total = sum(kind.weight or 0.0 for kind in self.classes.values())
        if not from_trace and abs(total - 1) > 1e-6:
            raise problem_at(["classes"], f"the weights of classes sum to {total:g}; they must sum to 1")
