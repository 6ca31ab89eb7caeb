"""The same seed gives the same bytes, and load points do not know of one another (invariant 7, through the command)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny


@pytest.fixture
def here(tmp_path: Path) -> Path:
    tiny.write(tmp_path)
    return tmp_path


def curve(here: Path, out: str, *more: str, hash_seed: str = "0") -> list[str]:
    """The lines of curve.csv of one run in a process of its own."""
    base = ["run", "tiny.yaml", "--profile", "tiny.profile.json", "--no-report", "--set", "measurement.requests=600"]
    done = subprocess.run(
        [sys.executable, "-m", "simcap", *base, "--out", out, *more],
        cwd=here,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return (here / out / "curve.csv").read_text().splitlines()


def test_same_seed_gives_byte_identical_curves(here: Path) -> None:
    """Two processes with different hash seeds write the same curve.csv, byte for byte."""
    curve(here, "a", hash_seed="1")
    curve(here, "b", hash_seed="2")
    assert (here / "a" / "curve.csv").read_bytes() == (here / "b" / "curve.csv").read_bytes()


def test_another_seed_gives_another_curve(here: Path) -> None:
    """The seed matters, so that equal bytes above are no accident of a seed that is never read."""
    assert curve(here, "a") != curve(here, "b", "--seed", "2")


def test_more_load_points_leave_the_common_rows_unchanged(here: Path) -> None:
    """Rows of loads that two runs share are equal to the letter, wherever the other loads lie."""
    few = curve(here, "few", "--set", "load.rps=[20,60]")
    many = curve(here, "many", "--set", "load.rps=[10,20,40,60,80]")
    assert few[0] == many[0]
    assert few[1:] == [many[2], many[4]]
