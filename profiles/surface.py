"""Service time over tokens x batch, as quantiles, with monotone interpolation and no extrapolation.

Between two calibrated token counts each quantile level is linear in log(tokens) -> log(seconds). That is monotone, it
never overshoots a measured cell, and quantile levels cannot cross (linear mixes of ordered values stay ordered), which
a spline does not promise; docs/decisions/0003 has the comparison. Between two calibrated batch sizes the value is linear in batch.
Outside the calibrated range a question is an `InputError` that says what to measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from profiles.distribution import Floats, QuantileLaw
from profiles.errors import InputError


class ServiceSurface:
    """Quantiles of a service time (seconds) over tokens and batch.

    levels: K levels from 0 to 1. grid: batch -> tokens -> K quantiles in seconds, all above zero.
    what: the name used in errors, such as "mmbert32k-intent fp32 on cpu".
    """

    def __init__(self, what: str, levels: Sequence[float], grid: Mapping[int, Mapping[int, Sequence[float]]]) -> None:
        self.what = what
        self.levels: Floats = np.asarray(levels, dtype=float)
        self.batches = sorted(grid)
        self._tokens = {b: np.array(sorted(grid[b]), dtype=float) for b in self.batches}
        self._log_seconds = {b: np.log(np.array([grid[b][t] for t in sorted(grid[b])])) for b in self.batches}

    def range_of_tokens(self, batch: int = 1) -> tuple[int, int]:
        """The smallest and largest calibrated token counts at this batch (the overlap of its neighbours)."""
        below, above = self._batch_neighbours(batch)
        lo = max(self._tokens[b][0] for b in (below, above))
        hi = min(self._tokens[b][-1] for b in (below, above))
        return int(lo), int(hi)

    def law(self, tokens: int, batch: int = 1) -> QuantileLaw:
        """The whole law at one point."""
        values = [float(self.sample(np.array([tokens]), np.array([u]), batch)[0]) for u in self.levels]
        return QuantileLaw(self.levels, np.maximum.accumulate(values))  # accumulate: guards the last rounding bit only

    def sample(self, tokens: ArrayLike, u: ArrayLike, batch: int = 1) -> Floats:
        """Service times in seconds at `tokens` (any shape) for uniform draws `u` (same shape)."""
        t = np.asarray(tokens, dtype=float)
        below, above = self._batch_neighbours(batch)
        low = self._at_batch(t, np.asarray(u, dtype=float), below)
        if below == above:
            return low
        high = self._at_batch(t, np.asarray(u, dtype=float), above)
        share = (batch - below) / (above - below)
        return low + share * (high - low)

    def check(self, tokens_lo: int, tokens_hi: int, batch: int = 1) -> None:
        """Raise InputError unless every token count from lo to hi can be answered."""
        lo, hi = self.range_of_tokens(batch)
        if tokens_lo < lo or tokens_hi > hi:
            bad = tokens_lo if tokens_lo < lo else tokens_hi
            raise InputError(
                f"{self.what}: {bad} tokens is outside the calibrated range of {lo} to {hi} tokens (batch {batch}); "
                f"service times are never extrapolated. Measure it (simcap calibrate --tokens …,{bad}), or keep lengths "
                f"inside the range (tokens.min/max, max_tokens, buckets)"
            )

    def check_batch(self, batch: int) -> None:
        """Raise InputError unless this batch size can be answered."""
        self._batch_neighbours(batch)

    def _batch_neighbours(self, batch: int) -> tuple[int, int]:
        if batch < self.batches[0] or batch > self.batches[-1]:
            known = ", ".join(map(str, self.batches))
            raise InputError(
                f"{self.what}: batch {batch} is outside the calibrated batches ({known}); measure it with --batch"
            )
        below = max(b for b in self.batches if b <= batch)
        above = min(b for b in self.batches if b >= batch)
        return below, above

    def _at_batch(self, tokens: Floats, u: Floats, batch: int) -> Floats:
        knots, table = self._tokens[batch], self._log_seconds[batch]
        if tokens.size and (tokens.min() < knots[0] or tokens.max() > knots[-1]):
            self.check(int(tokens.min()), int(tokens.max()), batch)
        k = np.clip(np.searchsorted(self.levels, u, side="right") - 1, 0, self.levels.size - 2)
        share = (u - self.levels[k]) / (self.levels[k + 1] - self.levels[k])
        if knots.size == 1:
            low, high = np.exp(table[0, k]), np.exp(table[0, k + 1])
        else:
            j = np.clip(np.searchsorted(knots, tokens, side="right") - 1, 0, knots.size - 2)
            x = (np.log(tokens) - np.log(knots[j])) / (np.log(knots[j + 1]) - np.log(knots[j]))
            low = np.exp(table[j, k] + x * (table[j + 1, k] - table[j, k]))
            high = np.exp(table[j, k + 1] + x * (table[j + 1, k + 1] - table[j, k + 1]))
        return np.asarray(low + share * (high - low))


class TokenCurve:
    """A figure over tokens, linear in log(tokens); refuses to extrapolate.

    `power_law`: the figure's own logarithm is linear, too (memory that grows with a power of tokens), else the figure.
    """

    def __init__(self, what: str, points: Mapping[int, float], *, power_law: bool = False) -> None:
        self.what = what
        self._power_law = power_law
        self._tokens: Floats = np.array(sorted(points), dtype=float)
        self._values: Floats = np.array([points[t] for t in sorted(points)])

    def at(self, tokens: ArrayLike) -> Floats:
        """Values at `tokens`, same shape."""
        t: NDArray[np.float64] = np.asarray(tokens, dtype=float)
        lo, hi = self._tokens[0], self._tokens[-1]
        if t.size and (t.min() < lo or t.max() > hi):
            bad = int(t.min() if t.min() < lo else t.max())
            raise InputError(
                f"{self.what}: {bad} tokens is outside the calibrated range of {int(lo)} to {int(hi)} tokens"
            )
        if self._power_law:
            return np.asarray(np.exp(np.interp(np.log(t), np.log(self._tokens), np.log(self._values))))
        return np.asarray(np.interp(np.log(t), np.log(self._tokens), self._values))
