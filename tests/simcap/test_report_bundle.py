"""The script of the figures is made once a version, and a damaged copy of it is never used."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcap.report import bundle


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Counts how often the script is made; making it is replaced by a short text."""
    calls: list[int] = []
    monkeypatch.setenv("SIMCAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bundle, "make", lambda: calls.append(1) or "drawing();\r\n")
    return calls


def test_the_script_is_made_once_and_read_afterwards(made: list[int]) -> None:
    """The second page takes the first one's script, to the letter."""
    assert bundle.script() == bundle.script() == "drawing();\r\n"
    assert len(made) == 1


@pytest.mark.parametrize("damage", [b"", b"junk", b"drawing();\r\n"])
def test_a_damaged_copy_is_made_again(made: list[int], tmp_path: Path, damage: bytes) -> None:
    """A copy that is empty, cut short or without its digest is replaced by a whole one."""
    bundle.script()
    bundle.path_in(tmp_path / "cache").write_bytes(damage)
    assert bundle.script() == "drawing();\r\n"
    assert len(made) == 2
    assert bundle.read(bundle.path_in(tmp_path / "cache")) == "drawing();\r\n"


def test_a_cache_that_cannot_be_written_costs_only_time(
    made: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cache directory is a file, every page makes its script and none fails."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIMCAP_CACHE", str(tmp_path / "file"))
    assert bundle.script() == bundle.script()
    assert len(made) == 2
