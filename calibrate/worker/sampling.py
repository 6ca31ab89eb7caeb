"""The measuring loop, in both cadences.

tight: one inference after another, as under saturation. paced: exponential idle gaps between them, as below
saturation, where caches, clocks and threads go cold. Enters: a function that runs one inference. Leaves: nanoseconds
per inference, how many of the first are warm-up, and why sampling ended. The garbage collector is off meanwhile.
"""

from __future__ import annotations

import gc
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from .stability import relative_width, warm_up


def sample(run: Callable[[], Any], rule: Dict[str, Any], gap: Optional[Callable[[], float]] = None) -> Dict[str, Any]:
    """Measure until the rule is met.

    rule: `at_least` samples whatever the time; then stop when `seconds` are over (`budget`), or when there are `enough`
    samples after warm-up and the median's interval is narrower than `target` times the median (`narrow`).
    gap: seconds of idleness before each inference; None means none.
    """
    clock, samples = time.perf_counter_ns, []  # type: Callable[[], int], List[int]
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        deadline = clock() + int(float(rule["seconds"]) * 1e9)
        check_at, stopped = int(rule["enough"]), ""
        while not stopped:
            if gap is not None:
                time.sleep(gap())
            start = clock()
            run()
            end = clock()
            samples.append(end - start)
            if len(samples) >= check_at:
                # checked at growing distances: the check itself must not become part of the load
                check_at = len(samples) + max(10, len(samples) // 4)
                stopped = "narrow" if _settled(samples, rule) else ""
            if not stopped and end >= deadline and len(samples) >= int(rule["at_least"]):
                stopped = "budget"
    finally:
        if was_on:
            gc.enable()
    return {"ns": samples, "warm_up": warm_up(samples), "stopped": stopped}


def _settled(samples: List[int], rule: Dict[str, Any]) -> bool:
    kept = samples[warm_up(samples) :]
    return len(kept) >= int(rule["enough"]) and relative_width(kept) <= float(rule["target"])


def exponential_gaps(mean_s: float, seed: int) -> Callable[[], float]:
    """Idle gaps in seconds, exponential with this mean."""
    generator = np.random.default_rng([seed, 7])
    return lambda: float(generator.exponential(mean_s))
