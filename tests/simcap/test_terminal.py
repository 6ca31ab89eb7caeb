"""What a terminal and a program get: 80 columns, colours only where wanted, JSON everywhere, exit codes as documented."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import tiny
import typer

from simcap import cli

ROOT = Path(__file__).resolve().parents[2]
SIMCAP = [sys.executable, "-m", "simcap"]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WITHOUT_JSON = {
    "calibrate",
    "scenarios schema",
    "profiles schema",
    "validate schema",
}  # they write or print JSON in any case


def call(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SIMCAP, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT), **environment},
    )


@dataclass(frozen=True)
class Said:
    returncode: int
    stdout: str
    stderr: str


Here = Callable[..., Said]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Runs a command in this process, in `folder`: a start of Python for each would take most of the time."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Said:
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        said = capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    return run


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its name."""
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name))


ALL = dict(leaves(typer.main.get_command(cli.app)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny scenario, its profile and a run of it."""
    made = tmp_path_factory.mktemp("terminal")
    tiny.write(made)
    done = call("run", "tiny.yaml", "--profile", "tiny.profile.json", "--out", "run", "--no-report", cwd=made)
    assert done.returncode == 0, done.stderr
    return made


RUN = ("run", "tiny.yaml", "--profile", "tiny.profile.json", "--no-report", "--out", "run")
PRINTING = [
    ("doctor",),
    ("runtimes", "list"),
    ("models", "list"),
    ("profiles", "list"),
    ("scenarios", "list"),
    ("profiles", "show", "tiny.profile.json"),
    RUN,
    ("compare", "run", "run"),
    ("study", "make", "run", "--out", "study"),
]


@pytest.mark.parametrize("name", list(ALL))
def test_every_command_that_prints_results_has_json(name: str) -> None:
    """Whoever adds a command gives it `--json`, or says here why it needs none."""
    options = {option for parameter in ALL[name].params for option in parameter.opts}
    assert ("--json" in options) != (name in WITHOUT_JSON)


@pytest.mark.parametrize("name", ["", *cli.COMMANDS, *ALL])
def test_help_fits_80_columns(name: str) -> None:
    """No line of any help text is longer than 80."""
    from typer.testing import CliRunner

    said = CliRunner().invoke(cli.app, [*name.split(), "--help"], terminal_width=80, env={"COLUMNS": "80"})
    assert said.exit_code == 0, said.output
    assert [line for line in said.output.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("arguments", PRINTING, ids=lambda arguments: " ".join(arguments[:2]))
def test_output_fits_80_columns_and_has_no_colour_without_a_terminal(here: Here, arguments: tuple[str, ...]) -> None:
    """A pipe gets lines of at most 80 columns, but for paths and addresses that cannot be broken, and no escape codes."""
    done = here(*arguments)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    long = [line for line in done.stdout.splitlines() if len(line.rstrip()) > 80]
    assert [line for line in long if max(map(len, line.split())) < 40] == []


def documented() -> dict[str, tuple[bool, list[str]]]:
    """Command -> (whether a list, keys) as docs/reference/json-output.md says."""
    page = (ROOT / "docs" / "reference" / "json-output.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `simcap ([a-z -]+)` \| (`.*`.*) \|$", page, re.MULTILINE)
    found = {name: re.findall(r"`([^`]+)`", keys) for name, keys in rows}
    return {name: (keys[0] == "[]", [key for key in keys if key != "[]"]) for name, keys in found.items()}


JSON = [
    ("doctor",),
    ("runtimes", "list"),
    ("models", "list"),
    ("scenarios", "list"),
    ("profiles", "list"),
    ("study", "make", "run", "--out", "study-json"),
    ("profiles", "derive", "mi300x-published", "--to", "mi325x", "--out", "derived.profile.json"),
    ("export", "fleet-sim-hardware", "--out", "hardware", "--cost-per-hour", "mi300x=2.59", "--cost-source", "a test"),
]


@pytest.mark.parametrize("arguments", JSON, ids=lambda arguments: " ".join(arguments[:2]))
def test_json_has_the_keys_that_the_documentation_says(here: Here, arguments: tuple[str, ...]) -> None:
    """Standard output is one JSON value with the documented keys in their order, and nothing beside it."""
    done = here(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    listed, keys = documented()[" ".join(arguments[: 1 if arguments[0] == "doctor" else 2])]
    assert isinstance(value, list) == listed
    for item in value if listed else [value]:
        assert list(item) == keys


def on_a_terminal(folder: Path, **environment: str) -> str:
    """What `simcap run` prints where standard output is a terminal."""
    ours, theirs = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}}
    given = {**kept, "TERM": "xterm-256color", "COLUMNS": "80", "PYTHONPATH": str(ROOT), **environment}
    with subprocess.Popen([*SIMCAP, *RUN], stdout=theirs, stderr=subprocess.DEVNULL, cwd=folder, env=given):
        os.close(theirs)
        text = b""
        while True:
            try:
                more = os.read(ours, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not more:
                break
            text += more
    os.close(ours)
    return text.decode()


def colours(text: str) -> set[str]:
    """The escape codes that set a colour; bold alone is none."""
    return {code for code in COLOUR.findall(text) if re.search(r"(?:\[|;)(?:3[0-7]|9[0-7]|38)(?:;|m)", code)}


def test_a_terminal_gets_colours_and_no_color_takes_them_away(folder: Path) -> None:
    """Verdicts are coloured on a terminal; with NO_COLOR the same text comes without a colour."""
    coloured, plain = on_a_terminal(folder), on_a_terminal(folder, NO_COLOR="1")
    assert colours(coloured)
    assert not colours(plain)
    assert COLOUR.sub("", coloured) == COLOUR.sub("", plain)


@pytest.mark.parametrize(("shell", "answer"), [("bash", "profiles"), ("zsh", '"profiles"'), ("fish", "profiles")])
def test_completion_knows_the_commands(shell: str, answer: str) -> None:
    """What the installed completion asks is answered with the command that begins so."""
    asked = {"COMP_WORDS": "simcap pro", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "simcap pro"}
    done = call(**asked, _SIMCAP_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert answer in done.stdout
    assert "scenarios" not in done.stdout


def test_exit_codes_are_those_of_the_documentation(here: Here) -> None:
    """Done 0, wrong input 2, a runtime that is not here 3; the table lists 0 to 5 (4 and 5 have tests of their own)."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d) \| ", page, re.MULTILINE) == list("012345")
    assert here("--version").returncode == 0
    assert here("scenarios", "show", "nosuch").returncode == 2
    assert here("run", "tiny.yaml", "--nosuch").returncode == 2
    needed = here("doctor", "--need", "migraphx", "--runtime", f"migraphx={sys.executable}", "--json")
    assert needed.returncode == 3
    assert json.loads(needed.stdout)["providers"]


def test_ctrl_c_ends_with_5(folder: Path) -> None:
    """An interrupted run says so and ends with 5."""
    slow = [*SIMCAP, *RUN[:-1], "stopped", "--engine", "simpy", "--set", "measurement.requests=200000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(slow, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 5
    assert said.startswith("interrupted")
    assert not (folder / "stopped").exists()
