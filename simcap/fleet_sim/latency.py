"""`signal_latency.json`: the distribution of a node's latency at each simulated load, for joint planning.

Enters: a `Result` over request rates, replicas, the price of a node. Leaves: quantiles of seconds at each load of one node
that is not saturated and loses no request. They are read from the result's histogram (20 bins a decade), each at the upper
end of its bin: up to 12 % more than simulated, never less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.result import Point, Result
from simcap.fleet_sim.joint_plan import SCHEMA
from simcap.fleet_sim.whatif import rate_of


def document(result: Result, replicas: int, node_cost_per_hr: float) -> dict[str, Any]:
    """The file's content."""
    usable = [point for point in result.points if not point.saturated and point.failed_fraction.mean == 0]
    return {
        "schema": SCHEMA,
        "scenario": result.scenario,
        "profile": result.profile,
        "profile_origins": result.profile_origins,
        "node_cost_per_hr": node_cost_per_hr,
        "points": [{"node_rps": rate_of(point) / replicas, **_quantiles(point)} for point in usable],
    }


def _quantiles(point: Point) -> dict[str, list[float]]:
    counts, edges = np.array(point.histogram, dtype=float), np.array(point.histogram_edges_s)
    filled = np.flatnonzero(counts)
    levels = np.cumsum(counts[filled]) / counts.sum()
    levels[-1] = 1.0
    upper = edges[filled + 1]
    return {"levels": [0.0, *levels.tolist()], "seconds": [float(upper[0]), *upper.tolist()]}
