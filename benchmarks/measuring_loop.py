"""What the measuring loop costs, and whether the same cell gives the same median: `python benchmarks/measuring_loop.py`.

Overhead: an inference of one millisecond (a busy wait) through `sample`, against the same calls in a bare loop, in turns in
one run; the ratio of time a call, minus one. It must be under 1 %. Repeatability: one real cell in five fresh workers, with
a sentinel between; medians must lie within 5 % of their middle one when the sentinel's do. Exit status 1 where one fails;
2 when the sentinel says that the machine was not quiet, which proves neither.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from calibrate.launch import WorkerLauncher
from calibrate.model_zoo.architecture import spec_of
from calibrate.model_zoo.cache import ensure
from calibrate.results import LatencyRecord
from calibrate.stability import QUIET
from calibrate.worker.sampling import sample

CALLS = 300
ROUNDS = 7
RUNS = 5
MOST_OVERHEAD = 0.01
MOST_SPREAD = 0.05
NEVER_NARROW = {"seconds": 0.0, "enough": 10**9, "at_least": CALLS, "target": 0.0}


def one_millisecond() -> None:
    end = time.perf_counter_ns() + 1_000_000
    while time.perf_counter_ns() < end:
        pass


def overhead() -> float:
    """Time a call through the loop over time a bare call, minus one: the median over rounds that take turns."""
    ratios = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            one_millisecond()
        bare = time.perf_counter_ns() - start
        recorded = sum(sample(one_millisecond, NEVER_NARROW)["ns"])
        ratios.append(recorded / bare - 1)
    return median(ratios)


def loop_gap() -> float:
    """Time between inferences over the time of one; what is done once a sample is taken out by a difference of two lengths."""

    def run(calls: int) -> tuple[int, int]:
        start = time.perf_counter_ns()
        found = sample(one_millisecond, {**NEVER_NARROW, "at_least": calls})
        return time.perf_counter_ns() - start, sum(found["ns"])

    (short_wall, short), (long_wall, long) = run(500), run(2500)
    return (long_wall - short_wall) / (long - short) - 1


def spread(values: list[float]) -> float:
    return (max(values) - min(values)) / median(values)


def repeated(folder: Path) -> tuple[list[float], list[float]]:
    """Medians in seconds of the cell and of the sentinel, in turns."""
    model = ensure(spec_of("mmbert-mini-intent", 1), folder)
    base: dict[str, Any] = {"op": "cell", "model": str(model), "provider": "CPUExecutionProvider", "threads": 1}
    base |= {"batch": 1, "max_id": 1000, "seed": 1, "loads": 1}
    rule = {"seconds": 5.0, "enough": 100, "at_least": 30, "target": 0.01}
    medians: dict[int, list[float]] = {128: [], 32: []}
    for _ in range(RUNS):
        for tokens in medians:
            outcome = WorkerLauncher()({**base, "tokens": tokens, "tight": rule}, 120)
            record = next(r for r in outcome.records if isinstance(r, LatencyRecord))
            medians[tokens].append(median(record.settled_s))
    return medians[128], medians[32]


def main() -> int:
    cost, gap = overhead(), loop_gap()
    print(f"recorded time over a bare call: {cost:+.3%} of 1 ms (must be under {MOST_OVERHEAD:.0%})")
    print(f"time between inferences: {gap:.3%} of 1 ms")
    with tempfile.TemporaryDirectory() as folder:
        cell, sentinel = repeated(Path(folder))
    print(f"the same cell in {RUNS} runs: {', '.join(f'{m * 1000:.2f}' for m in cell)} ms, spread {spread(cell):.1%}")
    print(f"sentinel: {', '.join(f'{m * 1000:.2f}' for m in sentinel)} ms, spread {spread(sentinel):.1%}")
    if abs(cost) >= MOST_OVERHEAD:
        return 1
    if spread(sentinel) > QUIET:
        print("the machine was not quiet: repeatability is neither shown nor refuted")
        return 2
    return 0 if spread(cell) <= MOST_SPREAD else 1


if __name__ == "__main__":
    sys.exit(main())
