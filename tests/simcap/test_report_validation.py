"""The report says which validation applies to its profile, or that there is none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from profiles import store
from simcap.report.sections import MODULES
from simcap.report.validation import NONE, section, validation_status
from simcap.validate import record


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped profile in a folder of its own, with no validation beside it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "node.profile.json"
    path.write_bytes(store.locate("mi300x-published").read_bytes())
    return path


def validated(profile: Path, verdict: record.Verdict = "pass") -> record.Validation:
    return record.Validation(
        kind="live",
        profile=record.reference("node", profile),
        scenario="mine",
        date=record.now(),
        machine=record.this_machine(),
        command="simcap validate live",
        verdict=verdict,
        summary="Off by <3 %> at the median.",
        rows=(),
    )


def test_every_report_has_the_section(profile: Path) -> None:
    """It is among the sections that a page is made of, and without a validation it warns."""
    assert "validation" in MODULES
    assert NONE in section(SimpleNamespace(profile_file=profile)).html  # type: ignore[arg-type]  # all that it looks at


def test_the_section_shows_the_record_escaped(profile: Path) -> None:
    """With a validation the section has its sentence, and its largest errors, those that are not counted marked."""
    rows = [
        record.Row(where="<4 clients>", figure="p95", error=0.031),
        record.Row(where="burst", figure="p99", error=-0.5, counted=False, remark="machine moved"),
    ]
    record.write(validated(profile).model_copy(update={"rows": tuple(rows)}), profile)
    html = section(SimpleNamespace(profile_file=profile)).html  # type: ignore[arg-type]  # all that it looks at
    assert NONE not in html
    assert "Validation (live on scenario mine, " in html
    assert "Off by &lt;3 %&gt; at the median." in html
    assert "&lt;4 clients&gt;" in html
    assert "+3.1 %" in html
    assert html.index("+3.1 %") < html.index("-50.0 %") < html.index("not counted: machine moved")


def test_the_shipped_profile_has_one() -> None:
    """A report on the shipped profile says how far published figures were missed."""
    said = validation_status(store.locate("mi300x-published"))
    assert any("Mean absolute error over published latencies that no fit has seen" in status.text for status in said)


def test_what_missed_is_outdated_or_damaged_is_a_warning(profile: Path) -> None:
    """A miss, a record of an earlier state of the profile and a file that is no record are all warnings."""
    path = record.write(validated(profile, "attention"), profile)
    (missed,) = validation_status(profile)
    assert missed.warning
    assert missed.text.endswith("It needs attention.")
    data = json.loads(path.read_text(encoding="utf-8"))
    data["profile"]["sha256"] = "0" * 64
    path.write_text(json.dumps(data), encoding="utf-8")
    (outdated,) = validation_status(profile)
    assert outdated.warning
    assert "1 beside it are of an earlier state" in outdated.text
    path.write_text("{}", encoding="utf-8")
    assert [status.warning for status in validation_status(profile)] == [True, True]
