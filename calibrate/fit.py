"""From samples to the numbers of a profile: quantiles with their count, and medians with their intervals.

Seconds and bytes. Quantiles are empirical, linear between order statistics; the 95 % interval of a median is the
distribution-free one of `calibrate.worker.stability`. Samples of several visits to a cell are pooled after each
visit's warm-up has been removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from calibrate.results import LatencyRecord, Visit
from calibrate.worker.stability import median_interval, relative_width
from profiles.distribution import LEVELS, from_samples
from profiles.entry import MemoryFit
from profiles.quantity import Figure


def pooled(visits: Iterable[Visit], cell: str, cadence: str) -> list[float]:
    """Seconds of all settled inferences of a cell in one cadence; visits as a sentinel do not count."""
    return [
        second
        for visit in visits
        if visit.role == "cell" and visit.cell == cell
        for record in visit.outcome.records
        if isinstance(record, LatencyRecord) and record.cadence == cadence
        for second in record.settled_s
    ]


def law(seconds: Sequence[float], target: float | None = None) -> dict[str, Any]:
    """The fields of a measured `Law` from at least 2 samples.

    target: where given, a median's interval wider than this (relative) is stated as a doubt.
    """
    quantiles = from_samples(seconds, LEVELS)
    interval = median_interval(seconds)
    fields: dict[str, Any] = {
        "levels": LEVELS,
        "seconds": tuple(float(v) for v in quantiles.values),
        "n": len(seconds),
        "origin": "measured",
        "spread_origin": "measured",
    }
    if interval is not None:
        fields |= {"median_lo": interval[0], "median_hi": interval[1]}
    width = relative_width(seconds)
    if target is not None and width > target:
        wide = f"{width:.1%} wide" if interval else "unknown (fewer than six samples)"
        fields["doubt"] = (
            f"the time budget ended with the median's 95 % interval {wide}, above the target of {target:.0%}"
        )
    return fields


def memory_fit(batch: int, points: Mapping[int, float], weights: float) -> MemoryFit | None:
    """Fit bytes over tokens; None under four token counts, since three would be met exactly and prove nothing.

    Tokens are scaled to at most one before the least squares, since their squares span five orders of magnitude.
    """
    if len(points) < 4:
        return None
    tokens = np.array(sorted(points), dtype=float)
    above = np.array([points[int(t)] - weights for t in tokens])
    unit = tokens.max()
    design = np.stack([np.ones_like(tokens), tokens / unit, (tokens / unit) ** 2], axis=1)
    solution, *_ = np.linalg.lstsq(design, above, rcond=None)
    residual = np.abs(design @ solution - above)
    return MemoryFit(
        batch=batch,
        a_bytes=float(solution[0]),
        b_bytes_per_token=float(solution[1] / unit),
        c_bytes_per_token2=float(solution[2] / unit**2),
        largest_residual=float(residual.max()),
        cells=len(points),
    )


def figure(values: Sequence[float], doubt: str | None = None) -> Figure:
    """The median of measured values, with its interval where there are enough of them."""
    interval = median_interval(values)
    lo, hi = interval or (None, None)
    return Figure(value=float(median(values)), origin="measured", n=len(values), lo=lo, hi=hi, doubt=doubt)
