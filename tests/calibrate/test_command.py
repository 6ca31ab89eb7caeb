from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiles import store
from profiles.errors import InputError
from simcap.cli import main
from simcap.commands.calibrate import bytes_of, seconds_of
from tests.calibrate.tiny import tiny_file


def _simcap(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SIMCAP_CACHE": str(folder / "cache"), "COLUMNS": "100"}
    command = [sys.executable, "-m", "simcap", "calibrate", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_command_measures_and_writes(tmp_path: Path) -> None:
    """`simcap calibrate --gpu cpu` measures an own model, prints the table and writes the profile; twice in a row."""
    arguments = ("--gpu", "cpu", "--model", f"intent={tiny_file(tmp_path)}", "--tokens", "16", "--batch", "1,2")
    for _ in range(2):
        done = _simcap(*arguments, "--budget", "1s", "--threads", "1", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "intent intent_fp32 on cpu: owned" in done.stdout
        assert "sentinel intent" in done.stdout
        assert "profile: cpu.profile.json" in done.stdout
        assert done.stderr == ""
        entry = store.load(str(tmp_path / "cpu.profile.json")).entries[0]
        assert [(c.tokens, c.batch) for c in entry.service.cells] == [(16, 1), (16, 2)]  # type: ignore[union-attr]


def test_cadence_can_be_chosen(tmp_path: Path) -> None:
    """With one cadence only that surface is measured."""
    model = f"intent={tiny_file(tmp_path)}"
    done = _simcap(
        "--gpu", "cpu", "--model", model, "--tokens", "16", "--budget", "1", "--cadence", "paced", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    entry = store.load(str(tmp_path / "cpu.profile.json")).entries[0]
    assert entry.service is None
    assert entry.paced_service is not None


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--gpu", "mi300x"), 3, "looked at /sys/class/drm/card*/device"),
        (("--gpu", "mi300"), 2, "did you mean 'mi300x'"),
        ((), 2, "--gpu"),
        (("--gpu", "cpu", "--tokens", "0"), 2, "--tokens '0'"),
        (("--gpu", "cpu", "--batch", "1,x"), 2, "--batch '1,x'"),
        (("--gpu", "cpu", "--budget", "soon"), 2, "--budget 'soon'"),
        (("--gpu", "cpu", "--cadence", "slow"), 2, "no cadence 'slow'"),
        (("--gpu", "cpu", "--tokens", ""), 2, "--tokens ''"),
        (("--gpu", "cpu", "--cell-memory", "much"), 2, "--cell-memory 'much'"),
        (("--gpu", "cpu", "--precision", "fp61"), 2, "no precision 'fp61'"),
        (("--gpu", "cpu", "--precision", "fp16"), 2, "only migraphx, openvino convert to it"),
        (("--gpu", "cpu", "--custom-ops", "/no/such.so"), 2, "/no/such.so is not a file"),
        (("--plan", "/no/such.yaml"), 2, "/no/such.yaml: no such file"),
        (("--gpu", "cpu", "--model", "nothing"), 2, "expected name=path"),
    ],
    ids=str,
)
def test_exit_codes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """Missing hardware is exit code 3, wrong input 2, each with one clear message, no traceback and no file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", *arguments])
    said = capsys.readouterr()
    assert stop.value.code == code
    assert words in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_times_as_people_write_them() -> None:
    """Seconds, minutes and hours; anything else is refused."""
    assert [seconds_of("--budget", t) for t in ("90", "90s", "20m", "1.5h")] == [90, 90, 1200, 5400]
    for wrong in ("", "m", "-5", "nan", "inf", "0", "5d"):
        with pytest.raises(InputError):
            seconds_of("--budget", wrong)


def test_amounts_of_memory_as_people_write_them() -> None:
    """Plain bytes, or K, M, G and T as powers of 1024; anything else is refused."""
    assert [bytes_of("--cell-memory", t) for t in ("5", "1K", "1.5m", "8G")] == [5, 1024, 3 * 2**19, 2**33]
    for wrong in ("", "G", "-5", "nan", "inf", "0", "5X"):
        with pytest.raises(InputError):
            bytes_of("--cell-memory", wrong)


def test_the_doctor_answers_to_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    """`simcap runtimes doctor` is `simcap doctor`, options and exit codes included."""
    said = []
    for command in (["doctor"], ["runtimes", "doctor"]):
        with pytest.raises(SystemExit) as stop:
            main([*command, "--need", "migrapx"])
        assert stop.value.code == 2
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert "did you mean 'migraphx'" in said[0]
