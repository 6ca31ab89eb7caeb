"""Rules for when a row of latencies is settled and when it is enough.

Warm-up: MSER-5 (White 1997), on medians of five instead of means of five. Warm-up shifts the level of all five; a
single spike does not move their median, so a rare slow run stays in the sample, where the p99 needs it.

Interval of the median: distribution-free. With X(1) ≤ … ≤ X(n), P(X(k) ≤ median ≤ X(n+1-k)) = 1 - 2 P(Bin(n, 1/2) < k);
the largest k that keeps this at 95 % is taken. It assumes independent samples of one law.
"""

from __future__ import annotations

import math
from typing import Optional, Sequence, Tuple

import numpy as np

BATCH = 5
CONFIDENCE = 0.95


def warm_up(samples: Sequence[float]) -> int:
    """How many leading samples belong to the warm-up: a multiple of five, at most half of all; 0 under 20 samples."""
    batches = len(samples) // BATCH
    if batches < 4:
        return 0
    table = np.asarray(samples[: batches * BATCH], dtype=float).reshape(batches, BATCH)
    medians = np.median(table, axis=1)
    scores = [float(np.var(medians[d:])) / (batches - d) for d in range(batches // 2 + 1)]
    return BATCH * int(np.argmin(scores))


def median_rank(n: int) -> Optional[int]:
    """The largest k (1-based) for which [X(k), X(n+1-k)] covers the median with 95 %; None under six samples."""
    counts = np.arange(n // 2 + 1)
    steps = np.log(np.maximum(n - counts[:-1], 1)) - np.log(counts[:-1] + 1)
    log_mass = -n * math.log(2) + np.concatenate(([0.0], np.cumsum(steps)))
    below = np.cumsum(np.exp(log_mass))  # below[i] = P(Bin(n, 1/2) <= i) = P(Bin < i + 1)
    k = int(np.searchsorted(below, (1 - CONFIDENCE) / 2, side="right"))
    return k if k >= 1 else None


def median_interval(samples: Sequence[float]) -> Optional[Tuple[float, float]]:
    """The 95 % interval of the median, or None where the sample is too small for one."""
    k = median_rank(len(samples))
    if k is None:
        return None
    ordered = np.sort(np.asarray(samples, dtype=float))
    return float(ordered[k - 1]), float(ordered[len(ordered) - k])


def relative_width(samples: Sequence[float]) -> float:
    """Width of the median's interval over the median; infinity where there is no interval."""
    interval = median_interval(samples)
    if interval is None:
        return math.inf
    return (interval[1] - interval[0]) / float(np.median(np.asarray(samples, dtype=float)))
