"""The figures that are compared, taken in one way from what was played and from what was simulated.

Enters: times of requests and seconds of work. Leaves: p50, p95, p99 of latency (s), throughput (answers a second from the
first arrival to the last answer), utilisation (work over cores times that span). The first WARM_UP of the requests are left
out of the latencies, on both sides the same ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrate.live import Played
from sim.records import Records

FIGURES = ("p50", "p95", "p99", "throughput", "utilisation")
LATENCIES = FIGURES[:3]
UNITS = {"p50": "s", "p95": "s", "p99": "s", "throughput": "requests/s", "utilisation": "share"}
WARM_UP = 0.05
STRETCH_S = 1.0  # of the bootstrap within a run: longer than a busy period at the loads that count
LEAST_STRETCHES = 10  # shorter ones in a run of less than so many seconds

Floats = NDArray[np.float64]
Figures = dict[str, float]


def kept(latency: Floats) -> Floats:
    return latency[int(WARM_UP * latency.size) :]


def of_times(arrived: Floats, answered: Floats, work_s: float, cores: int) -> Figures:
    """work_s: core seconds of all inferences together."""
    span = float(answered.max() - arrived.min())
    p50, p95, p99 = np.percentile(kept(answered - arrived), [50, 95, 99]).tolist()
    return {
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "throughput": arrived.size / span,
        "utilisation": work_s / (cores * span),
    }


def of_played(played: Played, work_s: float, cores: int) -> Figures:
    return of_times(played.arrived, played.answered, work_s, cores)


def of_records(records: Records, cores: int) -> Figures:
    """The simulator's share of a device times own seconds is, times the cores, core seconds of work."""
    return of_times(records.arrived, records.answered, float(np.nansum(records.share * records.own_s)) * cores, cores)


def bootstrap(played: Played, work: Floats, cores: int, seed: int, draws: int = 400) -> dict[str, tuple[float, float]]:
    """95 % intervals of one run's figures: stretches of STRETCH_S are drawn again with replacement, so that what follows from one
    queue stays together. work: (n, S) core seconds of each inference. What differs from run to run is not in them, and a
    short run has few stretches, so they are rather too narrow than too wide.
    """
    rng = np.random.default_rng([seed, 23])
    latencies, stretches = _latencies(played), _stretches(played, work, cores)
    found = np.empty((draws, len(FIGURES)))
    for k in range(draws):
        again = np.concatenate([latencies[b] for b in rng.integers(len(latencies), size=len(latencies))])
        found[k, :3] = np.percentile(again, [50, 95, 99])
        found[k, 3:] = stretches[rng.integers(len(stretches), size=len(stretches))].mean(axis=0)
    lo, hi = np.percentile(found, [2.5, 97.5], axis=0).tolist()
    return {name: (lo[place], hi[place]) for place, name in enumerate(FIGURES)}


def _latencies(played: Played) -> list[Floats]:
    """Of the requests that arrived in each stretch, without the warm-up."""
    arrived, latency = kept(played.arrived), kept(played.latency)
    which = np.searchsorted(_edges(float(arrived.min()), float(arrived.max())), arrived)
    return [latency[which == b] for b in np.unique(which)]


def _stretches(played: Played, work: Floats, cores: int) -> Floats:
    """(stretches, 2): answers a second, and the work that ended there over cores times its length; their means are the
    run's throughput and utilisation.
    """
    edges = _edges(float(played.arrived.min()), float(played.answered.max()))
    length = edges[1] - edges[0]
    ran = np.isfinite(played.ended) & np.isfinite(work)
    answers = np.histogram(played.answered, edges)[0] / length
    busy = np.histogram(played.ended[ran], edges, weights=work[ran])[0] / (cores * length)
    return np.column_stack([answers, busy])


def _edges(start: float, end: float) -> Floats:
    return np.linspace(start, end, max(round((end - start) / STRETCH_S), LEAST_STRETCHES) + 1)
