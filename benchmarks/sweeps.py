"""Whole commands: a large sweep against starting Python, and how it grows with load points, workers and requests.

Leaves: rows (what, size, value, unit). Each value is a ratio of wall times (or of memory) measured in this run, each time
the least of a few in turns, because other programs of the machine only ever add to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import Growth, growth_of

ROOT = Path(__file__).resolve().parents[1]
LOADS = [1, 2, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7]

PEAK = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from benchmarks.cases import fork_join
from benchmarks.run import with_figures
with_figures(fork_join({n}), "compiled")()
line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
print(line.split()[1])
"""


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=_env())
    return time.perf_counter() - began


def sweep(requests: int, loads: list[float], *more: str) -> float:
    """Wall seconds of `simcap run longctx` with 5 replications a load point."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out")
        sets = ["--set", f"measurement.requests={requests}", "--set", f"load.rps={loads}"]
        return seconds([sys.executable, "-m", "simcap", "run", "longctx", *sets, "--out", out, "-q", *more])


def start_of_python() -> float:
    return min(seconds([sys.executable, "-c", "pass"]) for _ in range(5))


def measure(*, quick: bool) -> list[dict[str, Any]]:
    requests = 5_000 if quick else 50_000
    rows = []

    def row(what: str, size: float, value: float, unit: str) -> None:
        rows.append({"what": what, "size": size, "value": value, "unit": unit})

    start = start_of_python()
    whole = min(sweep(requests, LOADS) for _ in range(2))
    row(f"10 loads x 5 x {requests}, with report", 50 * requests, whole / start, "starts of Python")
    row("the same in seconds, for the promise", 50 * requests, whole, "s")
    bare = {
        k: min(sweep(requests, LOADS[:k], "--no-report", "--workers", "1", "--engine", "compiled") for _ in range(2))
        for k in (1, 2, 5, 10)
    }
    for k, took in bare.items():
        row("load points, one worker", k, took / bare[1], "x one load point")
    slow = 5_000  # requests that SimPy gets: enough to keep its workers busy for seconds
    by_workers = {
        k: min(sweep(slow, LOADS, "--no-report", "--workers", str(k), "--engine", "simpy") for _ in range(2))
        for k in range(1, (os.cpu_count() or 1) + 1)
    }
    for k, took in by_workers.items():
        row("workers, SimPy engine", k, took / by_workers[1], "x one worker")
    if sys.platform == "linux":
        peaks = {n: _peak_kib(n) for n in ([10_000, 100_000] if quick else [10_000, 100_000, 1_000_000])}
        for n, peak in peaks.items():
            row("memory of one run", n, peak / peaks[10_000], "x 10 thousand requests")
    return rows


def exponents(rows: list[dict[str, Any]]) -> dict[str, Growth]:
    """How each thing grows with its size, where more than two sizes were taken."""
    by_what: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_what.setdefault(row["what"], []).append(row)
    return {
        what: growth_of([row["size"] for row in of_one], [row["value"] for row in of_one])
        for what, of_one in by_what.items()
        if len(of_one) > 2
    }


def _peak_kib(n: int) -> int:
    code = PEAK.format(root=str(ROOT), n=n)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True, env=_env()
    )
    return int(done.stdout)


def _env() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}
