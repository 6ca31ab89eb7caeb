"""`simcap validate theory`: what the table says, that a wrong law is caught, and how chance is accounted for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simcap import cli
from simcap.validate import invariants, theory
from simcap.validate.record import Validation
from simcap.validate.theory_cases import Case, cases


def command(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "theory", "--quick", *arguments])
    return ended.value.code


def few(monkeypatch: pytest.MonkeyPatch, *names: str, exact: float = 1.0) -> None:
    """Only these cases, their exact values times `exact`, and few random nodes."""
    chosen = [case for case in cases() if case.name in names]
    assert len(chosen) == len(names)
    wrong = [replace(case, exact={k: v * exact for k, v in case.exact.items()}) for case in chosen]
    monkeypatch.setattr(theory, "cases", lambda: wrong)
    monkeypatch.setitem(theory.NODES, "quick", 5)


def test_every_case_and_invariant_is_in_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole quick table passes, and the record written is the record printed."""
    assert command("--json", "--out", str(tmp_path / "theory.json")) == 0
    printed = Validation.model_validate_json(capsys.readouterr().out)
    assert printed == Validation.model_validate_json((tmp_path / "theory.json").read_text(encoding="utf-8"))
    wanted = {(case.name, figure) for case in cases() for figure in case.exact}
    assert wanted <= {(row.where, row.figure) for row in printed.rows}
    assert sum(row.figure.startswith("invariant") for row in printed.rows) == 13


def test_a_wrong_law_ends_with_4_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Were the exact value 1.5 times what it is, the command says which figure contradicts theory."""
    few(monkeypatch, "M/M/1, load 0.5", exact=1.5)
    assert command() == 4
    shown = " ".join(capsys.readouterr().out.split())
    assert "WRONG" in shown
    assert "contradicts theory: M/M/1, load 0.5, mean wait" in shown


def test_a_broken_invariant_ends_with_4(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A check that finds a break is counted, quoted, and ends with 4."""
    few(monkeypatch, "closed network, 1 client")
    monkeypatch.setitem(invariants.FULL, 9, lambda _case, _records: iter(["the moon is full"]))
    assert command("--json") == 4
    broken = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["remark"] == "the moon is full"]
    assert [row["predicted"]["value"] for row in broken] == [5]


def test_an_interval_too_wide_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure whose interval is wider than its case allows is not passed."""
    few(monkeypatch, "closed network, 1 client")
    only = theory.cases()
    monkeypatch.setattr(theory, "cases", lambda: [replace(only[0], within=dict.fromkeys(only[0].exact, 1e-6))])
    assert theory.check(seed=1, quick=True).verdict == "attention"
    assert "too wide" in theory.summary(theory.check(seed=1, quick=True))


def test_chance_alone_is_not_taken_for_a_fault() -> None:
    """Of 400 tables of 24 right figures at most 2 in a hundred are judged wrong, though every fifth has a miss."""
    rng, figures = np.random.default_rng(3), 24
    alarms = with_misses = 0
    for _ in range(400):
        right = Case("right", {str(k): 1.0 for k in range(figures)}, {str(k): 1.0 for k in range(figures)}, 0, 0, dict)
        values = {str(k): rng.normal(1.0, 0.1, 12).tolist() for k in range(figures)}
        table = theory.Table(tuple(theory.judged(right, values, figures)), (), 1.0)
        alarms += table.verdict == "attention"
        with_misses += table.misses > 0
    assert alarms <= 8 + 6  # 1 % + 0.1 % of 400, and three standard deviations
    assert with_misses > 40
    assert theory.allowed_misses(figures) == 3
