"""The capacity curve as fleet-sim's what-if result (its `WhatifResult`, field names exactly as there).

Enters: a `Result` over offered rates, the node's cost in USD an hour if the user gave it. Leaves: the what-if document and
a note file beside it, because fleet-sim's form has no room for intervals, origins or an unknown cost. Signals have no
decode phase, so time to first token stands for the latency of a request. fleet-sim breaks at 99 % of requests within
its SLO on the point estimate; here `slo_break_lam` is the lowest rate whose verdict is `fail` under the scenario's SLO.
"""

from __future__ import annotations

from typing import Any

from sim.result import Interval, Point, Result
from simcap.table import highest

HOURS_A_YEAR = 8760.0
RATES = ("rps", "rate_scale")
NOTES_SCHEMA = "simcap.whatif-notes/1"


def why_not(result: Result) -> str | None:
    """Why this result has no what-if form, or None when it has one."""
    if result.capacity.load_kind not in RATES:
        return (
            f"fleet_sim/capacity_curve.json was not written: fleet-sim's curve is over request rates, and this "
            f"scenario's load is {result.capacity.load_kind}"
        )
    return None


def rate_of(point: Point) -> float:
    """Requests a second at a load point: as asked for, or as the trace brought them."""
    return float(point.load) if point.load_kind == "rps" else float(point.offered_rps.mean or 0.0)


def _break_rate(result: Result) -> float | None:
    return next((rate_of(point) for point in result.points if point.load == result.capacity.hi), None)


def whatif(result: Result, cost_per_hour: float | None) -> dict[str, Any]:
    """fleet-sim's document. Without a cost 0.0 stands for unknown; `whatif_notes` says so in the file beside it."""
    cost = 0.0 if cost_per_hour is None else cost_per_hour * HOURS_A_YEAR / 1000
    return {
        "points": [
            {
                "lam": rate_of(point),
                "fleet_p99_ttft_ms": p99 * 1000,
                "fleet_slo_compliance": compliance,
                "fleet_mean_utilisation": utilisation,
                "annual_cost_kusd": cost,
            }
            for point, (p99, compliance, utilisation) in _complete(result)
        ],
        "slo_break_lam": _break_rate(result),
    }


def whatif_notes(result: Result, cost_per_hour: float | None) -> dict[str, Any]:
    """What fleet-sim's form cannot hold: intervals, the meaning of each field here, and what is unknown."""
    whole = {point.load for point, _ in _complete(result)}
    broken = (
        f"slo_break_lam is the lowest rate whose verdict is fail at {100 * result.slo.attainment:g} % of requests "
        f"within {result.slo.latency_s * 1000:g} ms; null means that no rate tried failed"
    )
    notes = [
        "fleet_p99_ttft_ms is the 99th percentile of request latency: signals have no decode phase",
        "fleet_mean_utilisation is the busiest inference device's utilisation",
        broken,
    ]
    if result.capacity.load_kind == "rate_scale":
        notes.append(
            "lam is the mean rate of the replayed trace; its arrivals are its own, while fleet-sim draws Poisson's"
        )
    if cost_per_hour is None:
        notes.append("annual_cost_kusd: not given, 0 stands for unknown; pass --cost-per-hour USD")
    notes += [
        f"rate {point.load:g} is left out: it has no p99 latency, no SLO figure or no device utilisation"
        for point in result.points
        if point.load not in whole
    ]
    return {
        "schema": NOTES_SCHEMA,
        "scenario": result.scenario,
        "profile": result.profile,
        "profile_origins": result.profile_origins,
        "cost_per_hour_usd": cost_per_hour,
        "notes": notes,
        "points": [
            {
                "lam": rate_of(point),
                "fleet_p99_ttft_ms": _scaled(point.latency_s["p99"], 1000),
                "fleet_slo_compliance": _scaled(point.slo_attainment, 1),
                "verdict": point.verdict,
                "saturated": point.saturated,
            }
            for point in result.points
        ],
    }


def _complete(result: Result) -> list[tuple[Point, tuple[float, float, float]]]:
    found = []
    for point in result.points:
        p99, compliance, busiest = point.latency_s["p99"].mean, point.slo_attainment.mean, highest(point, "device:")
        if p99 is not None and compliance is not None and busiest is not None:
            found.append((point, (p99, compliance, busiest)))
    return found


def _scaled(interval: Interval, scale: float) -> dict[str, float | None]:
    ends = {"mean": interval.mean, "lo": interval.lo, "hi": interval.hi}
    return {name: None if value is None else value * scale for name, value in ends.items()}
