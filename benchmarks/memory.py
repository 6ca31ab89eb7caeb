"""Memory against requests: `python benchmarks/memory.py [--quick]`, one fresh process for each run.

Leaves: rows (what, size, value, unit) as those of `benchmarks/sweeps.py`: the peak of a process that simulates so many requests
of `highconc` at 80 a second, all figures included, as a multiple of the peak before it began. Each engine keeps the requests
whole or goes in pages (docs/decisions/0015); the bound between the two is moved out of the way. Linux only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]

RUN = """
import resource, sys
from profiles import store
from scenarios import loader
from sim import compiled, pages
from sim.sweep import Bench, Sweep
engine, whole, n = sys.argv[1], sys.argv[2] == "whole", int(sys.argv[3])
pages.WHOLE_UP_TO = 10**12 if whole else 0
scenario = loader.load("highconc", ["load.rps=[80]", f"measurement.requests={n}"])
bench = Bench(Sweep(scenario, store.load(scenario.profile), 1, engine))
if engine == "compiled":
    compiled.load()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
bench.do(80.0, 0)
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

SIZES = {
    ("compiled", "whole"): [10_000, 100_000, 1_000_000],
    ("compiled", "pages"): [100_000, 1_000_000, 10_000_000],
    ("simpy", "whole"): [10_000, 100_000],
    ("simpy", "pages"): [100_000, 400_000],
}


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """Rows of all runs; the last of each kind tells the bytes that a further request costs."""
    rows = []
    for (engine, how), all_sizes in SIZES.items():
        sizes = [size // 10 if quick else size for size in all_sizes]
        peaks = [_peak_bytes(engine, how, size) for size in sizes]
        what = f"memory, {engine}, {how}"
        rows += [
            {"what": what, "size": size, "value": peak / before, "unit": "x the process before"}
            for size, (before, peak) in zip(sizes, peaks, strict=True)
        ]
        slope = np.polyfit(sizes, [peak - before for before, peak in peaks], 1)[0]
        rows.append({"what": f"{what}, growth", "size": sizes[-1], "value": float(slope), "unit": "bytes a request"})
    return rows


def _peak_bytes(engine: str, how: str, n: int) -> tuple[int, int]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, engine, how, str(n)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    before, peak = (1024 * int(kib) for kib in done.stdout.split())
    return before, peak


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    for row in measure(quick=parser.parse_args().quick):
        print(f"{row['what']:<32} {row['size']:>10}  {row['value']:8.2f} {row['unit']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
