"""A sketch of many durations: how many fell into each of a fixed set of logarithmic buckets.

Enters: seconds, of which some may be infinite (a request that failed). Leaves: percentiles, and the histogram of results.
240 buckets a decade have the ratio g = 10^(1/240) from edge to edge, and a bucket [a, b) stands for 2ab / (a + b), which is
never further than (g - 1) / (g + 1) = 0.48 % from a value in it. So a percentile is within 0.5 % of the exact one up to
1 million seconds; what is shorter than 1 µs counts as 0. Merging adds counts, so any order and grouping gives the same sketch
(the idea of DDSketch, Masson, Rim and Lee 2019, with a fixed range).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PER_DECADE = 240
LOWEST_S, DECADES = 1e-6, 12
ERROR = 0.005  # relative, stated to readers; the bound is 0.0048
_BUCKETS = PER_DECADE * DECADES
_EDGES: Floats = LOWEST_S * 10 ** (np.arange(_BUCKETS + 1) / PER_DECADE)
_STANDS_FOR: Floats = np.concatenate(
    [[0.0], 2 * _EDGES[:-1] * _EDGES[1:] / (_EDGES[:-1] + _EDGES[1:]), [np.inf]]
)  # by place: shorter than all buckets, the buckets, infinite


class Sketch:
    """`counts`: (buckets + 2,), first those below LOWEST_S, last the infinite ones."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(_BUCKETS + 2, dtype=np.int64)

    def add(self, seconds: Floats) -> None:
        """Count values, 0 or above."""
        with np.errstate(divide="ignore"):
            place = 1 + np.floor((np.log10(seconds) - np.log10(LOWEST_S)) * PER_DECADE)
        place = np.where(np.isinf(seconds), _BUCKETS + 1, np.clip(place, 0, _BUCKETS)).astype(np.int64)
        self.counts += np.bincount(place, minlength=_BUCKETS + 2)

    def merge(self, other: Sketch) -> None:
        """Count what the other has counted, too."""
        self.counts += other.counts

    def __len__(self) -> int:
        return int(self.counts.sum())

    def percentiles(self, levels: Sequence[float]) -> Floats:
        """Linear percentiles (levels 0 to 100): infinite as soon as a neighbour in rank is; NaN of nothing."""
        up_to = np.cumsum(self.counts)
        if up_to[-1] == 0:
            return np.full(len(levels), np.nan)
        place = np.array(levels) / 100 * (up_to[-1] - 1)
        share = place - np.floor(place)
        low = _STANDS_FOR[np.searchsorted(up_to, np.floor(place), side="right")]
        high = _STANDS_FOR[np.searchsorted(up_to, np.ceil(place), side="right")]
        steps = np.where(np.isinf(high), 0.0, high) - np.where(np.isinf(low), 0.0, low)
        return np.where(np.isinf(high), np.where(share > 0, np.inf, low), low + share * steps)

    def histogram(self, edges: Floats) -> NDArray[np.int64]:
        """Counts between `edges`, each of which is an edge of the buckets; what lies outside goes to the ends."""
        places = np.rint(np.log10(edges / LOWEST_S) * PER_DECADE).astype(np.int64)
        up_to = np.cumsum(self.counts)[places]
        up_to[0], up_to[-1] = 0, self.counts[:-1].sum()
        return np.asarray(np.diff(up_to))
