from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiles import store
from tests.calibrate.tiny import tiny_file

pytestmark = pytest.mark.slow

TOKENS = tuple(range(8, 200, 8))  # so many that ten kills fall before the end


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _start(folder: Path) -> subprocess.Popen[bytes]:
    arguments = ["--gpu", "cpu", "--model", f"intent={folder / 'intent_fp32.onnx'}", "--threads", "1", "--budget", "60"]
    arguments += ["--tokens", ",".join(map(str, TOKENS)), "--out", "node.profile.json"]
    environment = {**os.environ, "SIMCAP_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "simcap", "calibrate", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_ten_kills_end_in_the_same_cells(tmp_path: Path) -> None:
    """The runner or a worker killed at ten random moments, started again each time: every cell is in the profile, once.

    What the journal held before a kill is there after it, word for word.
    """
    tiny_file(tmp_path)
    chance = random.Random(7)  # noqa: S311 - moments of killing are no secret
    kills, kept = {"runner": 0, "worker": 0}, b""
    process = _start(tmp_path)
    while sum(kills.values()) < 10:
        time.sleep(chance.uniform(0.2, 4.0))
        measuring = any(tmp_path.glob(".*.journal"))  # before that a worker only says what its runtime is
        workers = _children(process.pid) if measuring else []
        victim = "worker" if workers and kills["worker"] < 1 and chance.random() < 0.5 else "runner"
        if process.poll() is not None:  # it came to its end in between: what follows would start anew
            break
        os.kill(workers[0] if victim == "worker" else process.pid, signal.SIGKILL)
        kills[victim] += 1
        if victim == "worker":
            continue
        process.communicate()
        for journal in tmp_path.glob(".*.journal"):
            content = journal.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            assert whole.startswith(kept)
            kept = whole
        process = _start(tmp_path)
    _, errors = process.communicate(timeout=300)
    assert process.returncode in {0, 4}, errors.decode()
    assert sum(kills.values()) == 10
    (entry,) = store.load(str(tmp_path / "node.profile.json")).entries
    assert entry.service is not None
    assert [c.tokens for c in entry.service.cells] == list(TOKENS)
    first = [json.loads(line) for line in kept.splitlines()[1:]]
    cells = [v["cell"] for v in first if v["role"] == "cell" and v["outcome"]["status"] == "done"]
    assert len(cells) == len(set(cells))
