"""The answer of a comparison, `simcap.comparison/1`: variants, and each later one against the first.

Everything that a table, a page or a program needs stands here. Latencies in seconds, rates in requests a second, shares 0
to 1, loads in the unit of their kind.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiles.document import Strict
from scenarios.arrivals import LoadKind
from sim.result import Capacity, Interval, Result, Slo
from sim.result import Verdict as PointVerdict
from simcap.report import words

CAPACITY = "capacity"
SHARES = frozenset({"slo_attainment"})

Verdict = Literal["different", "unclear", "none found", "same", "unknown"]


class Difference(Strict):
    """One figure of one variant against the first variant's. `load` is None for capacity.

    `first`, `other`: means. `change` with `lo` and `hi`: relative (0.05 is 5 % more), for shares the difference itself.
    None where a figure has no end or no spread is known; `why` says so. `p`: probability of so large a change by chance.
    """

    figure: str
    load: float | None
    first: float | None
    other: float | None
    change: float | None
    lo: float | None
    hi: float | None
    p: float | None
    verdict: Verdict
    why: str | None = None


class Against(Strict):
    """All differences of one variant against the first."""

    name: str
    differences: tuple[Difference, ...]

    @property
    def capacity(self) -> Difference:
        return next(d for d in self.differences if d.figure == CAPACITY)


class CurvePoint(Strict):
    """One load of one variant. `slo_percentile_s`: the latency at the SLO's own attainment level."""

    load: float
    throughput_rps: Interval
    latency_s: dict[str, Interval]
    slo_percentile_s: Interval
    slo_attainment: Interval
    verdict: PointVerdict
    bottleneck: str
    replications: int


class Variant(Strict):
    """One of the things compared. `settings`: its values of `--vary`.

    `capacity`: mean and 95 % interval over replications of the load at which each breaks the promise, empty where
    they do not all say one (finished runs never do); `bracket`: the loads between which it lies.
    """

    name: str
    scenario: str
    profile: str
    settings: dict[str, str]
    slo: Slo
    capacity: Interval
    bracket: Capacity
    breaks_first: str
    points: tuple[CurvePoint, ...]


class Comparison(Strict):
    """The whole answer. `method` says how the intervals were made.

    `capacity_level`: confidence of each interval of the change of capacity, 1 - 0.05 / K for K later variants, so that
    all K hold together in 95 of 100 comparisons (Bonferroni). Of the other figures each interval is at 95 % by itself.
    """

    schema_version: Literal["simcap.comparison/1"] = Field(alias="schema", default="simcap.comparison/1")
    first: str
    load_kind: LoadKind
    loads: tuple[float, ...]
    method: Literal["paired", "unpaired"]
    capacity_level: float
    seed: int | None = None
    command: str | None = None
    variants: tuple[Variant, ...] = ()
    others: tuple[Against, ...]
    notes: tuple[str, ...]


def variant_of(name: str, result: Result, capacity: Interval, settings: dict[str, str] | None = None) -> Variant:
    """A variant as the answer holds it."""
    return Variant(
        name=name,
        scenario=result.scenario,
        profile=result.profile,
        settings=settings or {},
        slo=result.slo,
        capacity=capacity,
        bracket=result.capacity,
        breaks_first=words.breaks_first(result),
        points=tuple(
            CurvePoint(
                load=point.load,
                throughput_rps=point.throughput_rps,
                latency_s=point.latency_s,
                slo_percentile_s=point.slo_percentile_s,
                slo_attainment=point.slo_attainment,
                verdict=point.verdict,
                bottleneck=point.bottleneck,
                replications=point.replications,
            )
            for point in result.points
        ),
    )
