"""What `simcap capacity` says, `simcap.capacity/1`: the finding, what it rests on, and the sentence for a person.

Enters: `sim.search` findings as plain figures. Leaves: frozen models. Loads are in the unit that `load_kind` names, times
in seconds, attainments and utilisations are shares.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiles.document import Strict
from scenarios.arrivals import LoadKind
from sim.result import InputOrigin, Interval, Slo, Uncertainty, Verdict

Outcome = Literal["found", "saturation", "indeterminate", "unreachable"]

SHORT_UNIT: dict[LoadKind, str] = {
    "rps": "rps",
    "rate_scale": "× the trace's rate",
    "burst_size": "requests in a burst",
    "clients": "clients",
}


class SearchPoint(Strict):
    """One load that was evaluated: its longest runs. `slo_percentile_s` None: so many requests fail that it has no end."""

    load: float
    requests: int  # a replication
    replications: int
    slo_attainment: Interval
    slo_percentile_s: float | None
    utilisation: dict[str, Interval]
    bottleneck: str
    saturated: bool
    verdict: Verdict


class Use(Strict):
    """How full a resource is."""

    resource: str
    utilisation: float


class Tried(Strict):
    """One value of the key that was searched over, at the load given."""

    value: str
    point: SearchPoint


class Over(Strict):
    """A search over a scenario key at one load. `smallest`: the first value, in the order given, that keeps the SLO."""

    key: str
    load: float
    values: tuple[str, ...]
    tried: tuple[Tried, ...]
    smallest: str | None


class CapacitySearch(Strict):
    """The whole file. `capacity`: the highest load that keeps the SLO and its 95 % interval, ends None where unknown.

    found: as precise as asked. saturation: the SLO is kept up to the load above which requests pile up without end.
    indeterminate and unreachable: `reason` says why. With `over` the question is another one and `capacity` is None.
    """

    schema_version: Literal["simcap.capacity/1"] = Field(alias="schema", default="simcap.capacity/1")
    scenario: str
    question: str
    profile: str
    profile_origins: dict[str, int]
    seed: int
    slo: Slo
    load_kind: LoadKind
    outcome: Outcome
    reason: str | None
    capacity: Interval | None
    over: Over | None
    sentence: str
    precision_asked: float | None
    precision_reached: float | None  # of the simulation
    uncertainty: Uncertainty | None = None
    fullest: tuple[Use, ...]  # at the capacity, the fullest first
    points: tuple[SearchPoint, ...]
    requests_simulated: int
    requests_allowed: int
    inputs: tuple[InputOrigin, ...]
    notes: tuple[str, ...]


def promise(slo: Slo) -> str:
    """`99 % within 250 ms`."""
    return f"{100 * slo.attainment:.10g} % within {1000 * slo.latency_s:.10g} ms"


def figure(value: float) -> str:
    """A load with three significant digits; whole numbers from 1000 on are not rounded further."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def first_to_fill(fullest: tuple[Use, ...]) -> str:
    """`first to fill: lock:sequence 93 %; next: device:gpu 61 %`."""
    shown = [f"{use.resource} {100 * use.utilisation:.0f} %" for use in fullest[:2]]
    return f"first to fill: {'; next: '.join(shown)}" if shown else ""


def sentence(
    outcome: Outcome, reason: str | None, capacity: Interval, slo: Slo, kind: LoadKind, fullest: tuple[Use, ...]
) -> str:
    """The answer in one line."""
    unit, asked = SHORT_UNIT[kind], promise(slo)
    if outcome == "unreachable":
        return f"unreachable: {reason} ({asked})"
    if capacity.mean is not None and capacity.lo is not None and capacity.hi is not None:
        ends = f"[{figure(capacity.lo)}, {figure(capacity.hi)}]"
        known = f"capacity {figure(capacity.mean)} {unit} {ends} ({asked})"
    else:
        at_least = f"at least {figure(capacity.lo)}" if capacity.lo is not None else ""
        below = f"below {figure(capacity.hi)}" if capacity.hi is not None else ""
        both = " and ".join(part for part in (at_least, below) if part) or "not bounded"
        known = f"capacity {both} {unit} ({asked})"
    if outcome == "indeterminate":
        return f"indeterminate: {reason}; so far: {known}"
    filled = first_to_fill(fullest)
    because = f"; {reason}" if reason else ""
    return f"{known}{because}{'; ' + filled if filled else ''}"
