"""A run directory appears whole or not at all, and never in the place of something that is not ours."""

from __future__ import annotations

from pathlib import Path

import factories
import pytest
import tiny

from profiles.errors import InputError
from scenarios import loader
from simcap import rundir, table


def make_run(directory: Path, seed: int = 1, overrides: tuple[str, ...] = ()) -> rundir.Run:
    scenario_file, profile_file = tiny.write(directory)
    command = rundir.Command(str(scenario_file), str(profile_file), seed, overrides, report=False)
    return rundir.Run(command, loader.load(str(scenario_file)), scenario_file, profile_file, factories.result())


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_nothing_is_left_behind_when_writing_stops(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    before = set(tmp_path.rglob("*"))

    def stop(result: object) -> bytes:
        raise error

    monkeypatch.setattr(table, "curve_csv", stop)
    with pytest.raises(type(error)):
        rundir.write(run, tmp_path / "deep" / "er" / "out")
    assert set(tmp_path.rglob("*")) == before


def test_the_old_run_survives_when_its_replacement_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, target = make_run(tmp_path), tmp_path / "out"
    rundir.write(run, target)
    before = {p: p.read_bytes() for p in target.rglob("*") if p.is_file()}

    def stop(result: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(table, "curve_csv", stop)
    with pytest.raises(KeyboardInterrupt):
        rundir.write(run, target)
    assert {p: p.read_bytes() for p in target.rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_old_run_comes_back_when_the_rename_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, target = make_run(tmp_path), tmp_path / "out"
    rundir.write(run, target)
    manifest, replace = (target / "manifest.json").read_bytes(), Path.replace

    def fails_for_staging(self: Path, to: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError("rename refused")
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", fails_for_staging)
    with pytest.raises(OSError, match="rename refused"):
        rundir.write(run, target)
    assert (target / "manifest.json").read_bytes() == manifest
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_same_question_may_be_asked_again_in_the_same_place(tmp_path: Path) -> None:
    run, target = make_run(tmp_path), tmp_path / "out"
    rundir.write(run, target)
    rundir.write(run, target)
    assert (target / "result.json").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "tiny.profile.json", "tiny.yaml"]


def test_another_question_does_not_replace_a_run(tmp_path: Path) -> None:
    rundir.write(make_run(tmp_path), tmp_path / "out")
    for other in (make_run(tmp_path, seed=2), make_run(tmp_path, overrides=("slo.latency_ms=9",))):
        with pytest.raises(InputError, match="holds another run"):
            rundir.write(other, tmp_path / "out")


def test_a_directory_of_someone_else_is_refused_and_untouched(tmp_path: Path) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter1.tex").write_text("years of work")
    with pytest.raises(InputError, match="not a run directory"):
        rundir.write(make_run(tmp_path), target)
    assert (target / "chapter1.tex").read_text() == "years of work"


def test_a_note_that_the_user_put_into_a_run_directory_is_not_lost(tmp_path: Path) -> None:
    run, target = make_run(tmp_path), tmp_path / "out"
    rundir.write(run, target)
    (target / "mine.txt").write_text("remember")
    with pytest.raises(InputError, match=r"mine\.txt"):
        rundir.write(run, target)
    assert (target / "mine.txt").read_text() == "remember"


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InputError, match="not a directory"):
        rundir.write(make_run(tmp_path), tmp_path / "out")


def test_an_empty_directory_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    rundir.write(make_run(tmp_path), tmp_path / "out")
    assert (tmp_path / "out" / "result.json").exists()


def test_default_directory_is_named_after_the_question() -> None:
    plain = rundir.Command("s", "p", 7)
    assert rundir.default_target("longctx", "mi300x", plain) == Path("runs/longctx-mi300x-seed7")
    varied = rundir.Command("s", "p", 7, overrides=("slo.latency_ms=9",))
    assert rundir.default_target("longctx", "mi300x", varied).name.startswith("longctx-mi300x-seed7-set")
