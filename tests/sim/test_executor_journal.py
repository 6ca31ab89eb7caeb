"""A stopped run goes on: finished parts are kept, kills lose only what was in flight, the files are the same bytes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from profiles import store
from profiles.errors import SimcapError
from profiles.schema import Profile
from scenarios import loader
from sim import executor, journal, replicate
from sim.executor import InProcess
from sim.journal import Journal
from sim.sweep import Sweep

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def profile() -> Profile:
    return store.load("mi300x-published")


def sweep(profile: Profile, *sets: str, name: str = "longctx", seed: int = 1) -> Sweep:
    given = ("measurement.requests=200", "load.rps=[1,6]", *sets)
    return Sweep(loader.load(name, given), profile, seed, "simpy")


@pytest.mark.parametrize("name", ["longctx", "crash_recovery", "sdpa_memory_cliff"])
def test_figures_are_read_back_as_they_were(profile: Profile, tmp_path: Path, name: str) -> None:
    """Every digit, type, infinity and not-a-number of a scenario's figures survives the file."""
    one = sweep(profile, name=name)
    done = [outcome.figures for _, outcome in Journal(InProcess(), tmp_path / "j").outcomes(one, one.tasks())]
    back = [journal.read(Journal(InProcess(), tmp_path / "j")._file(task)) for task in one.tasks()]
    assert [repr(figures) for figures in back] == [repr(figures) for figures in done]


def test_what_is_finished_is_not_done_again(profile: Profile, tmp_path: Path) -> None:
    """After three outcomes and a stop, the next run does the other seven only."""
    one = sweep(profile)
    first = Journal(InProcess(), tmp_path / "j").outcomes(one, one.tasks())
    for _ in range(3):
        next(first)
    first.close()
    asked: list[int] = []

    class Counting(InProcess):
        @contextmanager
        def opened(self, shared):  # type: ignore[no-untyped-def]
            with super().opened(shared) as do:

                def counting(tasks):  # type: ignore[no-untyped-def]
                    asked.append(len(tasks))
                    return do(tasks)

                yield counting

    places = sorted(place for place, _ in Journal(Counting(), tmp_path / "j").outcomes(one, one.tasks()))
    assert (asked, places) == ([7], list(range(10)))


@pytest.mark.parametrize("other", [{"seed": 2}, {"sets": ("slo.latency_ms=1999",)}])
def test_another_question_starts_anew(profile: Profile, tmp_path: Path, other: dict) -> None:  # type: ignore[type-arg]
    """Figures of another seed or scenario are never taken for one's own."""
    one = sweep(profile)
    list(Journal(InProcess(), tmp_path / "j").outcomes(one, one.tasks()))
    changed = sweep(profile, *other.get("sets", ()), seed=other.get("seed", 1))
    next(iter(Journal(InProcess(), tmp_path / "j").outcomes(changed, changed.tasks())))
    assert journal.kept(tmp_path / "j") == 1


def test_a_changed_source_file_is_another_question(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures made by other code are not mixed with those of this one."""
    one = sweep(profile)
    before = journal.question_of(one)
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"changed")
    assert journal.question_of(one) != before


def test_a_damaged_file_is_done_again(profile: Profile, tmp_path: Path) -> None:
    """Half a file, or one with other fields, counts as not finished, and the result is as if it had been whole."""
    one = sweep(profile)
    reference = replicate.run(one.scenario, profile, 1, journal=tmp_path / "j")[0]
    half, other, *_ = sorted((tmp_path / "j").glob("*.json"))
    half.write_bytes(half.read_bytes()[:100])
    other.write_text("{}")
    assert replicate.run(one.scenario, profile, 1, journal=tmp_path / "j")[0] == reference


def test_a_disk_that_takes_no_more_is_an_error_that_says_what_is_safe(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parts are written, the third fails: the message names the directory and the two."""
    written: list[str] = []

    def write(file: Path, text: str) -> None:
        written.append(file.name)
        if len(written) > 4:
            raise OSError(28, "No space left on device")
        file.write_text(text)

    monkeypatch.setattr(journal, "_write", write)
    with pytest.raises(SimcapError, match=r"j: .*No space left on device.*2 parts are safe"):
        replicate.run(sweep(profile).scenario, profile, 1, journal=tmp_path / "j")


COMMAND = [
    sys.executable, "-m", "simcap", "run", "longctx", "--set", "measurement.requests=1500", "--set", "load.rps=[1,3,6]",
    "--engine", "simpy", "--workers", "2", "--no-report", "-q", "--out",
]  # fmt: skip


def start(out: Path) -> subprocess.Popen[bytes]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([*COMMAND, str(out)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def end(run: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Exit code, and what was said on stderr."""
    said = run.communicate(timeout=120)[1]
    return run.returncode, said


def files(out: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file() and p.name != "manifest.json"
    }


def killed_and_run_again(tmp_path: Path, kills: int, within: float) -> int:
    """Kill the command at random moments, run it to its end after each; how many kills met it at work.

    `within`: moments lie in this share of what the undisturbed run took, so that they meet it on fast machines too.
    """
    begun = time.monotonic()
    assert end(start(tmp_path / "whole")) == (0, b"")
    took = time.monotonic() - begun
    reference = files(tmp_path / "whole")
    moments, met = np.random.default_rng(7), 0
    for k in range(kills):
        out = tmp_path / f"run{k}"
        first = start(out)
        time.sleep(moments.uniform(0.05, within) * took)
        first.send_signal(signal.SIGKILL)
        met += end(first)[0] == -signal.SIGKILL
        assert end(start(out)) == (0, b"")
        assert files(out) == reference
        assert not out.with_name(f".{out.name}.finished").exists()
    return met


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """kill -9 at two random moments, then the same command: the files of an undisturbed run, and no leftovers."""
    assert killed_and_run_again(tmp_path, 2, within=0.7) >= 1


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_no_byte(tmp_path: Path) -> None:
    """kill -9 at twenty random moments of the run, each followed by the same command: byte-identical every time."""
    assert killed_and_run_again(tmp_path, 20, within=0.95) >= 10


def test_a_worker_that_vanishes_is_an_error_that_names_the_run_and_what_is_safe(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parts are on disk when a worker is killed: the message has the directory and the two, and the next run ends."""
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    one = sweep(profile, "measurement.requests=4000")

    def kill(done: int, _: int) -> None:
        if done == 2:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    with pytest.raises(SimcapError, match=r"j: a worker process ended.* [2-9] finished parts are safe there"):
        replicate.run(one.scenario, profile, 1, workers=2, journal=tmp_path / "j", progress=kill, engine="simpy")
    kept = journal.kept(tmp_path / "j")
    assert kept >= 2
    asked: list[int] = []
    replicate.run(one.scenario, profile, 1, journal=tmp_path / "j", progress=lambda done, _: asked.append(done))
    assert asked[-1] == 10


def test_an_interrupted_run_says_what_it_kept(tmp_path: Path) -> None:
    """Ctrl-C after the first finished part: code 5 and one line; the same command then ends as ever."""
    out = tmp_path / "out"
    run = start(out)
    kept = out.with_name(".out.finished")
    while not journal.kept(kept):
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    code, said = end(run)
    assert code == 5
    assert b"finished parts are kept; the same command goes on from them" in said
    assert b"Traceback" not in said
    assert end(start(out)) == (0, b"")
    assert not kept.exists()
