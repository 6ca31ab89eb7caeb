"""`simcap whatif` changes one thing at a time, says what it is worth with an interval, and names whose thing it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tiny

from profiles import store
from scenarios import loader
from simcap import cli
from simcap.whatif import breaking, study
from simcap.whatif.variants import standard

TWO = tiny.SCENARIO.replace(
    "  intent: {model: m, artifact: fp32, provider: cpu, lock_domain: seq}",
    "  intent: {model: m, artifact: fp32, provider: cpu, lock_domain: seq}\n"
    "  pii: {model: m, artifact: fp32, provider: cpu, lock_domain: seq}",
).replace("[[intent]]", "[[intent, pii]]")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`tiny.yaml`: two signals of about 7 ms behind one lock, so a node does some 70 requests a second at most."""
    scenario, profile = tiny.write(tmp_path)
    known = json.loads(profile.read_text())
    for point in known["entries"][0]["occupancy"]:
        point["value"] = 0.4  # both fit on the device side by side
    profile.write_text(json.dumps(known))
    scenario.write_text(TWO.replace("load:", "profile: tiny.profile.json\nload:"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def answer(workers: int) -> study.WhatIf:
    return study.what_if(lambda more: loader.load("tiny.yaml", more), store.load("tiny.profile.json"), 1, workers)


KEPT: list[study.WhatIf] = []


def found(here: Path) -> study.WhatIf:
    """The answer, which is the same each time and so is worked out once."""
    if not KEPT:
        KEPT.append(answer(1))
    return KEPT[0]


def test_the_lock_is_worth_most_and_a_faster_engine_is_worth_its_factor(here: Path) -> None:
    """Two inferences of one length behind a lock: without it capacity about doubles; 20 % less work is 25 % more."""
    changes = {change.title: change for change in found(here).changes}
    lock, faster = changes["without the lock seq"], changes["every inference a fifth faster"]
    assert lock.owner == "binding lock"
    assert lock.significant
    assert 0.6 < (lock.change or 0) < 1.6
    assert faster.significant
    assert 0.2 < (faster.change or 0) < 0.4
    assert (faster.lo or 0) <= (faster.change or 0) <= (faster.hi or 0)
    workers = changes["twice the router CPU workers"]
    assert not workers.significant or abs(workers.change or 0) < 0.05


def test_two_processes_find_what_one_finds(here: Path) -> None:
    """To the last digit."""
    assert answer(2) == found(here)


def test_changes_are_ranked_and_only_what_the_scenario_has_is_varied(here: Path) -> None:
    """Significant changes come first, the largest gain first; no GPU, no co-tenant, no compile cache in a CPU scenario."""
    changes = [change for change in found(here).changes if change.significant]
    assert [c.change for c in changes] == sorted((c.change or 0 for c in changes), reverse=True)
    scenario, profile = loader.load("tiny.yaml"), store.load("tiny.profile.json")
    assert {v.owner for v in standard(scenario, profile)} == {
        "router CPU", "binding lock", "inference engine", "whole node"
    }  # fmt: skip


def test_every_variant_of_the_shipped_scenarios_loads_or_says_why_not() -> None:
    """A variant's overrides are valid for the scenario they were made for, or its refusal names a key to set."""
    for name in loader.shipped_names():
        scenario = loader.load(name)
        if scenario.profile is None:
            continue
        for variant in standard(scenario, store.load(scenario.profile)):
            if variant.refused is None:
                loader.load(name, variant.overrides)
            else:
                assert "--set" in variant.refused


def test_equal_variants_do_not_differ() -> None:
    """Differences of nothing give a change of 0 and p of 1; a constant one gives p of 0."""
    assert study.paired(np.zeros(5), relative=True) == (0.0, 0.0, 0.0, 1.0)
    change, lo, hi, p = study.paired(np.full(5, np.log(1.1)), relative=True)
    assert change == pytest.approx(0.1) == lo == hi
    assert p == 0.0


def test_the_root_is_where_the_sign_changes_and_unknown_where_it_does_not() -> None:
    """From guesses far below and far above; NaN for a distance that keeps its sign."""
    for guess in (1.0, 40.0, 900.0):
        assert breaking.root(lambda x: np.log(x / 40), guess) == pytest.approx(40, rel=0.01)
    assert np.isnan(breaking.root(lambda _: -1.0, 10.0))
    assert np.isnan(breaking.root(lambda _: 1.0, 10.0))


def test_the_command_prints_80_columns_and_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table fits the terminal and says what it means; `--json` is simcap.whatif/1."""
    for flags in ((), ("--json",)):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["whatif", "tiny.yaml", "--set", "measurement.requests=100", *flags])
        assert not stopped.value.code
    out = capsys.readouterr().out
    table, _, data = out.partition("\n{\n")
    assert max(len(line) for line in table.splitlines()) <= 80
    assert table.startswith("tiny now: ")
    assert json.loads("{" + data)["schema"] == "simcap.whatif/1"
