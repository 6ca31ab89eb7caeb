"""`make demo`: measure three small models on this CPU, then two capacity curves: published MI300X figures, and this machine.

Leaves everything in runs/demo/, where it begins by removing the runs of an earlier demo (another version may have run them
otherwise, and a run directory is never mixed). Stops with the exit code of the command that failed. What it does less of than the plain
commands would, to be done in three minutes on two cores, it says before each command.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILE = "runs/demo/cpu.profile.json"
RUNS = ("longctx", "cpu_small")


@dataclass(frozen=True)
class Step:
    """One command and what to know before reading what it prints."""

    says: str
    arguments: tuple[str, ...]


STEPS = (
    Step(
        "1 of 3. How long do three small encoders take on this machine's CPU? Random weights, true architecture.\n"
        "Few samples a cell and no idle gaps (--quick, --cadence tight): enough to look around, not to buy a machine.",
        ("calibrate", "--gpu", "cpu", "--quick", "--cadence", "tight", "--out", PROFILE),
    ),
    Step(
        "2 of 3. Long documents on one MI300X. Nobody measured one here: service times are published or solved from\n"
        "published figures.",
        ("run", "longctx", "--out", "runs/demo/longctx"),
    ),
    Step(
        "3 of 3. Short chat requests on this machine, with the service times measured in step 1.",
        ("run", "cpu_small", "--profile", PROFILE, "--out", "runs/demo/cpu_small"),
    ),
)


def main() -> int:
    """Run the steps one after the other; the exit code of the first that fails, or 0."""
    started = time.monotonic()
    for name in RUNS:
        shutil.rmtree(ROOT / "runs" / "demo" / name, ignore_errors=True)
    for step in STEPS:
        print(f"\n{step.says}\n$ simcap {shlex.join(step.arguments)}", flush=True)
        begun = time.monotonic()
        code = subprocess.run([sys.executable, "-m", "simcap", *step.arguments], cwd=ROOT, check=False).returncode
        if code:
            print(f"demo: `simcap {shlex.join(step.arguments)}` ended with exit code {code}", file=sys.stderr)
            return code
        print(f"({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"\nDone in {time.monotonic() - started:.0f} s. Open these in a browser; they need no network:")
    for name in RUNS:
        print(f"  {ROOT / 'runs' / 'demo' / name / 'report.html'}")
    print("Next: docs/tutorial/first-run.md, from here to a scenario of your own.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(5)
