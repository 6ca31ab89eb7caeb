"""The front door: fast help, one message an error, and the exit code that belongs to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from profiles.errors import FindingError, InputError, MeasurementError, SimcapError, UnavailableError
from simcap import cli
from simcap.commands import scenarios as scenarios_command

HEAVY = ("altair", "numpy", "onnx", "onnxruntime", "pandas", "pyarrow", "pydantic", "rich", "scipy", "simpy", "yaml")


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simcap", *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def exit_code(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    return caught.value.code


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    """`simcap --help` names the commands without importing any library that takes long to load."""
    script = (
        "import sys\nfrom simcap.cli import main\n"
        "try:\n    main(['--help'])\n"
        f"finally:\n    print('LOADED', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert "LOADED []" in done.stdout, done.stdout + done.stderr
    for name, line in cli.COMMANDS.items():
        assert name in done.stdout
        assert line.split()[0] in done.stdout


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_of_the_table_exists(name: str) -> None:
    """A name in the table of commands leads to a module that explains itself."""
    done = call(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: simcap" in done.stdout


def test_version_is_that_of_the_package() -> None:
    """`--version` prints the installed version and nothing else."""
    done = call("--version")
    assert done.stdout.startswith("simcap 0.")
    assert done.returncode == 0


def test_a_wrong_command_is_answered_with_the_nearest() -> None:
    """`simcap rum` ends with 2 and asks whether `run` was meant."""
    done = call("rum")
    assert done.returncode == 2
    assert "did you mean 'run'" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(SimcapError, 1), (InputError, 2), (UnavailableError, 3), (FindingError, 4), (MeasurementError, 4)],
)
def test_each_error_of_ours_has_its_exit_code(
    error: type[SimcapError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of ours becomes one message on stderr and its own exit code."""

    def fail(as_json: bool = False) -> None:
        raise error("first line\nsecond line")

    monkeypatch.setattr(scenarios_command.app.registered_commands[0], "callback", fail)
    assert exit_code("scenarios", "list") == code
    captured = capsys.readouterr()
    assert captured.err == "error: first line\n       second line\n"
    assert captured.out == ""


def test_an_interrupt_ends_with_five_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C is told as what it is, without a traceback."""

    def interrupted(as_json: bool = False) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scenarios_command.app.registered_commands[0], "callback", interrupted)
    assert exit_code("scenarios", "list") == 5
    assert "interrupted" in capsys.readouterr().err


def test_a_full_disk_is_a_message_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the operating system refuses ends as a message that names the file."""

    def no_space(as_json: bool = False) -> None:
        raise OSError(28, "No space left on device", "runs/x/result.json")

    monkeypatch.setattr(scenarios_command.app.registered_commands[0], "callback", no_space)
    assert exit_code("scenarios", "list") == 1
    assert capsys.readouterr().err == "error: runs/x/result.json: No space left on device\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("profiles", "list"),
        ("profiles", "show", "mi300x-published"),
        ("scenarios", "list"),
        ("scenarios", "show", "highconc"),
    ],
)
def test_what_is_printed_fits_eighty_columns(arguments: tuple[str, ...]) -> None:
    """Tables fit a terminal of 80 columns; only addresses, file names and the YAML of a file may be longer."""
    done = call(*arguments)
    assert done.returncode == 0, done.stderr
    long = [line for line in done.stdout.splitlines() if len(line.rstrip()) > 80]
    assert all("http" in line or "/" in line or arguments[:2] == ("scenarios", "show") for line in long), long


def test_lists_are_json_on_demand() -> None:
    """`--json` prints what a program can read, for both lists."""
    names = [item["name"] for item in json.loads(call("scenarios", "list", "--json").stdout)]
    assert {"longctx", "highconc", "published_fa_concurrency", "cpu_small"} <= set(names)
    assert "mi300x-published" in [item["name"] for item in json.loads(call("profiles", "list", "--json").stdout)]


def test_show_prints_the_scenario_with_overrides_in_place() -> None:
    """`scenarios show --set` is what `run --set` would run."""
    done = call("scenarios", "show", "longctx", "--json", "--set", "measurement.replications=9")
    assert json.loads(done.stdout)["measurement"]["replications"] == 9


def test_schema_prints_the_committed_schema() -> None:
    """`schema` prints the file that the documentation links to."""
    folder = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schema"
    for name in ("profile", "scenario"):
        done = call(f"{name}s", "schema")
        assert done.stdout == (folder / f"{name}.schema.json").read_text(encoding="utf-8")


def test_doubts_are_announced_and_printed_on_demand() -> None:
    """A profile with doubts says how to read them, and `--doubts` prints that no GPU model is stated for MIGraphX."""
    assert "--doubts" in call("profiles", "show", "mi300x-published").stdout
    assert "GPU MODEL IS NOT STATED" in " ".join(
        call("profiles", "show", "mi300x-published", "--doubts").stdout.split()
    )
