"""The result of a run, `simcap.result/1`: what `sim.metrics` and `sim.replicate` make of the records.

Everything a report, a comparison or an export needs stands here; nothing reads records again. Times in seconds.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiles.document import Strict
from profiles.quantity import Origin
from scenarios.arrivals import LoadKind

Verdict = Literal["pass", "fail", "indeterminate"]

TIME_PARTS = (
    "retry",
    "router_queue",
    "router_cpu",
    "lock",
    "session_queue",
    "load",
    "compile",
    "memory",
    "fallback",
    "device_own",
    "device_slowdown",
)
"""Where a request's time goes; along the slowest signal of each stage these add up to its latency exactly."""

LATENCY_STATISTICS = ("mean", "p50", "p90", "p95", "p99")


class Interval(Strict):
    """A figure over replications: its mean and a 95 % Student t interval (None where it could not be computed)."""

    mean: float | None
    lo: float | None
    hi: float | None


class SignalResult(Strict):
    """One signal at one load point. Seconds from the start of its stage to its answer, and the parts of its mean."""

    requests: int
    latency_s: dict[str, Interval]  # mean, p50, p99
    mean_parts_s: dict[str, Interval]  # lock, session_queue, device_own, device_slowdown


class ClassResult(Strict):
    """One request class at one load point."""

    requests: int
    latency_s: dict[str, Interval]  # mean, p50, p99
    slo_attainment: Interval


class Point(Strict):
    """One load point. `utilisation` keys: `router_cpu`, `device:gpu`, `device:cpu`, `lock:<domain>`, `session:<signal>`.

    A failed request counts as endless in percentiles: one that is endless has an empty interval. The mean is over
    answered requests. `vram_peak_bytes`, `compile_stall_s` and `fallback_fraction` are None where the run did not model them.
    `histogram`: counts of latency over `histogram_edges_s` (log-spaced), all replications together.
    """

    load_kind: LoadKind
    load: float
    offered_rps: Interval
    throughput_rps: Interval
    goodput_rps: Interval
    latency_s: dict[str, Interval]
    slo_attainment: Interval
    slo_percentile_s: Interval  # the latency at the SLO's own attainment level
    calibration_share: float | None = None  # of that interval's squared upper half, what calibration makes up
    verdict: Verdict
    saturated: bool
    utilisation: dict[str, Interval]
    queue_wait_p99_s: Interval
    mean_parts_s: dict[str, Interval]  # keys TIME_PARTS
    failed_fraction: Interval
    fallback_fraction: Interval | None
    compile_stall_s: Interval | None
    vram_peak_bytes: float | None
    failures: dict[str, Interval] = {}  # share of requests by reason, those that occurred
    steps_down: dict[str, float] = {}  # `signal:provider:reason` -> mean count a request
    watermark_events: float | None = None  # mean count a replication of memory crossing its watermark
    memory_timeline: tuple[tuple[float, float], ...] = ()  # [seconds, bytes] of the fullest device, first replication
    compile_events: tuple[
        tuple[float, str, int, float], ...
    ] = ()  # [start s, `signal:provider`, tokens, seconds], first replication
    bottleneck: str  # see `sim.why`
    headroom: dict[str, float] = {}  # factor on the load at which each resource is full; {} where sessions stalled
    signals: dict[str, SignalResult]
    classes: dict[str, ClassResult]
    requests_measured: int
    warmup_removed: tuple[int, ...]  # requests removed in each replication
    histogram_edges_s: tuple[float, ...]
    histogram: tuple[int, ...]

    @property
    def replications(self) -> int:
        """Replications that the figures of this load are over."""
        return len(self.warmup_removed)


class Capacity(Strict):
    """The highest load that keeps the SLO lies in [lo, hi): lo is the highest load that passed before any that did not.

    None for lo: no load passed. None for hi: no load failed, so capacity is above the highest load tried.
    """

    load_kind: LoadKind
    lo: float | None
    hi: float | None
    indeterminate: tuple[float, ...]
    sentence: str


class InputOrigin(Strict):
    """Where one input of the run came from, for the reader of the report."""

    what: str
    value: str
    origin: Origin
    source: str | None = None
    url: str | None = None
    doubt: str | None = None


class Narrowing(Strict):
    """One source of the variance of the SLO's percentile at the load nearest to capacity, and what makes it smaller."""

    what: str
    share: float
    measure: str


class Uncertainty(Strict):
    """What the intervals cover. `asked`: of the run. `covers`: full only where the profile states how far it may lie off.

    `runs`: calibration runs behind the profile, 0 where nobody sampled the figures used. `between_runs`: standard deviation, relative, of the machine's speed from run
    to run as a new run will differ from the profile; None where one run cannot tell. `left_out`: inputs whose uncertainty is in
    no interval, because nobody stated it.
    """

    asked: Literal["simulation", "full"]
    covers: Literal["simulation", "full"]
    runs: int = 1
    between_runs: float | None = None
    left_out: tuple[str, ...] = ()
    narrowing: tuple[Narrowing, ...] = ()  # largest first, at `narrowing_load`
    narrowing_load: float | None = None


class Slo(Strict):
    latency_s: float
    attainment: float


class Result(Strict):
    """The whole file."""

    schema_version: Literal["simcap.result/1"] = Field(alias="schema", default="simcap.result/1")
    scenario: str
    question: str
    profile: str
    profile_origins: dict[str, int]  # how many numbers of each origin the used entries hold
    seed: int
    replications: int  # the least that a load point has; with measurement.precision they differ
    requests: int
    slo: Slo
    points: tuple[Point, ...]
    capacity: Capacity
    memory_capacity_bytes: float | None = None  # of one device; None where memory was not simulated
    memory_watermark: float | None = None  # the share of it from which crossings are counted
    uncertainty: Uncertainty | None = None  # None: of a run before there was one, which covers the simulation
    inputs: tuple[InputOrigin, ...]
    notes: tuple[str, ...]
