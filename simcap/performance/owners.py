"""Whose thing holds requests up: the parts of a request's time and the resources of a node, by owner.

Enters: load points of a result. Leaves: the share of mean latency by owner, and the owner of a bottleneck.
"""

from __future__ import annotations

from sim.result import Point
from simcap.whatif.variants import Owner

OWNERS: tuple[Owner, ...] = (
    "router CPU", "binding lock", "inference engine", "GPU", "memory", "co-tenant", "storage", "whole node"
)  # fmt: skip

OF_PART: dict[str, Owner] = {
    "router_queue": "router CPU",
    "router_cpu": "router CPU",
    "lock": "binding lock",
    "session_queue": "inference engine",
    "device_own": "inference engine",
    "compile": "inference engine",
    "fallback": "inference engine",
    "device_slowdown": "GPU",
    "memory": "memory",
    "load": "storage",
    "retry": "whole node",
}

OF_RESOURCE: dict[str, Owner] = {
    "router_cpu": "router CPU",
    "lock": "binding lock",
    "session": "inference engine",
    "compile": "inference engine",
    "fallback": "inference engine",
    "device": "GPU",
    "memory": "memory",
    "load": "storage",
    "replicas": "whole node",
    "retry": "whole node",
}


def owner_of(bottleneck: str) -> Owner:
    """The owner of a bottleneck, as `sim.why` names it."""
    if bottleneck.endswith("(co-tenants)"):
        return "co-tenant"
    return OF_RESOURCE[bottleneck.partition(":")[0]]


def shares(point: Point) -> dict[Owner, float]:
    """The share of mean latency by owner, those above 0, in the order of OWNERS."""
    seconds: dict[Owner, float] = dict.fromkeys(OWNERS, 0.0)
    for part, interval in point.mean_parts_s.items():
        seconds[OF_PART[part]] += interval.mean or 0.0
    total = sum(seconds.values())
    return {owner: value / total for owner, value in seconds.items() if total and value / total >= 5e-4}
