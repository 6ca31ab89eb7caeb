"""Times of several things taken in turns in one process, so that a busy moment of the machine meets all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

import numpy as np


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


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope b of seconds = a * size^b, by least squares in logarithms: 0 is constant, 1 is proportional."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
