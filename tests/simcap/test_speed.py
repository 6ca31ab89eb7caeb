"""How long things take, as ratios with slack: the promises are in docs/explanation/engines.md, the figures in benchmarks/."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import run as benchmark
from benchmarks import sweeps

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_engines_against_a_process_for_each_request() -> None:
    """SimPy engine at least 6, compiled at least 100 times the reference; a third is allowed for a busy machine."""
    times = benchmark.against_processes(20_000, rounds=3)
    assert times["simpy"] > 4
    assert times["compiled"] > 67


@pytest.mark.slow
def test_cost_a_request_grows_slowly_with_gpus() -> None:
    """From 1 to 64 GPUs the cost a request stays under three times that of one, in both engines."""
    grown = benchmark.growth("GPUs", [1, 64], lambda k: benchmark.fork_join(5_000, gpus=k), rounds=3)
    assert all(row["relative"] < 3 for row in grown)


@pytest.mark.slow
def test_a_large_sweep_with_its_report_takes_as_long_as_a_thousand_starts_of_python() -> None:
    """Ten loads x 5 x 50 thousand requests: 500 starts of Python on a quiet machine of two cores, 1500 allowed."""
    start = sweeps.start_of_python()
    assert sweeps.sweep(50_000, sweeps.LOADS) < 1500 * start


def test_a_small_run_does_not_pay_for_the_compiled_engine() -> None:
    """`auto` on a few requests imports no Numba, whose start would take longer than the run."""
    code = (
        "import sys; from scenarios import loader; from profiles import store; from sim import replicate\n"
        "scenario = loader.load('longctx', ('measurement.requests=100', 'load.rps=[1]'))\n"
        "replicate.run(scenario, store.load('mi300x-published'), 1)\n"
        "print([name for name in ('numba', 'distributed', 'scipy.stats', 'altair') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_clock_of_the_benchmark_ticks() -> None:
    """In turns, the slower of two things takes longer: the ratios are of what they say."""
    from benchmarks.timing import in_turns

    def busy(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    took = in_turns({"short": lambda: busy(0.01), "long": lambda: busy(0.05)}, rounds=3)
    assert 3 < took["long"] / took["short"] < 8
