"""Traces and CDF files as a scenario names them: paths, classes, what the profile covers, the result that comes out."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import yaml
from pydantic import TypeAdapter

from profiles import store
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import loader
from scenarios.arrivals import Arrivals
from scenarios.schema import Scenario
from scenarios.workload import Cdf
from sim import replicate
from sim.engine import run_once
from simcap.rundir import scenario_yaml

ROOT = Path(__file__).resolve().parents[2]
TRACE = "timestamp,num_prefill_tokens,kind\n" + "".join(
    f"{i / 20},{64 + i % 150},{'doc' if i % 4 == 0 else 'chat'}\n" for i in range(300)
)
FIELDS: dict[str, Any] = {
    "classes": {"chat": {"weight": 1.0, "tokens": {"law": "trace"}}},
    "arrivals": {"process": "trace", "path": "logs/day.csv"},
    "load": {"rate_scale": [0.5, 2]},
}


def scenario_file(directory: Path, trace: str = TRACE, **changes: Any) -> Path:
    """The tiny scenario with a trace beside it in logs/."""
    file, _ = tiny.write(directory)
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | FIELDS | changes, sort_keys=False))
    (directory / "logs").mkdir()
    (directory / "logs" / "day.csv").write_text(trace)
    return file


def profile_in(directory: Path) -> Profile:
    return store.load(str(directory / "tiny.profile.json"))


def test_paths_are_relative_to_the_scenario_and_resolve_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario read from anywhere finds its trace, and its resolved form loads again to an equal scenario."""
    file = scenario_file(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    scenario = loader.load(str(file))
    Path("again.yaml").write_text(scenario_yaml(scenario))
    assert loader.load("again.yaml") == scenario


def test_a_trace_that_is_not_there_is_named_before_anything_runs(tmp_path: Path) -> None:
    """A wrong path is an error of the scenario."""
    file = scenario_file(tmp_path, arrivals={"process": "trace", "path": "day.csv"})
    with pytest.raises(InputError, match=r"arrivals\.path: .*day\.csv: no such file \(paths are relative"):
        loader.load(str(file))


def test_lengths_of_the_trace_are_checked_against_the_profile(tmp_path: Path) -> None:
    """One request of the replayed part that is longer than the calibrated range is refused; a later one is not."""
    profile_rows = TRACE.splitlines()
    profile_rows[-1] = "99,257,chat"
    file = scenario_file(tmp_path, "\n".join(profile_rows))
    with pytest.raises(InputError, match="257 tokens is outside the calibrated range of 64 to 256"):
        loader.bind(loader.load(str(file)), profile_in(tmp_path))
    loader.bind(loader.load(str(file), ["measurement.requests=299"]), profile_in(tmp_path))


def test_each_request_has_the_time_length_and_class_of_its_line(tmp_path: Path) -> None:
    """At `rate_scale` 2 every request arrives at half its time, with the tokens and the class of its line."""
    classes = {"chat": {"tokens": {"law": "trace"}}, "doc": {"tokens": {"law": "fixed", "tokens": 256}}}
    arrivals = FIELDS["arrivals"] | {"columns": {"class": "kind"}}
    file = scenario_file(tmp_path, classes=classes, arrivals=arrivals)
    records = run_once(loader.load(str(file)), profile_in(tmp_path), seed=1, load=2.0)
    i = np.arange(300)
    np.testing.assert_allclose(records.arrived, i / 20 / 2, atol=1e-9)
    np.testing.assert_array_equal(records.work.class_of, np.where(i % 4 == 0, 1, 0))
    np.testing.assert_array_equal(records.work.tokens, np.where(i % 4 == 0, 256, 64 + i % 150))


def test_the_result_of_a_trace_says_what_was_replayed(tmp_path: Path) -> None:
    """The offered rate is that of the file times the scale, nothing is cut as warm-up, and the notes name the trace."""
    broken = TRACE + "15,cut"
    arrivals = FIELDS["arrivals"] | {"on_bad_line": "skip"}
    scenario = loader.load(str(scenario_file(tmp_path, broken, arrivals=arrivals)))
    result, _ = replicate.run(scenario, profile_in(tmp_path), 1)
    assert [point.offered_rps.mean for point in result.points] == pytest.approx([10, 40])
    assert all(set(point.warmup_removed) == {0} for point in result.points)
    assert (result.requests, result.capacity.load_kind) == (300, "rate_scale")
    notes = " ".join(result.notes)
    assert "the first 300 requests of the trace" in notes
    assert "300 requests, fewer than measurement.requests (400)" in notes
    assert "1 lines of the trace could not be read and were skipped: line 302: 2 fields" in notes


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"load": {"rps": [1]}}, "'trace' takes load.rate_scale, found load.rps"),
        ({"arrivals": {"process": "poisson"}, "load": {"rps": [1]}}, "law trace needs arrivals.process trace"),
        ({"classes": {"chat": {"tokens": {"law": "trace"}}}}, "weight is missing"),
        ({"arrivals": FIELDS["arrivals"] | {"columns": {"class": "kind"}}}, "class column decides; remove the weight"),
        ({"arrivals": FIELDS["arrivals"] | {"classes": {"x": "chat"}}}, "name that column in columns.class"),
        (
            {
                "arrivals": FIELDS["arrivals"] | {"columns": {"class": "kind"}, "classes": {"x": "chatt"}},
                "classes": {"chat": {"tokens": {"law": "trace"}}},
            },
            "no such class; did you mean 'chat'",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    """Load kind, token law, weights and class map must fit the arrivals."""
    with pytest.raises(InputError, match=says):
        loader.load(str(scenario_file(tmp_path, **changes)))


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_cdf_file_becomes_a_law_of_its_own(tmp_path: Path, wrapped: bool) -> None:
    """fleet-sim's file, with or without its key, is read in with lengths times the prompt's share."""
    points = [[100, 0.5], [250, 1.0]]
    (tmp_path / "azure.json").write_text(json.dumps({"cdf": points} if wrapped else points))
    law = {"law": "cdf_file", "path": "azure.json", "prompt_share": 0.8, "min": 64}
    file, _ = tiny.write(tmp_path)
    file.write_text(
        yaml.safe_dump(yaml.safe_load(file.read_text()) | {"classes": {"chat": {"weight": 1, "tokens": law}}})
    )
    found = loader.load(str(file)).classes["chat"].tokens
    assert found == Cdf(law="cdf", min=64, points=((80, 0.5), (200, 1.0)))
    draws = found.draw(np.random.default_rng(1), 100_000)
    assert np.mean(draws <= 80) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", r"azure\.json:1: not JSON"),
        ('{"pdf": []}', 'expected {"cdf"'),
        ("[[5, 0.5], [9, 0.9]]", "last cumulative fraction is 0.9"),
        ("[[5, 0.5], [4, 1]]", "points must increase"),
        ('[["x", 1]]', "points"),
    ],
)
def test_a_cdf_file_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """A file of another kind, fractions that do not end at 1 and lengths that fall are named with the class."""
    (tmp_path / "azure.json").write_text(text)
    file, _ = tiny.write(tmp_path)
    law = {"law": "cdf_file", "path": "azure.json", "prompt_share": 1}
    file.write_text(
        yaml.safe_dump(yaml.safe_load(file.read_text()) | {"classes": {"chat": {"weight": 1, "tokens": law}}})
    )
    with pytest.raises(InputError, match=rf"classes\.chat\.tokens\.path: .*{says}"):
        loader.load(str(file))


def test_every_new_process_runs(tmp_path: Path) -> None:
    """Each arrival process goes through a run, and a rate that is not steady is reported as it came."""
    file, _ = tiny.write(tmp_path)
    base = yaml.safe_load(file.read_text())
    for arrivals in (
        {"process": "gamma", "cv": 2},
        {"process": "mmpp", "states": [{"rate": 1, "holding_s": 8}, {"rate": 9, "holding_s": 2}]},
        {"process": "time_varying", "points": [[0, 1], [5, 3], [10, 1]]},
        {"process": "spike", "factor": 5, "at_s": 2, "duration_s": 1},
    ):
        scenario = Scenario.model_validate(base | {"arrivals": arrivals})
        result, _ = replicate.run(scenario, profile_in(tmp_path), 1)
        exact = arrivals["process"] in {"gamma", "mmpp"}
        assert all((point.offered_rps.mean == point.load) == exact for point in result.points)


def test_the_examples_of_the_documents_are_valid() -> None:
    """Every `arrivals` in the YAML examples of the two pages on workloads is one that a scenario may have."""
    pages = (ROOT / "docs/explanation/workloads.md", ROOT / "docs/how-to/replay-a-trace.md")
    found = []
    for page in pages:
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for part in block.split("\n\n"):
                arrivals = yaml.safe_load(part).get("arrivals")
                if arrivals is not None:
                    found.append(TypeAdapter(Arrivals).validate_python(arrivals).process)
    assert found == ["gamma", "mmpp", "time_varying", "spike", "trace"]


def test_the_manifest_holds_the_digest_of_the_trace(tmp_path: Path) -> None:
    """The run directory says which bytes were replayed, and its resolved scenario gives the same curve again."""
    file = scenario_file(tmp_path)
    profile = str(tmp_path / "tiny.profile.json")
    for source, out in ((file, "one"), (tmp_path / "one" / "scenario.resolved.yaml", "two")):
        command = [
            sys.executable,
            "-m",
            "simcap",
            "run",
            str(source),
            "--profile",
            profile,
            "--out",
            str(tmp_path / out),
            "--no-report",
            "-q",
        ]
        subprocess.run(command, check=True, capture_output=True)
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    digest = hashlib.sha256((tmp_path / "logs" / "day.csv").read_bytes()).hexdigest()
    assert manifest["inputs"]["trace"]["sha256"] == digest
    assert (tmp_path / "one" / "curve.csv").read_bytes() == (tmp_path / "two" / "curve.csv").read_bytes()
