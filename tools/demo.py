"""`make demo`: measure three small models on this CPU, then two capacity curves: published MI300X figures, and this machine.

Leaves everything in runs/demo/. Stops with the exit code of the command that failed.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILE = "runs/demo/cpu.profile.json"

COMMANDS = (
    ("calibrate", "--gpu", "cpu", "--quick", "--out", PROFILE),
    ("run", "scenarios/longctx.yaml", "--out", "runs/demo/longctx"),
    ("run", "scenarios/cpu_small.yaml", "--profile", PROFILE, "--out", "runs/demo/cpu_small"),
)


def main() -> int:
    """Run the commands one after the other; the exit code of the first that fails, or 0."""
    started = time.monotonic()
    for command in COMMANDS:
        print(f"\n$ simcap {shlex.join(command)}", flush=True)
        code = subprocess.run([sys.executable, "-m", "simcap", *command], cwd=ROOT, check=False).returncode
        if code:
            print(f"demo: `simcap {shlex.join(command)}` ended with exit code {code}", file=sys.stderr)
            return code
    print(f"\nDone in {time.monotonic() - started:.0f} s. Open these in a browser:")
    for name in ("longctx", "cpu_small"):
        print(f"  {ROOT / 'runs' / 'demo' / name / 'report.html'}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(5)
