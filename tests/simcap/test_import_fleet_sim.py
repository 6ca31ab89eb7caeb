"""`simcap import fleet-sim`: CDFs, traces and fleet files become scenarios that load and run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tiny

from profiles import store
from scenarios import loader
from sim.engine import run_once
from simcap.cli import main
from simcap.fleet_sim import lengths

CDF = {"cdf": [[80, 0.25], [160, 0.75], [320, 1.0]]}
TRACES = {
    "a.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n10.0,100,5\n10.5,200,9\n12.0,64,1\n",
    "s.csv": "timestamp,num_prefill_tokens,num_decode_tokens\n0,100,5\n0.5,200,9\n2,64,1\n",
    "r.jsonl": "\n".join(
        json.dumps({"timestamp": t, "prompt_tokens": n, "generated_tokens": 3, "selected_model": "a"})
        for t, n in ((0.0, 100), (0.5, 200), (2.0, 64))
    ),
}


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return int(stop.value.code or 0)


@pytest.fixture
def base(tmp_path) -> list[str]:
    scenario, profile = tiny.write(tmp_path)
    scenario.write_text(scenario.read_text() + f"profile: {profile}\n")
    return ["--base", str(scenario)]


def put(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("form", [CDF, CDF["cdf"]], ids=["mapping", "bare list"])
def test_cdf_becomes_the_prompts_of_one_class(form, base, tmp_path) -> None:
    """Lengths times 0.8, fractions as they are, the loads that the user gave, the rest from the base."""
    file, out = put(tmp_path, "w.json", form), tmp_path / "out.yaml"
    assert call("import", "fleet-sim", str(file), *base, "--rps", "5,10", "--out", str(out)) == 0
    made = loader.load(str(out))
    assert made.classes["request"].tokens.points == ((64, 0.25), (128, 0.75), (256, 1.0))
    assert made.load.rps == (5.0, 10.0)
    assert made.signals == loader.load(base[1]).signals


def test_cdf_comes_back_from_the_export_as_it_was(base, tmp_path) -> None:
    """CDF -> scenario -> fleet-sim's points are the points that came in."""
    file, out = put(tmp_path, "w.json", CDF), tmp_path / "out.yaml"
    call("import", "fleet-sim", str(file), *base, "--rps", "5", "--out", str(out))
    back = [list(point) for point in lengths.workload_points(loader.load(str(out)), None) if point[1] > 0]
    assert back == CDF["cdf"]


@pytest.mark.parametrize("name", TRACES)
def test_trace_keeps_token_counts_and_times(name, base, tmp_path) -> None:
    """Each of the three formats: three requests of these lengths arrive at these times; answers do not count."""
    file, out = put(tmp_path, name, TRACES[name]), tmp_path / "sub" / "out.yaml"
    out.parent.mkdir()
    assert call("import", "fleet-sim", str(file), *base, "--out", str(out)) == 0
    made = loader.load(str(out))
    records = run_once(made, store.load(str(made.profile)), 1, 1.0)
    assert records.work.tokens.tolist() == [100, 200, 64]
    assert np.allclose(records.arrived, [0.0, 0.5, 2.0])


def test_trace_is_named_relative_to_the_scenario(base, tmp_path) -> None:
    """The scenario file can move together with its trace."""
    file, out = put(tmp_path, "a.csv", TRACES["a.csv"]), tmp_path / "out.yaml"
    call("import", "fleet-sim", str(file), *base, "--out", str(out))
    assert "path: a.csv" in out.read_text()


def test_fleet_file_becomes_a_class_for_each_pool(base, tmp_path) -> None:
    """Weights are lam_frac; the CDF is found beside the fleet file; names are made fit for a scenario."""
    put(tmp_path, "w.json", CDF)
    fleet = {
        "pools": [{"id": "Big One", "gpu": "h100", "n_gpus": 2, "max_ctx": 8192}, {"id": "b", "gpu": "a100"}],
        "router": "model",
        "workloads": {"Big One": {"cdf": "w.json", "lam_frac": 0.3}, "b": {"cdf": "w.json", "lam_frac": 0.7}},
    }
    file, out = put(tmp_path, "fleet.json", fleet), tmp_path / "out.yaml"
    assert call("import", "fleet-sim", str(file), *base, "--rps", "5", "--out", str(out)) == 0
    assert {name: kind.weight for name, kind in loader.load(str(out)).classes.items()} == {"big-one": 0.3, "b": 0.7}


@pytest.mark.parametrize(
    ("name", "content", "flags", "said"),
    [
        ("w.json", CDF, [], "--rps"),
        ("w.json", CDF, ["--rps", "5", "--rate-scale", "2"], "only a trace"),
        ("w.json", CDF, ["--rps", "a,b"], "expected numbers"),
        ("w.json", CDF, ["--rps", "5", "--prompt-share", "1.5"], "above 0 and at most 1"),
        ("w.json", {"cdf": [[80, 0.5]]}, ["--rps", "5"], "must be 1"),
        ("w.json", "{", ["--rps", "5"], "not JSON"),
        ("a.csv", TRACES["a.csv"], ["--rps", "5"], "its own rate"),
        ("x.csv", "when,what\n1,2\n", [], "known formats"),
        ("f.json", {"pools": [{"id": "a"}]}, ["--rps", "5"], "no workloads"),
        (
            "f.json",
            {"pools": [{"id": "a"}], "workloads": {"b": {"cdf": "w.json", "lam_frac": 1}}},
            ["--rps", "5"],
            "no such pool",
        ),
        (
            "f.json",
            {"pools": [{"id": "a"}], "workloads": {"a": {"cdf": "no.json", "lam_frac": 1}}},
            ["--rps", "5"],
            "no such file",
        ),
        (
            "f.json",
            {"pools": [{"id": "a"}], "workloads": {"a": {"cdf": "no.json", "lam_frac": 0.5}}},
            ["--rps", "5"],
            "sums to 0.5",
        ),
    ],
)
def test_wrong_input_is_named_and_nothing_is_written(name, content, flags, said, base, tmp_path, capsys) -> None:
    """Exit code 2, the fault in words, no scenario file."""
    file, out = put(tmp_path, name, content), tmp_path / "out.yaml"
    assert call("import", "fleet-sim", str(file), *base, *flags, "--out", str(out)) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_file_that_exists_is_kept_without_force(base, tmp_path, capsys) -> None:
    """The second import is refused and the first stays; --force replaces it."""
    file, out = put(tmp_path, "w.json", CDF), put(tmp_path, "out.yaml", "mine")
    arguments = ["import", "fleet-sim", str(file), *base, "--rps", "5", "--out", str(out)]
    assert call(*arguments) == 2
    assert out.read_text() == "mine"
    assert call(*arguments, "--force") == 0
    assert "mine" not in out.read_text()
