"""`simcap run` prints an answer that fits a terminal, and turns wrong input into one error before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import factories
import pytest
import tiny
import typer
from typer.testing import CliRunner, Result

from profiles.errors import InputError
from simcap.commands import run as command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The simulator replaced by a made-up result; returns what it was called with."""
    seen: dict[str, Any] = {}

    def simulate(scenario: Any, profile: Any, seed: int, progress: Any, *, keep_records: bool, **how: Any) -> Any:
        seen.update(scenario=scenario, profile=profile, seed=seed, keep_records=keep_records, how=how)
        made = factories.result(scenario=scenario.name, profile=profile.name, seed=seed)
        return made, [(5.0, 0, factories.Records())] if keep_records else []

    monkeypatch.setattr(command, "_simulate", simulate)
    return seen


def invoke(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command.run)
    return CliRunner().invoke(app, list(arguments), terminal_width=80)


def test_the_table_fits_80_columns_and_ends_with_capacity_origins_and_place(here: Path, faked: dict[str, Any]) -> None:
    done = invoke("tiny.yaml", "--profile", "tiny.profile.json", "--no-report")
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.output.splitlines()) <= 80
    for words in ("FAIL", "lock sequence", "41 published, 30 modeled, 12 assumed, 0 measured", "runs/tiny-tiny-seed1"):
        assert words in done.output
    assert (here / "runs" / "tiny-tiny-seed1" / "curve.csv").exists()


def test_json_prints_the_result_file_and_nothing_else(here: Path, faked: dict[str, Any]) -> None:
    done = invoke("tiny.yaml", "--profile", "tiny.profile.json", "--no-report", "--json", "--out", "o")
    assert done.stdout.encode() == (here / "o" / "result.json").read_bytes()
    assert json.loads(done.stdout)["schema"] == "simcap.result/1"


def test_quiet_prints_the_capacity_sentence_only(here: Path, faked: dict[str, Any]) -> None:
    done = invoke("tiny.yaml", "--profile", "tiny.profile.json", "--no-report", "-q")
    assert " ".join(done.stdout.split()) == factories.result().capacity.sentence


def test_overrides_and_seed_reach_the_simulator_and_the_profile_stands_in_the_resolved_scenario(
    here: Path, faked: dict[str, Any]
) -> None:
    done = invoke(
        *("tiny.yaml", "--profile", "tiny.profile.json", "--seed", "7", "--set", "slo.latency_ms=55"),
        *("--requests-parquet", "--no-report", "--out", "o"),
    )
    assert done.exit_code == 0, done.output
    assert (faked["seed"], faked["scenario"].slo.latency_ms, faked["keep_records"]) == (7, 55, True)
    resolved = (here / "o" / "scenario.resolved.yaml").read_text()
    assert "latency_ms: 55" in resolved
    assert "profile: tiny.profile.json" in resolved
    assert (here / "o" / "requests.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tiny.yaml",), "names no profile and --profile is not given"),
        (("tiny.yaml", "--profile", "missing.profile.json"), "no such file"),
        (("nothing.yaml", "--profile", "tiny.profile.json"), "no such file"),
        (("tiny.yaml", "--profile", "tiny.profile.json", "--set", "slo.latncy_ms=5"), "latency_ms"),
        (("tiny.yaml", "--profile", "tiny.profile.json", "--set", "classes.chat.tokens.tokens=9999"), "intent"),
        (("tiny.yaml", "--profile", "tiny.profile.json", "--cost-per-hour", "-1"), "cost-per-hour"),
        (("tiny.yaml", "--profile", "tiny.profile.json", "--out", "tiny.yaml"), "not a directory"),
    ],
)
def test_wrong_input_is_one_input_error_and_leaves_no_directory(
    arguments: tuple[str, ...], message: str, here: Path, faked: dict[str, Any]
) -> None:
    done = invoke(*arguments)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert not faked
    assert sorted(p.name for p in here.iterdir()) == ["tiny.profile.json", "tiny.yaml"]


def test_a_simulation_that_stops_leaves_no_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_simulate", stop)
    done = invoke("tiny.yaml", "--profile", "tiny.profile.json")
    assert done.exit_code != 0
    assert sorted(p.name for p in here.iterdir()) == ["tiny.profile.json", "tiny.yaml"]
