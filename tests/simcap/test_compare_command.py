"""`simcap compare` reads run directories or runs scenarios, prints 80 columns or JSON, and refuses what it cannot compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny

from simcap import cli


def simcap(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    said = capsys.readouterr()
    return int(stopped.value.code or 0), said.out, said.err


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `one.yaml`, and `two.yaml` that lacks the lock."""
    scenario, _ = tiny.write(tmp_path)
    text = scenario.read_text().replace("load:", "profile: tiny.profile.json\nload:")
    (tmp_path / "one.yaml").write_text(text)
    (tmp_path / "two.yaml").write_text(
        text.replace(
            "{weight: 1.0, tokens: {law: fixed, tokens: 128}}", "{weight: 1.0, tokens: {law: fixed, tokens: 160}}"
        )
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def run_both(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        code, _, _ = simcap(capsys, "run", f"{name}.yaml", "--no-report", "-q", "--out", f"runs/{name}")
        assert code == 0


def test_scenarios_are_run_and_compared_in_pairs_in_80_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = simcap(capsys, "compare", "one.yaml", "two.yaml")
    assert code == 0
    assert out.startswith("two against one: -")  # longer texts: less capacity
    assert "breaks first" in out
    assert "Paired 95 % t intervals" in out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert any("p50 ms" in line and "different" in line for line in out.splitlines())


def test_json_and_the_file_of_out_are_the_same_bytes_and_bear_their_schema(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = simcap(capsys, "compare", "one.yaml", "two.yaml", "--json", "--no-report", "--out", "both")
    assert code == 0
    assert (here / "both" / "comparison.json").read_text() == out
    assert [path.name for path in (here / "both").iterdir()] == ["comparison.json"]
    found = json.loads(out)
    assert (found["schema"], found["method"], found["loads"]) == ("simcap.comparison/1", "paired", [20, 60])


def test_finished_runs_are_compared_unpaired_and_the_answer_says_how_to_pair_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_both(capsys)
    code, out, _ = simcap(capsys, "compare", "runs/one", "runs/two")
    assert code == 0
    words = " ".join(out.split())
    assert "Unpaired (Welch) 95 % intervals" in words
    again = "simcap compare runs/one/scenario.resolved.yaml runs/two/scenario.resolved.yaml --seed 1"
    assert again in words
    code, paired, _ = simcap(capsys, *again.split()[1:], "--json")
    assert code == 0
    stored = json.loads((here / "runs" / "two" / "result.json").read_text())
    p50 = next(
        d for d in json.loads(paired)["others"][0]["differences"] if (d["load"], d["figure"]) == (20, "latency_p50")
    )
    assert p50["other"] == pytest.approx(stored["points"][0]["latency_s"]["p50"]["mean"], rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["one.yaml"], "needs two runs or more"),
        (["one.yaml", "empty"], "empty is a directory and one.yaml is not"),
        (["empty", "empty"], "empty: holds no result.json"),
        (["broken", "broken"], "is no simcap.result/1"),
        (["empty", "empty", "--seed", "2"], "--dask are for scenarios"),
        (["empty", "empty", "--vary", "sessions=1,2"], "--dask are for scenarios"),
        (["one.yaml", "--vary", "sessions=1"], "needs two variants or more"),
        (["one.yaml", "--vary", "sesions=1,2"], "has no such key; did you mean"),
        (["one.yaml", "two.yaml", "--out", "one.yaml"], "exists and is not a directory"),
        (["one.yaml", "two.yaml", "--out", "broken"], "holds files that simcap compare did not write"),
        (["one.yaml", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_cannot_be_compared_is_an_error_of_input_that_says_why(
    arguments: list[str], error: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty").mkdir()
    (here / "broken").mkdir()
    (here / "broken" / "result.json").write_text('{"schema": "simcap.result/1"}')
    code, out, err = simcap(capsys, "compare", *arguments)
    assert (code, out) == (2, "")
    assert error in err
