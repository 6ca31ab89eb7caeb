"""The demo that the README promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


@pytest.mark.slow
def test_the_demo_measures_and_prints_two_curves_twice_in_a_row(tmp_path: Path) -> None:
    """`make demo` ends with 0 on a second call too, and both reports that it names are there."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "tools/demo.py"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("profile mi300x-published:") == 1
        assert done.stdout.count("measured\n") == 2
        pages = [Path(line.strip()) for line in done.stdout.splitlines() if line.strip().endswith("report.html")]
        assert sum(page.is_absolute() and page.exists() for page in pages) == 2
