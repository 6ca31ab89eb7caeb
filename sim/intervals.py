"""Intervals over replications, and when a load point is saturated.

Enters: one figure of each of R independent replications. Leaves: its mean with a 95 % Student t interval on R - 1 degrees
of freedom, mean ± t(0.975, R-1) s / sqrt(R).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import stdtrit  # scipy.stats would take a second to import

from scenarios.schema import Scenario
from sim.metrics import Figures
from sim.result import Interval

SATURATED_BACKLOG = 0.02  # share of arrivals unanswered when arrivals stop; a stable queue keeps it near 0


def interval(values: Iterable[float], *, lowest: float = -np.inf, highest: float = np.inf) -> Interval:
    """Mean and 95 % t interval, cut to what the figure can be; NaN anywhere gives an empty interval."""
    data = np.array(list(values), dtype=float)
    if data.size == 0 or not np.all(np.isfinite(data)):
        return Interval(mean=None, lo=None, hi=None)
    mean = float(data.mean())
    half = float(stdtrit(data.size - 1, 0.975) * data.std(ddof=1) / np.sqrt(data.size)) if data.size > 1 else np.inf
    if not np.isfinite(half):
        return Interval(mean=mean, lo=None, hi=None)
    return Interval(mean=mean, lo=max(mean - half, lowest), hi=min(mean + half, highest))


def steady_rate(scenario: Scenario) -> bool:
    """Whether the load is a rate of arrival that stays; else the offered rate is what came."""
    return scenario.load.kind == "rps" and scenario.arrivals.steady


def saturated(scenario: Scenario, runs: Sequence[Figures]) -> bool:
    """Whether the queue grows without end: the whole interval of the share left unanswered is above 2 %."""
    backlog = interval((run.scalars["backlog_share"] for run in runs), lowest=0.0, highest=1.0)
    return steady_rate(scenario) and backlog.lo is not None and backlog.lo > SATURATED_BACKLOG
