"""The figures that are compared, taken in one way from what was played and from what was simulated.

Enters: times of requests and seconds of work. Leaves: p50, p95, p99 of latency (s), throughput (answers a second from the
first arrival to the last answer), utilisation (work over cores times that span). The first WARM_UP of the requests are left
out of the latencies, on both sides the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrate.live import Played
from sim.records import Records

FIGURES = ("p50", "p95", "p99", "throughput", "utilisation")
LATENCIES = FIGURES[:3]
UNITS = {"p50": "s", "p95": "s", "p99": "s", "throughput": "requests/s", "utilisation": "share"}
WARM_UP = 0.05
BLOCK_S = 1.0  # of the bootstrap within a run: longer than a busy period at the loads that count

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


def bootstrap(
    plays: Sequence[tuple[Played, float]], cores: int, seed: int, draws: int = 400
) -> dict[str, tuple[float, float]]:
    """95 % intervals of the measured figures: runs are drawn again, and within each blocks of BLOCK_S of its requests, so that
    what follows from one queue stays together. plays: each with its core seconds of work.
    """
    rng = np.random.default_rng([seed, 23])
    found = {name: np.empty(draws) for name in FIGURES}
    blocks = [_blocks(played) for played, _ in plays]
    whole = [of_played(played, work_s, cores) for played, work_s in plays]
    for k in range(draws):
        runs = rng.integers(len(plays), size=len(plays))
        drawn = [_again(blocks[r], rng) for r in runs]
        for place, name in enumerate(LATENCIES):
            level = (50, 95, 99)[place]
            found[name][k] = np.mean([np.percentile(latency, level) for latency in drawn])
        for name in FIGURES[3:]:
            found[name][k] = np.mean([whole[r][name] for r in runs])
    return {name: (float(lo), float(hi)) for name in FIGURES for lo, hi in [np.percentile(found[name], [2.5, 97.5])]}


def _blocks(played: Played) -> list[Floats]:
    skip = int(WARM_UP * played.arrived.size)
    arrived, latency = played.arrived[skip:], played.latency[skip:]
    which = ((arrived - arrived.min()) / BLOCK_S).astype(int)
    return [latency[which == b] for b in np.unique(which)]


def _again(blocks: Sequence[Floats], rng: np.random.Generator) -> Floats:
    return np.concatenate([blocks[b] for b in rng.integers(len(blocks), size=len(blocks))])
