"""The validation record: where it is written, which profile it applies to, and what is done with one that does not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from profiles import store
from profiles.errors import InputError
from simcap import cli
from simcap.validate import record

DATE = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "node.profile.json"
    path.write_bytes(store.locate("mi300x-published").read_bytes())
    return path


def validation(profile: Path, kind: record.Kind = "live", date: datetime = DATE) -> record.Validation:
    return record.Validation(
        kind=kind,
        profile=record.reference("node", profile),
        date=date,
        machine=record.this_machine(),
        command="simcap validate live",
        verdict="pass",
        summary="Off by 3 % at the median.",
        rows=(record.Row(where="4 clients", figure="p95", measured=record.Estimate(value=2.0), error=0.03),),
    )


def test_it_is_read_back_as_it_was_written(profile: Path) -> None:
    """A record lies beside its profile, under the profile's name and its own kind, and reads back equal."""
    written = validation(profile)
    assert record.write(written, profile) == profile.with_name("node.validation-live.json")
    assert record.applying(profile) == (written,)


def test_the_newest_comes_first(profile: Path) -> None:
    """Kinds stand side by side, the newest first; a newer record of one kind takes the place of the older."""
    old, new = validation(profile, "live"), validation(profile, "metrics", DATE + timedelta(days=1))
    newer = validation(profile, "live", DATE + timedelta(days=2))
    for one in (old, new):
        record.write(one, profile)
    assert record.applying(profile) == (new, old)
    record.write(newer, profile)
    assert record.applying(profile) == (newer, new)


def test_a_changed_profile_has_no_validation(profile: Path) -> None:
    """One changed byte of the profile, and the record is counted as outdated instead of shown as its own."""
    record.write(validation(profile), profile)
    profile.write_bytes(profile.read_bytes() + b"\n")
    assert record.look(profile) == record.Found(outdated=1)


def test_a_record_of_other_bytes_is_not_written(profile: Path) -> None:
    """A profile that changed while it was checked gets no record."""
    stale = validation(profile)
    profile.write_bytes(profile.read_bytes() + b"\n")
    with pytest.raises(InputError, match="changed while it was checked"):
        record.write(stale, profile)


def test_a_shipped_profile_is_written_about_elsewhere(profile: Path, tmp_path: Path) -> None:
    """A check of a shipped profile leaves the installed package as it is: the record goes to the user's data."""
    shipped = store.locate("mi300x-published")
    before = sorted(store.SHIPPED.iterdir())
    written = validation(shipped, "live")
    assert record.write(written, shipped).is_relative_to(tmp_path / "data")
    assert sorted(store.SHIPPED.iterdir()) == before
    assert written in record.applying(shipped)


def test_a_damaged_record_is_named_and_stops_nothing(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is no record is said to be one, and the others are shown all the same."""
    record.write(validation(profile), profile)
    profile.with_name("node.validation-metrics.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "show", str(profile)])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "live, 2026-12-01: pass. Off by 3 % at the median." in shown
    assert "not read:" in shown
    assert "node.validation-metrics.json" in shown.replace("\n", "")


def test_show_prints_json(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the records that apply, and an empty list where there is none."""
    for expected in (0, 1):
        with pytest.raises(SystemExit):
            cli.main(["validate", "show", str(profile), "--json"])
        assert len(json.loads(capsys.readouterr().out)) == expected
        record.write(validation(profile), profile)


def test_an_estimate_says_something() -> None:
    """A range may lack a value or an end, not all of them, and its ends are in order."""
    assert record.Estimate(lo=0.1).hi is None
    for wrong in ({}, {"lo": 2.0, "hi": 1.0}):
        with pytest.raises(ValueError, match=r"needs a value|is above"):
            record.Estimate(**wrong)
