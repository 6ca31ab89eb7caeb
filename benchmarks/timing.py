"""Times of several things taken in turns in one process, so that a busy moment of the machine meets all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


def in_turns(things: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds of each, the least over `rounds` rounds: what disturbs a run only ever adds to it."""
    least = dict.fromkeys(things, float("inf"))
    for _ in range(rounds):
        for name, thing in things.items():
            gc.collect()
            began = time.process_time()
            thing()
            least[name] = min(least[name], time.process_time() - began)
    return least


@dataclass(frozen=True)
class Growth:
    """The slope b of seconds = a * size^b with its 95 % interval: 0 is constant, 1 is proportional."""

    exponent: float
    lo: float
    hi: float

    def __str__(self) -> str:
        return f"size^{self.exponent:.2f} [{self.lo:.2f}, {self.hi:.2f}]"


def growth_of(sizes: Sequence[float], seconds: Sequence[float]) -> Growth:
    """By least squares in logarithms; the interval is Student's t on the residuals, endless from two sizes."""
    x, y = np.log(sizes), np.log(seconds)
    slope, level = np.polyfit(x, y, 1)
    freedom = len(sizes) - 2
    if freedom < 1:
        return Growth(float(slope), -np.inf, np.inf)
    residual = y - level - slope * x
    error = np.sqrt(float(residual @ residual) / freedom / float(((x - x.mean()) ** 2).sum()))
    half = float(stdtrit(freedom, 0.975)) * float(error)
    return Growth(float(slope), float(slope) - half, float(slope) + half)
