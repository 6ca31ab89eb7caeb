"""What the measuring loop costs, and whether the same cell gives the same median: `python benchmarks/measuring_loop.py`.

Overhead: an inference of one millisecond (a busy wait) through `sample`, against the same calls in a bare loop, in turns in
one run; the ratio of time a call, minus one. It must be under 1 %. Repeatability: one real cell in fresh workers, with a
sentinel before and after each; the first five runs in a row whose six sentinels lie within QUIET are the ones that count,
and their medians must lie within 5 % of the middle one. The cell's own medians have no say in which runs count. Exit status
1 where one fails; 2 when no five runs had a quiet machine around them, which proves neither.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from calibrate.launch import WorkerLauncher
from calibrate.model_zoo.architecture import spec_of
from calibrate.model_zoo.cache import ensure
from calibrate.results import LatencyRecord
from calibrate.stability import QUIET
from calibrate.worker.sampling import sample

CALLS = 300
ROUNDS = 7
RUNS = 5
MOST_RUNS = 40
MOST_S = 150.0
"""For all runs together: a machine that is never quiet is told so, and not waited for."""
MOST_OVERHEAD = 0.01
MOST_SPREAD = 0.05
NEVER_NARROW = {"seconds": 0.0, "enough": 10**9, "at_least": CALLS, "target": 0.0}
CELL, SENTINEL = 128, 32  # tokens


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


def spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / median(values)


def quiet_runs(cells: Sequence[float], sentinels: Sequence[float]) -> list[float] | None:
    """The cell's medians in the first RUNS in a row whose sentinels, one more than runs, lie within QUIET; None without."""
    for first in range(len(cells) - RUNS + 1):
        if spread(sentinels[first : first + RUNS + 1]) <= QUIET:
            return list(cells[first : first + RUNS])
    return None


def repeated(visit: Callable[[int], float]) -> tuple[list[float], list[float]]:
    """Medians of the cell and of the sentinel around it, until five runs count or the time is over. visit: by tokens."""
    started = time.monotonic()
    cells: list[float] = []
    sentinels = [visit(SENTINEL)]
    while len(cells) < MOST_RUNS and time.monotonic() - started < MOST_S and quiet_runs(cells, sentinels) is None:
        cells.append(visit(CELL))
        sentinels.append(visit(SENTINEL))
    return cells, sentinels


def worker(folder: Path) -> Callable[[int], float]:
    """What measures one cell of a mini model in a fresh process; seconds."""
    model = ensure(spec_of("mmbert-mini-intent", 1), folder)
    base: dict[str, Any] = {"op": "cell", "model": str(model), "provider": "CPUExecutionProvider", "threads": 1}
    base |= {"batch": 1, "max_id": 1000, "seed": 1, "loads": 1}
    rule = {"seconds": 2.0, "enough": 60, "at_least": 30, "target": 0.01}

    def visit(tokens: int) -> float:
        outcome = WorkerLauncher()({**base, "tokens": tokens, "tight": rule}, 120)
        return median(next(r for r in outcome.records if isinstance(r, LatencyRecord)).settled_s)

    return visit


def _ms(values: Sequence[float]) -> str:
    return ", ".join(f"{value * 1000:.2f}" for value in values)


def main() -> int:
    cost, gap = overhead(), loop_gap()
    print(f"recorded time over a bare call: {cost:+.3%} of 1 ms (must be under {MOST_OVERHEAD:.0%})")
    print(f"time between inferences: {gap:.3%} of 1 ms")
    with tempfile.TemporaryDirectory() as folder:
        cells, sentinels = repeated(worker(Path(folder)))
    print(f"sentinel before and after each of {len(cells)} runs: {_ms(sentinels)} ms, spread {spread(sentinels):.1%}")
    counted = quiet_runs(cells, sentinels)
    if abs(cost) >= MOST_OVERHEAD:
        return 1
    if counted is None:
        print(f"the same cell: {_ms(cells)} ms, spread {spread(cells):.1%}")
        print(
            f"NOT QUIET: no {RUNS} runs in a row with the sentinel within {QUIET:.0%}; repeatability is neither shown nor refuted"
        )
        return 2
    print(
        f"the same cell in {RUNS} runs on a quiet machine: {_ms(counted)} ms, spread {spread(counted):.1%} (must be at most {MOST_SPREAD:.0%})"
    )
    return 0 if spread(counted) <= MOST_SPREAD else 1


if __name__ == "__main__":
    sys.exit(main())
