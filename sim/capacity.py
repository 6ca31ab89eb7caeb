"""Verdicts: does a load point keep the SLO, what is closest to its limit, and between which loads does capacity lie.

A point passes when the whole 95 % interval of its attainment is at or above the promise, fails when the whole interval
is below it or the queue grows without end, and is indeterminate otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.schema import Scenario
from sim.result import Capacity, Interval, Point, Verdict

UNIT = {
    "rps": "requests a second",
    "rate_scale": "times the trace's rate",
    "burst_size": "requests in a burst",
    "clients": "clients",
}


def resource_in_words(key: str) -> str:
    """Words for a key of `Point.utilisation` or a bottleneck: `lock:seq` is `lock seq`; other text stays as it is."""
    fixed = {"router_cpu": "router CPU", "device:gpu": "GPU", "device:cpu": "CPU device"}
    if key in fixed:
        return fixed[key]
    kind, colon, name = key.partition(":")
    return f"{kind} {name}" if colon and kind in {"lock", "session", "device"} else key


def verdict_of(attainment: Interval, promised: float, *, saturated: bool) -> Verdict:
    """The verdict on one load point."""
    if saturated:
        return "fail"
    if attainment.lo is None or attainment.hi is None:
        return "indeterminate"
    if attainment.lo >= promised:
        return "pass"
    return "fail" if attainment.hi < promised else "indeterminate"


def capacity_of(scenario: Scenario, points: Sequence[Point]) -> Capacity:
    """Capacity lies from the last load of the unbroken run of passes up to the first load that fails."""
    passed = None
    for point in points:
        if point.verdict != "pass":
            break
        passed = point
    failed = next((p for p in points if p.verdict == "fail"), None)
    unsure = tuple(p.load for p in points if p.verdict == "indeterminate")
    kind = scenario.load.kind
    return Capacity(
        load_kind=kind,
        lo=passed.load if passed else None,
        hi=failed.load if failed else None,
        indeterminate=unsure,
        sentence=_sentence(scenario, passed, failed, unsure),
    )


def _sentence(scenario: Scenario, passed: Point | None, failed: Point | None, unsure: Sequence[float]) -> str:
    slo, unit = scenario.slo, UNIT[scenario.load.kind]
    promise = f"{100 * slo.attainment:.6g} % of requests within {slo.latency_ms:g} ms"
    breaks = f"; {_breaks(failed)}" if failed else ""
    doubt = f"; indeterminate at {', '.join(f'{load:g}' for load in unsure)}" if unsure else ""
    if passed and failed:
        return f"Capacity is from {passed.load:g} up to {failed.load:g} {unit} ({promise}){breaks}{doubt}."
    if passed:
        return f"Capacity is at least {passed.load:g} {unit}, the highest load tried that passed ({promise}){doubt}."
    if failed:
        return f"No load tried keeps the promise ({promise}); the lowest that surely fails is {failed.load:g} {unit}{breaks}{doubt}."
    return f"Indeterminate at every load tried ({promise}): raise measurement.replications or measurement.requests."


def _breaks(failed: Point) -> str:
    used = failed.utilisation.get(failed.bottleneck)
    share = f" ({used.mean or 0:.0%} in use there)" if used else ""
    return f"what holds requests up at {failed.load:g} is {resource_in_words(failed.bottleneck)}{share}"
