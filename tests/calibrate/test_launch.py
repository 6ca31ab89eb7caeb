from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from calibrate.launch import WorkerLauncher
from calibrate.results import EndRecord, LoadedRecord, Outcome

HEAD = "import json, os, signal, sys, time\njob = json.load(sys.stdin)\npipe = os.fdopen(job['results_fd'], 'w')\n"
LOADED = '{"kind": "loaded", "ns": [5], "session_providers": ["CPUExecutionProvider"]}'
END = '{"kind": "end"}'


def _write(*lines: str) -> str:
    return "".join(f"pipe.write({line!r} + chr(10)); pipe.flush()\n" for line in lines)


def _run(tmp_path: Path, body: str, limit_s: float = 20.0) -> Outcome:
    script = tmp_path / "worker.py"
    script.write_text(HEAD + body)
    return WorkerLauncher(worker=script)({"op": "cell"}, limit_s)


def test_records_come_back(tmp_path: Path) -> None:
    """A worker that ends well gives its records, whatever it printed meanwhile."""
    outcome = _run(tmp_path, 'print(\'{"kind": "end"} noise\', flush=True)\n' + _write(LOADED, END))
    assert outcome.status == "done"
    assert [type(r) for r in outcome.records] == [LoadedRecord]
    assert not any(isinstance(r, EndRecord) for r in outcome.records)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGABRT"])
def test_death_by_signal(tmp_path: Path, name: str) -> None:
    """A worker killed by a signal is an outcome that names the signal and keeps none of its records."""
    body = _write(LOADED) + f"sys.stderr.write('last words'); sys.stderr.flush(); os.kill(os.getpid(), signal.{name})"
    outcome = _run(tmp_path, body)
    assert outcome.status == "crashed"
    assert outcome.reason == f"killed by {name}; it printed: last words"
    assert outcome.records == ()


def test_exit_status_after_a_half_line(tmp_path: Path) -> None:
    """A worker that dies while it writes counts as crashed, not as one that writes garbage."""
    outcome = _run(tmp_path, 'pipe.write(\'{"kind": "lo\'); pipe.flush(); os._exit(7)')
    assert (outcome.status, outcome.reason) == ("crashed", "exit status 7")


def test_hanging_worker_is_stopped_with_its_children(tmp_path: Path) -> None:
    """A worker over its limit is killed, and so is what it started."""
    note = tmp_path / "child"
    body = f"child = os.fork()\nif child: open({str(note)!r}, 'w').write(str(child))\ntime.sleep(60)"
    started = time.monotonic()
    outcome = _run(tmp_path, body, limit_s=1.0)
    assert time.monotonic() - started < 10
    assert outcome.status == "timed_out"
    assert "limit of 1 s" in (outcome.reason or "")
    assert _gone(int(note.read_text()))


def test_a_worker_over_its_memory_is_stopped(tmp_path: Path) -> None:
    """A worker that takes more than its limit ends as `out_of_memory`, with both figures and none of its records."""
    script = tmp_path / "worker.py"
    script.write_text(HEAD + _write(LOADED) + "held = b'x' * 200_000_000\ntime.sleep(60)")
    started = time.monotonic()
    outcome = WorkerLauncher(worker=script, memory_limit=100_000_000)({"op": "cell"}, 30)
    assert time.monotonic() - started < 10
    assert (outcome.status, outcome.records) == ("out_of_memory", ())
    assert "above its limit of 100000000" in (outcome.reason or "")


def test_a_worker_below_its_memory_is_left_alone(tmp_path: Path) -> None:
    """A limit that is kept changes nothing, and the limit of time holds beside it."""
    script = tmp_path / "worker.py"
    script.write_text(HEAD + _write(LOADED, END))
    assert WorkerLauncher(worker=script, memory_limit=500_000_000)({"op": "cell"}, 30).status == "done"
    script.write_text(HEAD + "time.sleep(60)")
    outcome = WorkerLauncher(worker=script, memory_limit=500_000_000)({"op": "cell"}, 1)
    assert outcome.status == "timed_out"


def _gone(pid: int) -> bool:
    """True when the process has ended; one that awaits its parent's notice (a zombie) has."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    "line",
    ["not json", '{"kind": "surprise"}', '{"kind": "loaded", "ns": [-5], "session_providers": []}', "[]", "\x00\x01"],
)
def test_garbage(tmp_path: Path, line: str) -> None:
    """A line that is no record makes the whole answer worthless, and the reason quotes it."""
    outcome = _run(tmp_path, _write(LOADED, line, END))
    assert outcome.status == "garbage"
    assert "line 2" in (outcome.reason or "")
    assert outcome.records == ()


def test_silence_is_not_success(tmp_path: Path) -> None:
    """A worker that exits with status 0 without saying that it was done has not measured."""
    outcome = _run(tmp_path, _write(LOADED))
    assert outcome.status == "garbage"
    assert "without saying" in (outcome.reason or "")


def test_failure_is_told_in_the_librarys_words(tmp_path: Path) -> None:
    """A worker that reports a failure gives its type and message."""
    told = '{"kind": "failure", "type": "RuntimeError", "message": "no such node"}'
    outcome = _run(tmp_path, _write(told) + "sys.exit(1)")
    assert (outcome.status, outcome.failure_type) == ("failed", "RuntimeError")
    assert "no such node" in (outcome.reason or "")


def test_no_such_interpreter(tmp_path: Path) -> None:
    """An interpreter that is not there is an outcome that names it."""
    outcome = WorkerLauncher(python=tmp_path / "nowhere")({"op": "probe"}, 5)
    assert outcome.status == "crashed"
    assert "nowhere" in (outcome.reason or "")


def test_no_descriptor_is_leaked(tmp_path: Path) -> None:
    """Ten more workers leave as many open files as one."""
    _run(tmp_path, _write(END))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the listing itself opens one, both times
    for _ in range(10):
        _run(tmp_path, _write(END))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above
