"""Work beside other work: both are done, errors are heard, and nothing is left running."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiles.errors import InputError, SimcapError
from simcap import beside as module
from simcap.beside import beside


@pytest.fixture(autouse=True)
def nothing_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests have drawn in this process."""
    monkeypatch.setattr(module, "FORKED_NEVER", ())


def _write(path: Path) -> None:
    time.sleep(0.2)
    path.write_text("done", encoding="utf-8")


def _refuse() -> None:
    raise InputError("not like this")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_both_are_done_when_the_block_ends(tmp_path: Path) -> None:
    """The work beside has written its file by the end of the block, although the body took no time."""
    with beside(_write, tmp_path / "a"):
        pass
    assert (tmp_path / "a").read_text() == "done"


def test_an_error_beside_is_raised_here_with_its_type(tmp_path: Path) -> None:
    """Wrong input found by the other process is the same error as if it had been found here."""
    with pytest.raises(InputError, match="not like this"), beside(_refuse):
        pass


def test_a_process_that_dies_is_an_error() -> None:
    """A kill of the other process is said, not waited for."""
    with pytest.raises(SimcapError, match="ended without a word"), beside(_die):
        pass


def test_an_error_in_the_body_ends_the_work_beside(tmp_path: Path) -> None:
    """The body's own error comes through, and the other process is gone."""
    with pytest.raises(ZeroDivisionError), beside(time.sleep, 60):
        1 / 0  # noqa: B018
    assert multiprocessing.active_children() == []


def test_on_one_core_the_work_is_done_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a second core the outcome is the same."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with beside(_write, tmp_path / "a"):
        assert multiprocessing.active_children() == []
    assert (tmp_path / "a").read_text() == "done"


AFTER_DRAWING = """
import vl_convert
from simcap.beside import beside
chart = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a"}}}
vl_convert.vegalite_to_svg(chart)
with beside(vl_convert.vegalite_to_svg, chart):
    pass
print("drawn")
"""


def test_a_process_that_has_drawn_draws_again() -> None:
    """The drawing library answers from a thread, which no fork has: a second report from one process once hung for ever."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER_DRAWING], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("drawn\n", "")
