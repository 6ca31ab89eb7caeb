"""A law given by quantiles: sampling by inverse transform, and exact moments of what is sampled.

The quantile function is piecewise linear between the stored levels, from level 0 (the smallest value) to level 1 (the
largest). On a piece of width w between values a and b the law is uniform on [a, b], so
    mean     = sum w (a + b) / 2
    E[X^2]   = sum w (a^2 + a b + b^2) / 3
exactly; no sampling error hides in them. Units are whatever the values have (seconds in profiles).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri  # the normal quantile; scipy.stats would take a second to import

from profiles.errors import InputError

LEVELS: tuple[float, ...] = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""The levels that our profiles store. Fifteen numbers keep the median, the p95 and the p99 exact."""

Floats = NDArray[np.float64]


class QuantileLaw:
    """An immutable distribution with a piecewise linear quantile function.

    levels: increasing, first 0, last 1. values: same length, not decreasing, finite. Raises InputError otherwise.
    """

    __slots__ = ("levels", "values")

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        self.levels: Floats = np.asarray(levels, dtype=float)
        self.values: Floats = np.asarray(values, dtype=float)
        problem = problem_with(self.levels, self.values)
        if problem:
            raise InputError(f"quantiles: {problem}")

    def ppf(self, u: ArrayLike) -> Floats:
        """Values at levels `u` in [0, 1]; same shape as `u`."""
        return np.asarray(np.interp(np.asarray(u, dtype=float), self.levels, self.values))

    def cdf(self, x: float) -> float:
        """P(X <= x). A value held by several levels (an atom) counts whole."""
        if x >= self.values[-1]:
            return 1.0
        if x < self.values[0]:
            return 0.0
        right = int(np.searchsorted(self.values, x, side="right"))
        a, b = self.values[right - 1], self.values[right]
        share = (x - a) / (b - a)
        return float(self.levels[right - 1] + share * (self.levels[right] - self.levels[right - 1]))

    @property
    def mean(self) -> float:
        widths = np.diff(self.levels)
        return float(np.sum(widths * (self.values[:-1] + self.values[1:]) / 2))

    @property
    def variance(self) -> float:
        widths, a, b = np.diff(self.levels), self.values[:-1], self.values[1:]
        centre = self.mean  # moments about the mean: E[X^2] - mean^2 would cancel for narrow laws
        a, b = a - centre, b - centre
        return float(np.sum(widths * (a * a + a * b + b * b) / 3))


def problem_with(levels: ArrayLike, values: ArrayLike) -> str | None:
    """What is wrong with a pair of levels and values, or None."""
    p, v = np.asarray(levels, dtype=float), np.asarray(values, dtype=float)
    if p.ndim != 1 or p.shape != v.shape or p.size < 2:
        return f"levels and values must be two lists of one length, at least 2; found {p.size} and {v.size}"
    if p[0] != 0.0 or p[-1] != 1.0 or np.any(np.diff(p) <= 0):
        return "levels must increase from 0 to 1"
    if not np.all(np.isfinite(v)) or np.any(np.diff(v) < 0):
        return "values must be finite and must not decrease from level to level"
    return None


def from_samples(samples: ArrayLike, levels: Sequence[float] = LEVELS) -> QuantileLaw:
    """The empirical quantiles (linear between order statistics) of at least 2 samples."""
    data = np.asarray(samples, dtype=float)
    if data.ndim != 1 or data.size < 2:
        raise InputError(f"a law needs at least 2 samples, found {data.size}")
    return QuantileLaw(levels, np.quantile(data, levels))


def lognormal_about(median: float, cv: float, levels: Sequence[float] = LEVELS) -> QuantileLaw:
    """A lognormal with this median and this coefficient of variation, cut at its 0.05 % and 99.95 % quantiles.

    It is the shape we ASSUME when a source publishes a median and no spread; mark it `spread_origin: assumed`.
    """
    sigma = float(np.sqrt(np.log1p(cv * cv)))
    inside = np.clip(np.asarray(levels, dtype=float), 0.0005, 0.9995)
    return QuantileLaw(levels, median * np.exp(sigma * ndtri(inside)))
