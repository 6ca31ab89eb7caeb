"""Memory of long runs: it follows what is in the node at one time, not the length of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACE = ["classes.chat.tokens={law: trace}", "load={rate_scale: [1]}"]

ONE_REPLICATION = """
import resource, sys
from profiles import store
from scenarios import loader
from sim import pages
from sim.sweep import Bench, Sweep
engine, bound, sizes, sets = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4:]
pages.WHOLE_UP_TO = bound
for n in sizes:
    scenario = loader.load("highconc", [*sets, f"measurement.requests={n}"])
    bench = Bench(Sweep(scenario, store.load(scenario.profile), 1, engine, loader.read_trace(scenario)))
    figures = bench.do(scenario.load.points[0], 0).figures
    assert figures.measured + figures.warmup_removed == int(n)
    print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

PEAK_OF = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def run(code: str, *arguments: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return [int(line) for line in done.stdout.split()]


def trace_of(path: Path, rows: int) -> str:
    """A log of Poisson arrivals at 80 requests a second, as a setting of the scenario."""
    rng = np.random.default_rng(1)
    times, tokens = np.cumsum(rng.exponential(1 / 80, rows)), rng.integers(8, 4096, rows)
    with path.open("w", encoding="utf-8") as stream:
        stream.write("timestamp,num_prefill_tokens,num_decode_tokens\n")
        for at in range(0, rows, 100_000):
            part = zip(times[at : at + 100_000].tolist(), tokens[at : at + 100_000].tolist(), strict=True)
            stream.writelines(f"{time:.6f},{count},1\n" for time, count in part)
    return f"arrivals={{process: trace, path: {path}}}"


def test_ten_times_as_many_requests_take_no_more_memory() -> None:
    """The peak of one process after 1 million requests is at most 20 bytes a request above that after 100 thousand."""
    short, long = run(ONE_REPLICATION, "compiled", "0", "100000,1000000", "load={rps: [80]}")
    assert long - short <= 20 * 900_000


@pytest.mark.slow
def test_a_trace_of_two_million_requests_replays_in_500_mb(tmp_path: Path) -> None:
    """`simcap run` on the compiled engine, five replications and the report included."""
    sets = [trace_of(tmp_path / "trace.csv", 2_000_000), *TRACE, "measurement.requests=2000000"]
    options = [word for each in sets for word in ("--set", each)]
    command = [sys.executable, "-m", "simcap", "run", "highconc", *options, "--engine", "compiled", "--workers", "1"]
    (peak,) = run(PEAK_OF, *command, "--out", str(tmp_path / "out"))
    assert peak < 500e6


@pytest.mark.slow
def test_two_million_requests_replay_in_500_mb_on_simpy(tmp_path: Path) -> None:
    """One replication of the same trace; five would take ten minutes and no more memory."""
    (peak,) = run(ONE_REPLICATION, "simpy", "1000000", "2000000", trace_of(tmp_path / "trace.csv", 2_000_000), *TRACE)
    assert peak < 500e6


@pytest.mark.slow
def test_a_hundred_million_requests_run_in_1_gb() -> None:
    """One replication in an open loop on the compiled engine, all figures included."""
    (peak,) = run(ONE_REPLICATION, "compiled", "1000000", "100000000", "load={rps: [80]}")
    assert peak < 1e9
