"""Why a load point looks as it does: what costs its requests most, and how far the other resources are from full.

Enters: the mean seconds a request by part, utilisations, failures. Leaves: the bottleneck by name. Time decides before
utilisation: the part of a request's time that is neither its own inference nor its own router work and is largest names
the kind of resource, and among resources of that kind the one in highest use is it. While such lost time is below a
tenth of the latency nothing holds requests up, and the resource in highest use is named as the first to fill.
Failures for want of memory or of a provider come first: a request that fails waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.result import Interval

LOST_ENOUGH = 0.1  # share of the mean latency below which nothing is said to hold requests up
FAILED_ENOUGH = 0.01  # share of requests

KIND_OF_PART = {
    "router_queue": "router_cpu",
    "lock": "lock",
    "session_queue": "session",
    "device_slowdown": "device",
    "load": "load",
    "compile": "compile",
    "memory": "memory",
    "fallback": "fallback",
    "retry": "retry",
}
FAILED_FOR = {"out_of_memory": "memory", "provider": "fallback", "crash": "replicas", "no_replica": "replicas"}


def bottleneck_of(
    utilisation: Mapping[str, Interval],
    parts: Mapping[str, Interval],
    failures: Mapping[str, Interval],
    *,
    shared: bool,
) -> str:
    """The resource that holds requests up most. `shared`: co-tenants take compute of the GPU."""
    for reason, name in FAILED_FOR.items():
        if reason in failures and (failures[reason].mean or 0.0) > FAILED_ENOUGH:
            return name
    lost = {KIND_OF_PART[part]: value.mean or 0.0 for part, value in parts.items() if part in KIND_OF_PART}
    latency = sum(value.mean or 0.0 for value in parts.values())
    kind = max(lost, key=lambda name: lost[name])
    if lost[kind] < LOST_ENOUGH * latency or latency == 0:
        return first_to_fill(utilisation)
    fullest = _fullest(utilisation, kind)
    if kind == "device" and shared and fullest.startswith("device:gpu"):
        return f"{fullest} (co-tenants)"
    return fullest


def first_to_fill(utilisation: Mapping[str, Interval]) -> str:
    """The resource in highest use. A lock domain goes before a session that is held no longer than the lock."""
    order = {"lock": 0, "device": 1, "session": 2, "router_cpu": 3}
    return min(utilisation, key=lambda name: (-(utilisation[name].mean or 0.0), order[name.partition(":")[0]]))


def headroom(utilisation: Mapping[str, Interval]) -> dict[str, float]:
    """By which factor the load could grow until each resource is full, were it the only one; least first."""
    used = {name: value.mean or 0.0 for name, value in utilisation.items()}
    return {name: 1 / u for name, u in sorted(used.items(), key=lambda item: -item[1]) if u > 0}


def _fullest(utilisation: Mapping[str, Interval], kind: str) -> str:
    """The resource of this kind in highest use; the kind itself where it is no resource that fills."""
    names = [name for name in utilisation if name.partition(":")[0] == kind]
    return max(names, key=lambda name: utilisation[name].mean or 0.0) if names else kind
