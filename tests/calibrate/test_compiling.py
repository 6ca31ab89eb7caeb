from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from calibrate.artifacts import Artifact
from calibrate.bench import Bench
from calibrate.compiling import ROUNDS, measure_compiles, proof_of, shapes_to_compile
from calibrate.entries import Evidence, entry_of
from calibrate.journal import Journal
from calibrate.plan import PlannedCell, cells_of
from calibrate.results import CompileRecord, Outcome
from calibrate.run import Rules
from calibrate.worker.compiling import files_in
from calibrate.worker.provider import captured, reason_in

ARTIFACT = Artifact("m", "fp32", "embedding", Path("/m.onnx"), "sha256:m", 1000, 10)
BY_NAME = {("m", "fp32"): ARTIFACT}


def _cells(provider: Any) -> list[PlannedCell]:
    return cells_of([ARTIFACT], [provider], [16, 64], [1], threads=1)


class Compiler:
    """Stands in for a runtime that compiles: 30 s cold, 2 s when its cache has a file for the process to read."""

    def __init__(self, breaks_at: int = 10**9, writes: bool = True) -> None:
        self.jobs: list[Mapping[str, Any]] = []
        self.breaks_at, self.writes = breaks_at, writes

    def __call__(self, job: Mapping[str, Any], limit_s: float) -> Outcome:
        self.jobs.append(job)
        if len(self.jobs) == self.breaks_at:
            raise KeyboardInterrupt
        folder = Path(job["cache_dir"])
        before = files_in(folder)
        if self.writes and not before:
            (folder / "program.mxr").write_text("compiled")
        record = CompileRecord.model_validate(
            {
                "kind": "compile",
                "create_ns": 10**9,
                "first_run_ns": 10**9 * (1 if before else 29),
                "before": before,
                "after": files_in(folder),
                "read": [f["name"] for f in before],
            }
        )
        return Outcome(status="done", records=(record,), wall_s=1)


def _measure(journal: Journal, compiler: Compiler, provider: Any) -> None:
    chosen = shapes_to_compile(_cells(provider))
    measure_compiles(chosen, Bench(BY_NAME, {provider: compiler}, journal, 60, 1, lambda _: None))


def _compile(journal: Journal, provider: Any) -> Any:
    evidence = Evidence(journal.visits, Rules(budget_s=1), 2, {})
    return entry_of(_cells(provider), ARTIFACT, evidence).compile


def test_each_shape_where_each_compiles(tmp_path: Path) -> None:
    """MIGraphX: two pairs a shape, each pair on a directory of its own; the time is session and first run together."""
    journal, compiler = Journal(tmp_path / "p.json", {}), Compiler()
    _measure(journal, compiler, "migraphx")
    folders = [j["cache_dir"] for j in compiler.jobs]
    assert len(folders) == 2 * 2 * ROUNDS["migraphx"]
    assert folders[0::2] == folders[1::2]
    assert len(set(folders)) == len(folders) // 2
    assert all(j["provider_options"]["migraphx_model_cache_dir"] == j["cache_dir"] for j in compiler.jobs)
    found = _compile(journal, "migraphx")
    assert found.per_shape
    assert found.cache == "used"
    medians = {(c.tokens, c.cache): c.law().ppf(0.5) for c in found.cells}
    assert medians == {(t, k): pytest.approx(s) for t in (16, 64) for k, s in (("cold", 30), ("warm", 2))}
    assert all(c.doubt is None for c in found.cells)


def test_once_where_the_session_compiles(tmp_path: Path) -> None:
    """OpenVINO: six pairs for the smallest shape alone, and the first run does not count as compiling."""
    journal, compiler = Journal(tmp_path / "p.json", {}), Compiler()
    _measure(journal, compiler, "openvino")
    assert len(compiler.jobs) == 2 * 6
    found = _compile(journal, "openvino")
    assert not found.per_shape
    assert [(c.tokens, c.cache, c.n, c.median_lo) for c in found.cells] == [(16, "cold", 6, 1), (16, "warm", 6, 1)]


def test_an_option_without_effect_is_a_finding(tmp_path: Path) -> None:
    """A cache option that is accepted and leaves no file is told, and the warm times say that they are compiles."""
    journal = Journal(tmp_path / "p.json", {})
    _measure(journal, Compiler(writes=False), "openvino")
    found = _compile(journal, "openvino")
    assert found.cache == "absent"
    assert "no file appeared" in found.proof
    assert ["NOT used" in (c.doubt or "") for c in found.cells] == [False, True]


def test_interrupted_pairs_are_made_again_and_no_other(tmp_path: Path) -> None:
    """Stopped between the two processes of a pair, the pair is made again; finished pairs are not."""
    with pytest.raises(KeyboardInterrupt):
        _measure(Journal(tmp_path / "p.json", {"k": 1}), Compiler(breaks_at=6), "openvino")
    journal, compiler = Journal(tmp_path / "p.json", {"k": 1}), Compiler()
    assert len(journal.visits) == 2
    _measure(journal, compiler, "openvino")
    assert len(journal.visits) == 6
    assert len(compiler.jobs) == 2 * 4


def test_the_cpu_provider_compiles_nothing() -> None:
    """Providers without a compile step have no compile visits."""
    assert shapes_to_compile(_cells("cpu")) == []


@pytest.mark.parametrize(
    ("before", "after", "read", "proof"),
    [([5], [5], ("a",), "used"), ([5], [5], (), "unread"), ([5], [6], ("a",), "rewritten"), ([], [], (), "absent")],
)
def test_proofs(before: list[int], after: list[int], read: tuple[str, ...], proof: str) -> None:
    """Files read and left alone prove use; left alone unread, written again, or absent prove something else."""
    sides = [[{"name": "a", "bytes": 1, "changed_ns": t, "number": 1} for t in side] for side in (before, after)]
    fields = {"before": sides[0], "after": sides[1], "read": read}
    record = CompileRecord.model_validate({"kind": "compile", "create_ns": 1, "first_run_ns": 1, **fields})
    assert proof_of(record) == proof


def test_what_libraries_print_is_captured_below_python(capfd: pytest.CaptureFixture[str]) -> None:
    """Text written to descriptors 1 and 2 by anyone is collected, and both work as before afterwards."""
    import os

    with captured() as told:
        os.write(1, b"to one\n")
        os.write(2, b"to two\n")
    assert told == ["to one\nto two\n"]
    os.write(1, b"later\n")
    assert capfd.readouterr().out == "later\n"


def test_the_librarys_reason() -> None:
    """Of a noisy log the failing sentence stays, without colour, time and source position."""
    text = (
        "hello\n\x1b[1;31m2026-01-01 10:00:00.1 [E:onnxruntime:Default, x.cc:1 f] /src/x.cc:9 g() [ONNXRuntimeError] : 1 : "
        "FAIL : Failed to load library a.so with error: b.so.3: cannot open shared object file\x1b[m\n"
    )
    told = reason_in(text)
    assert told == (
        "[ONNXRuntimeError] : 1 : FAIL : Failed to load library a.so with error: b.so.3: cannot open shared object file"
    )
