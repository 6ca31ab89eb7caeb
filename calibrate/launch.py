"""Start a worker, hear it out, stop it when it takes too long.

Enters: a job (plain data), the interpreter, a time limit in seconds and one of host memory in bytes. Leaves: an `Outcome`,
always: a worker that dies by a signal, hangs, takes too much, or writes something that is not a record is an outcome like
any other and never an exception here. Memory is looked at every LOOK_S; what grows faster is left to the kernel.
Results come over a pipe of their own; what libraries print is kept aside and quoted when something went wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from pydantic import ValidationError

from calibrate.results import RECORD, EndRecord, FailureRecord, Outcome, Record, Status

WORKER = Path(__file__).resolve().parent / "worker"
MOST_BYTES = 64 * 1024 * 1024  # a million samples take about a tenth of it
LOOK_S = 0.1  # reading one line of /proc takes microseconds, so ten times a second disturbs no measurement
GRACE_S = 5.0  # between the end of the results and the end of the process
QUOTED = 400
PAGE = os.sysconf("SC_PAGE_SIZE")


class Launch(Protocol):
    """The seam between the runner and real processes."""

    def __call__(self, job: Mapping[str, Any], limit_s: float) -> Outcome: ...


class WorkerLauncher:
    """Runs jobs in `python -I worker`. python: the interpreter of the runtime; worker: what it is told to run.

    memory_limit: resident bytes above which a worker is stopped; None for no limit but the machine's.
    """

    def __init__(self, python: Path | None = None, worker: Path = WORKER, memory_limit: int | None = None) -> None:
        self._command = [str(python or sys.executable), "-I", str(worker)]
        self._memory_limit = memory_limit

    def __call__(self, job: Mapping[str, Any], limit_s: float) -> Outcome:
        started = time.monotonic()
        with tempfile.TemporaryFile() as noise:
            reader, writer = os.pipe()
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=noise,
                    stderr=noise,
                    pass_fds=(writer,),
                    start_new_session=True,
                )
            except OSError as error:
                os.close(reader)
                why = f"cannot start {self._command[0]}: {error.strerror or error}"
                return Outcome(status="crashed", reason=why, wall_s=time.monotonic() - started)
            finally:
                os.close(writer)
            try:
                _hand_over(process, {**job, "results_fd": writer})
                text, ended, used = _listen(reader, started + limit_s, process.pid, self._memory_limit)
                status, reason = _wait(process, ended, started + limit_s)
                if used is not None:
                    status = "out_of_memory"
                    reason = f"used {used} bytes of memory, above its limit of {self._memory_limit}"
            finally:
                os.close(reader)
                _kill(process)
            return _judge(text, status, reason, _tail(noise), limit_s, time.monotonic() - started)


def _hand_over(process: subprocess.Popen[bytes], job: Mapping[str, Any]) -> None:
    pipe = process.stdin
    if pipe is None:
        raise RuntimeError("the worker was started without standard input")
    try:
        pipe.write(json.dumps(job).encode())
        pipe.close()
    except BrokenPipeError:
        pass  # it died before it listened; its status says how


def _listen(reader: int, deadline: float, pid: int, limit: int | None) -> tuple[bytes, bool, int | None]:
    """Everything up to the end of the pipe; False when a limit came first; the bytes used where that of memory did."""
    chunks: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and size <= MOST_BYTES:
            if limit is not None and (used := _resident(pid)) > limit:
                return b"".join(chunks), False, used
            if not selector.select(timeout=left if limit is None else min(left, LOOK_S)):
                continue
            chunk = os.read(reader, 1 << 20)
            if not chunk:
                return b"".join(chunks), True, None
            chunks.append(chunk)
            size += len(chunk)
    return b"".join(chunks), False, None


def _resident(pid: int) -> int:
    """Resident bytes of a process; 0 when it has just ended or the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _wait(process: subprocess.Popen[bytes], ended: bool, deadline: float) -> tuple[Status, str | None]:
    if not ended:
        over = time.monotonic() < deadline
        return ("garbage", f"wrote more than {MOST_BYTES} bytes") if over else ("timed_out", None)
    try:
        code = process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        return "timed_out", "closed its results and did not end"
    if code < 0:
        return "crashed", f"killed by {_signal_name(-code)}"
    return ("done", None) if code == 0 else ("crashed", f"exit status {code}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the worker and whatever it started; they share a process group of their own."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()


def _tail(noise: IO[bytes]) -> str:
    noise.seek(0, os.SEEK_END)
    noise.seek(max(0, noise.tell() - QUOTED))
    return " ".join(noise.read().decode(errors="replace").split())


def _judge(text: bytes, status: Status, reason: str | None, noise: str, limit_s: float, wall_s: float) -> Outcome:
    said = f"; it printed: {noise}" if noise else ""
    if status == "timed_out":
        return Outcome(
            status=status, reason=f"{reason or f'no end within its limit of {limit_s:g} s'}{said}", wall_s=wall_s
        )
    if status == "out_of_memory":
        return Outcome(status=status, reason=f"{reason}{said}", wall_s=wall_s)
    try:
        records = _parse(text)
    except ValueError as error:
        if status == "done":
            status, reason = "garbage", str(error)
        return Outcome(status=status, reason=f"{reason}{said}", wall_s=wall_s)
    last = records[-1] if records else None
    if isinstance(last, FailureRecord):
        return Outcome(
            status="failed", reason=f"{last.type}: {last.message}{said}", failure_type=last.type, wall_s=wall_s
        )
    if status == "done" and isinstance(last, EndRecord):
        return Outcome(status="done", records=records[:-1], wall_s=wall_s)
    if status == "done":
        status, reason = "garbage", "ended without saying that it was done"
    return Outcome(status=status, reason=f"{reason}{said}", wall_s=wall_s)


def _parse(text: bytes) -> tuple[Record, ...]:
    """The records; ValueError that quotes the first line that is none."""
    records: list[Record] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            records.append(RECORD.validate_json(line))
        except ValidationError as error:
            what = error.errors()[0]["msg"]
            raise ValueError(f"line {number} of its results is not a record ({what}): {line[:80]!r}") from None
    return tuple(records)
