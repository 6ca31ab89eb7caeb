"""The node half of a scenario: router, signals and their sessions, memory, compile, co-tenants, replicas, faults.

Enters: the YAML mappings of those keys. Leaves: frozen models. What is left out is either not simulated (and the result
says so) or has the plain meaning that the docstring states.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import Strict
from profiles.entry import PROVIDER_DEVICE, ProviderName
from scenarios.workload import Tokens

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Bytes = Annotated[int, Field(ge=1)]

PARTITION_DEVICES = {"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8}
"""Devices that one MI300X shows in each compute partition mode (ROCm documentation; see docs/explanation/node.md)."""


class Timeline(Strict):
    """A value that changes in steps: `points` of [time_s, value], the first at 0, times increasing."""

    points: Annotated[tuple[tuple[NonNegative, NonNegative], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _from_zero(self) -> Self:
        times = [t for t, _ in self.points]
        if times[0] != 0 or any(b <= a for a, b in pairwise(times)):
            raise ValueError(f"times must start at 0 and increase, found {times}")
        return self


class CoTenant(Strict):
    """Somebody else on the GPU, such as an LLM server: bytes that it holds and the share of compute that it takes."""

    name: Name
    memory_bytes: Annotated[int, Field(ge=0)] | Timeline = 0
    compute: Annotated[float, Field(ge=0, lt=1)] | Timeline = 0.0

    @model_validator(mode="after")
    def _leaves_some(self) -> Self:
        if isinstance(self.compute, Timeline) and any(share >= 1 for _, share in self.compute.points):
            raise ValueError("compute must stay below 1: a co-tenant that takes the whole device leaves no answer")
        return self


class Arena(Strict):
    """The session's memory arena. `growth`: what a request for more is rounded to. `shrink`: when it gives back."""

    growth: Literal["next_power_of_two", "same_as_requested"]
    shrink: Literal["never", "after_run"] = "never"


class Memory(Strict):
    """Device memory. Left out of a scenario, memory is not simulated and the result says so.

    `capacity_bytes`: none takes the profile's device. `session_cap`: `router_default` is free * 0.95 / sessions as the
    router computes it at start; or bytes; or none. `out_of_memory`: what an allocation that does not fit leads to.
    """

    capacity_bytes: Bytes | None = None
    session_cap: Literal["router_default"] | Bytes | None = None
    arena: Arena
    out_of_memory: Literal["fail", "fall_back", "evict_lru", "wait"]
    watermark: Annotated[float, Field(gt=0, le=1)] = 0.9


class Node(Strict):
    """One router node. `cpu_workers`: requests whose router work can run at the same time.

    `gpus`: GPUs of the node; sessions are placed on its devices in turn. `partition`: compute partition of an MI300X,
    each device then has its share of compute and memory.
    """

    cpu_workers: Count
    gpus: Count = 1
    partition: Literal["SPX", "DPX", "QPX", "CPX"] = "SPX"
    co_tenants: tuple[CoTenant, ...] = ()
    memory: Memory | None = None

    @property
    def gpu_devices(self) -> int:
        return self.gpus * PARTITION_DEVICES[self.partition]


class RouterCpu(Strict):
    """Router CPU seconds a request: base_s + per_token_s * tokens. Given here it is an input of yours (`assumed`)."""

    base_s: NonNegative
    per_token_s: NonNegative = 0.0


class Router(Strict):
    """`cpu`: `from_profile`, or your own figures. `on_signal_failure`: fail the request, or answer without the signal."""

    cpu: Literal["from_profile"] | RouterCpu
    on_signal_failure: Literal["fail", "answer_without"] = "fail"


class LockDomain(Strict):
    """A mutex that several sessions share, or a pool. `order`: who gets it next, the longest waiting or anyone.

    `width`: how many inferences it lets through at once. 1 is a mutex; a router that runs inferences on a pool of N
    worker threads is one domain of width N over all its signals.
    """

    order: Literal["fifo", "random"] = "fifo"
    width: Count = 1


class Compile(Strict):
    """How a session of a provider that compiles per shape gets its programs. Left out, all are ready from the start.

    `programs`: one program a session (ONNX Runtime's MIGraphX provider up to 2026) or a map of them by shape.
    `disk_cache`: none; cold (starts empty, filled by compiles); warm (holds every shape from the start).
    `cold_shape`: compile inside the request; pad to the next larger shape that is ready; or fall back to the next
    provider while the compile runs beside it. `warmup_tokens`: shapes compiled before traffic starts.
    `cached_load_s`: seconds to load a cached program, an assumption of yours where the profile has no figure.
    """

    programs: Literal["one", "map"]
    disk_cache: Literal["none", "cold", "warm"]
    cold_shape: Literal["wait", "pad", "fall_back"] = "wait"
    warmup_tokens: tuple[Tokens, ...] = ()
    cached_load_s: NonNegative | None = None


class Choice(Strict):
    """One step of a signal's provider order. `available: false` records a step down and moves on.

    `failure_probability`: share of inferences that fail on this provider, found out when they would have ended.
    """

    artifact: str
    provider: ProviderName
    available: bool = True
    failure_probability: Share = 0.0
    compile: Compile | None = None
    cadence: Literal["tight", "paced"] | None = None

    @property
    def device(self) -> Literal["gpu", "cpu"]:
        return PROVIDER_DEVICE[self.provider]


class Windows(Strict):
    """Text longer than `tokens` is cut into windows of exactly `tokens` that overlap by at least `overlap`.

    They run one after another on the same session; the last window ends at the end of the text.
    """

    tokens: Tokens
    overlap: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _advances(self) -> Self:
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap {self.overlap} must be below the window's {self.tokens} tokens")
        return self


class Batching(Strict):
    """Dynamic batching in a session: up to `max_batch` waiting requests run together, padded to the longest.

    A session that is free waits up to `max_delay_ms` from its first waiting request for a batch to fill.
    """

    max_batch: Count
    max_delay_ms: NonNegative


class Signal(Choice):
    """One learned signal: which model answers it and under which limits. The inherited keys are its first provider.

    `fallbacks`: the rest of the provider order, each with its own sessions. `sessions`: loaded instances of the model.
    `lock_domain`: a key of `lock_domains`, or none. `max_tokens`: longer text is truncated to it. `buckets`: text is
    padded up to the next of these lengths, as fixed shapes need; longer text is truncated to the last one.
    `exclusive`: each session has a device to itself. `queue_limit`: waiting requests beyond it are refused.
    """

    model: str
    fallbacks: tuple[Choice, ...] = ()
    sessions: Count = 1
    exclusive: bool = False
    lock_domain: str | None = None
    max_tokens: Tokens | None = None
    windows: Windows | None = None
    buckets: Annotated[tuple[Tokens, ...], Field(min_length=1)] | None = None
    batching: Batching | None = None
    queue_limit: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.buckets and list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"buckets must increase, found {list(self.buckets)}")
        if self.batching and self.lock_domain:
            raise ValueError(
                "batching needs waiting requests at the session, and lock_domain lets one through at a time; drop one"
            )
        if self.batching and (self.windows or self.fallbacks or self.compile):
            raise ValueError("batching together with windows, fallbacks or compile is not simulated; drop one")
        seen = [(c.artifact, c.provider) for c in self.choices]
        if len(set(seen)) != len(seen):
            raise ValueError("the provider order names one artifact and provider twice")
        if any(c.compile and c.compile.cold_shape == "fall_back" for c in self.choices[-1:]):
            raise ValueError("compile.cold_shape: fall_back needs a further provider in fallbacks")
        return self

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The provider order, first choice first."""
        return (self, *self.fallbacks)

    def processed_range(self, lo: int, hi: int) -> tuple[int, int]:
        """Smallest and largest token count that an inference sees for texts of lo to hi tokens."""
        cap = self.max_tokens or hi
        if self.windows:
            cap = min(cap, self.windows.tokens)
        if self.buckets:
            cap = min(cap, self.buckets[-1])
        lo, hi = min(lo, cap), min(hi, cap)
        if self.buckets:
            lo, hi = (next(b for b in self.buckets if b >= t) for t in (lo, hi))
        return lo, hi


class Retry(Strict):
    """A failed request is sent again by its client, up to `attempts` times, `backoff_ms` after each failure."""

    attempts: Count
    backoff_ms: NonNegative


class Limits(Strict):
    """`max_in_flight`: requests inside one node; more are refused on arrival. `timeout_ms`: after it a request has failed."""

    max_in_flight: Count | None = None
    timeout_ms: Positive | None = None
    retry: Retry | None = None


class Crash(Strict):
    """A replica goes down: what is in it fails; it is back `down_s` later, its sessions cold or warm."""

    kind: Literal["crash"]
    at_s: NonNegative
    replica: Annotated[int, Field(ge=0)]
    down_s: Positive
    comes_back: Literal["cold", "warm"]


class Join(Strict):
    """A replica that is absent until `at_s`, then joins."""

    kind: Literal["join"]
    at_s: Positive
    replica: Annotated[int, Field(ge=0)]
    comes_back: Literal["cold", "warm"]


class RollingRestart(Strict):
    """From `at_s` each replica in turn stops taking requests, drains, is down for `down_s`, and comes back."""

    kind: Literal["rolling_restart"]
    at_s: NonNegative
    down_s: Positive
    comes_back: Literal["cold", "warm"]


Fault = Annotated[Crash | Join | RollingRestart, Field(discriminator="kind")]


class Replicas(Strict):
    """Equal router nodes behind a balancer.

    `affinity` sends equal token counts (after buckets) to one replica, so that its compile cache stays hot.
    `start`: cold replicas load each session on its first use (seconds from the profile); warm ones are loaded.
    """

    count: Count = 1
    balancer: Literal["round_robin", "random", "least_loaded", "join_shortest_queue", "power_of_two", "affinity"] = (
        "round_robin"
    )
    start: Literal["cold", "warm"] = "warm"
    faults: tuple[Fault, ...] = ()

    @model_validator(mode="after")
    def _known_replicas(self) -> Self:
        for fault in self.faults:
            if not isinstance(fault, RollingRestart) and fault.replica >= self.count:
                raise ValueError(f"a fault names replica {fault.replica}; there are {self.count}, numbered from 0")
        return self


class Cache(Strict):
    """A semantic cache in front: this share of requests hits it and skips these stages (numbered from 0)."""

    hit_probability: Share
    skips_stages: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class Stage(Strict):
    """Signals that run side by side. `probability`: share of requests that run this stage at all."""

    signals: Annotated[tuple[str, ...], Field(min_length=1)]
    probability: Share = 1.0
