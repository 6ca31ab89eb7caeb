"""`simcap study`: what was run travels with what came out, and gives the same bytes again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tiny

from simcap.cli import main


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return int(stop.value.code or 0)


def make(folder: Path, trace: bool = False) -> Path:
    """A study whose originals are gone."""
    scenario, profile = tiny.write(folder)
    if trace:
        text = scenario.read_text().replace("{process: poisson}", "{process: trace, path: log.csv}")
        scenario.write_text(text.replace("{rps: [20, 60]}", "{rate_scale: [1, 2]}"))
        rows = "\n".join(f"{k * 0.05:.2f},128,1" for k in range(300))
        (folder / "log.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}\n")
    run = folder / "run"
    assert call("run", str(scenario), "--profile", str(profile), "--out", str(run), "--no-report", "--quiet") == 0
    assert call("study", "make", str(run), "--out", str(folder / "study")) == 0
    for path in (scenario, profile, folder / "log.csv"):
        path.unlink(missing_ok=True)
    shutil.rmtree(run)
    return folder / "study"


@pytest.mark.parametrize("trace", [False, True], ids=["poisson", "trace"])
def test_a_study_gives_the_same_bytes_elsewhere(trace, tmp_path, capsys) -> None:
    """Moved to another folder, with scenario, profile, trace and run gone, it reproduces result and curve."""
    (tmp_path / "elsewhere").mkdir()
    moved = make(tmp_path, trace).rename(tmp_path / "elsewhere" / "moved")
    assert call("study", "check", str(moved)) == 0
    assert "the same bytes (results/result.json, results/curve.csv)" in " ".join(capsys.readouterr().out.split())


def test_a_study_names_workload_profile_topology_and_origins(tmp_path) -> None:
    """Each with its digest; numbers are counted by origin, not mixed."""
    study = json.loads((make(tmp_path) / "study.json").read_text())
    assert study["schema"] == "simcap.study/1"
    assert study["serving_profile"]["numbers_by_origin"] == {"assumed": 6}
    assert study["topology"]["signals"] == ["intent"]
    assert study["workload"]["sha256"] == study["files"]["inputs/scenario.yaml"]
    assert study["serving_profile"]["sha256"] == study["files"]["inputs/profile.json"]


@pytest.mark.parametrize("name", ["inputs/profile.json", "results/result.json", "inputs/scenario.yaml"])
def test_a_changed_file_is_refused_by_name(name, tmp_path, capsys) -> None:
    """One byte more: exit code 2 and the file."""
    study = make(tmp_path)
    with (study / name).open("a") as stream:
        stream.write(" ")
    assert call("study", "check", str(study)) == 2
    assert name in "".join(capsys.readouterr().err.split())


def test_other_results_are_a_finding(tmp_path, capsys) -> None:
    """Results of another seed under a manifest that fits them: exit code 4, both files by name."""
    study = make(tmp_path)
    data = json.loads((study / "study.json").read_text())
    data["seed"] = 2
    (study / "study.json").write_text(json.dumps(data))
    assert call("study", "check", str(study)) == 4
    assert "result.json, curve.csv came out different" in " ".join(capsys.readouterr().err.split())


def test_a_run_that_was_edited_makes_no_study(tmp_path, capsys) -> None:
    """curve.csv changed by hand after the run: exit code 2, nothing written."""
    scenario, profile = tiny.write(tmp_path)
    call("run", str(scenario), "--profile", str(profile), "--out", str(tmp_path / "run"), "--no-report", "--quiet")
    (tmp_path / "run" / "curve.csv").write_text("mine")
    assert call("study", "make", str(tmp_path / "run"), "--out", str(tmp_path / "study")) == 2
    assert "curve.csv" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()
