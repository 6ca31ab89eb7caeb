from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibrate.artifacts import Artifact, from_file, parse_own
from calibrate.assemble import Run, failures, profile_of
from calibrate.checks import profile_name
from calibrate.fit import law, memory_fit
from calibrate.gpus import device_of
from calibrate.launch import WorkerLauncher
from calibrate.machine import available_cores, machine
from calibrate.plan import cells_of
from calibrate.request import Finished, Request, carry_out
from calibrate.results import LatencyRecord, Outcome, OwnershipRecord, RuntimeRecord, Visit
from calibrate.run import Rules
from profiles import store
from profiles.entry import FellBackCell
from profiles.errors import InputError, MeasurementError, UnavailableError
from profiles.schema import origins
from tests.calibrate.tiny import tiny_file

RULES = Rules(budget_s=4, enough=30, at_least=10, loads=2, target=0.2)


def _request(tmp_path: Path, **more: Any) -> Request:
    own = [parse_own(f"intent={tiny_file(tmp_path)}"), parse_own(f"pii={tiny_file(tmp_path, 'pii')}")]
    fields: dict[str, Any] = {
        "models": [],
        "own": own,
        "providers": ["cpu"],
        "tokens": [16, 48],
        "batches": [1],
        "threads": 1,
        "rules": RULES,
        "seed": 1,
        "cache": tmp_path / "cache",
        "out": tmp_path / "node.profile.json",
    }
    return Request(**{**fields, **more})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path]:
    """One real calibration of two tiny models, shared by the tests that look at it."""
    folder = tmp_path_factory.mktemp("measured")
    request = _request(folder)
    return carry_out(request, WorkerLauncher, lambda _: None), request.out


def test_profile_on_disk_is_the_one_returned(finished: tuple[Finished, Path]) -> None:
    """The written file validates as a profile, is named after its file, and no journal stays beside it."""
    done, out = finished
    read = store.load(str(out))
    assert read == done.profile
    assert read.name == "node"
    assert list(out.parent.glob("*.journal")) == []
    assert done.failures == ()


def test_every_number_is_measured_but_the_occupancy(finished: tuple[Finished, Path]) -> None:
    """All numbers have origin `measured` and a count; the occupancy is modeled as threads / cores and says so."""
    profile = finished[0].profile
    points = [p for e in profile.entries for p in e.occupancy]
    assert origins(profile).keys() == {"measured", "modeled"}
    assert origins(profile)["modeled"] == len(points) == 4
    assert {p.value for p in points} == {1 / available_cores()}
    assert all("threads / cores" in (p.doubt or "") for p in points)


def test_entries_answer_the_simulators_questions(finished: tuple[Finished, Path]) -> None:
    """Both cadences give surfaces over the calibrated range, load and first runs are laws, ownership is proven."""
    profile = finished[0].profile
    assert [(e.model, e.artifact, e.task) for e in profile.entries] == [
        ("intent", "intent_fp32", "sequence_classification"),
        ("pii", "pii_fp32", "token_classification"),
    ]
    for entry in profile.entries:
        assert entry.surface("tight").range_of_tokens() == (16, 48)
        assert entry.surface("paced").range_of_tokens() == (16, 48)
        assert entry.load is not None
        assert entry.load.n >= 4
        assert [c.tokens for c in entry.first_run] == [16, 48]
        assert entry.ownership is not None
        assert entry.ownership.verdict == "owned"
        assert entry.memory is not None
        assert [c.tokens for c in entry.memory.cells] == [16, 48]
        for cell in entry.service.cells if entry.service else ():
            assert cell.n >= 10
            assert cell.median_lo is not None
            assert cell.median_hi is not None
            assert cell.median_lo <= cell.law().ppf(0.5) <= cell.median_hi


def test_wide_interval_is_stated_as_a_doubt() -> None:
    """A law whose median is not pinned down to the target says how wide its interval is; a narrow one says nothing."""
    wide = law([1.0, 2.0] * 6, target=0.03)
    assert "66.7% wide" in wide["doubt"]
    assert "doubt" not in law([1.0] * 100, target=0.03)
    assert "fewer than six" in law([1.0, 2.0], target=0.03)["doubt"]


def test_memory_fit() -> None:
    """Bytes that follow weights + a + b·tokens + c·tokens² give back a, b and c; a stray cell shows in the residual."""

    def law_of(t: int) -> float:
        return 1e9 + 5e6 + 3e4 * t + 24.0 * t * t

    points = {t: law_of(t) for t in (32, 128, 512, 2048, 8192)}
    fit = memory_fit(1, points, 1e9)
    assert fit is not None
    assert fit.a_bytes == pytest.approx(5e6, rel=1e-3)
    assert fit.b_bytes_per_token == pytest.approx(3e4, rel=1e-3)
    assert fit.c_bytes_per_token2 == pytest.approx(24, rel=1e-3)
    assert fit.largest_residual < 10
    stray = memory_fit(1, {**points, 512: points[512] + 8e6}, 1e9)
    assert stray is not None
    assert stray.largest_residual > 1e6
    assert memory_fit(1, {t: points[t] for t in (32, 128, 512)}, 1e9) is None


def _crashing(on_tokens: int, status: str = "crashed") -> Any:
    """The real launcher, except that cells of so many tokens end badly."""
    real = WorkerLauncher()

    def launch(job: Mapping[str, Any], limit_s: float) -> Outcome:
        if job.get("tokens") == on_tokens and job["op"] == "cell":
            return Outcome(status=status, reason="killed by SIGSEGV", wall_s=0.1)
        return real(job, limit_s)

    return launch


def test_a_lost_cell_is_left_out_and_told(tmp_path: Path) -> None:
    """The profile has the other cells, its notes and the report name the lost one and why."""
    request = _request(tmp_path, own=[parse_own(f"intent={tiny_file(tmp_path)}")], rules=replace(RULES, budget_s=2))
    done = carry_out(request, lambda _: _crashing(48), lambda _: None)
    assert [c.tokens for c in done.profile.entries[0].service.cells] == [16]  # type: ignore[union-attr]
    assert len(done.failures) == 1
    assert "48 tokens" in done.failures[0]
    assert "killed by SIGSEGV" in done.failures[0]
    assert any(done.failures[0] in note for note in done.profile.notes)


def test_nothing_measured_is_an_error(tmp_path: Path) -> None:
    """When every cell is lost there is no profile, the error tells why, and the next run starts anew."""
    request = _request(tmp_path, own=[parse_own(f"intent={tiny_file(tmp_path)}")], tokens=[48])
    with pytest.raises(MeasurementError, match="killed by SIGSEGV"):
        carry_out(request, lambda _: _crashing(48), lambda _: None)
    assert list(tmp_path.glob("*.json*")) == []
    assert list(tmp_path.glob(".*")) == []


def test_interrupted_run_goes_on(tmp_path: Path) -> None:
    """What was measured before an interruption is in the profile and is not measured again."""
    real, calls = WorkerLauncher(), []

    def interrupted(job: Mapping[str, Any], limit_s: float) -> Outcome:
        if job["op"] == "cell" and len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(job["op"])
        return real(job, limit_s)

    request = _request(tmp_path, rules=replace(RULES, budget_s=2))
    with pytest.raises(KeyboardInterrupt):
        carry_out(
            request, lambda _: lambda j, s: interrupted(j, s) if j["op"] == "cell" else real(j, s), lambda _: None
        )
    seen: list[tuple[str, int]] = []

    def counting(job: Mapping[str, Any], limit_s: float) -> Outcome:
        if job["op"] == "cell" and job["memory"]:
            seen.append((str(job["model"]), int(job["tokens"])))
        return real(job, limit_s)

    done = carry_out(request, lambda _: counting, lambda _: None)
    assert done.resumed == 3
    assert len(seen) == 2  # of four cells two were there: a sentinel and two cells before the interruption
    assert all(e.service and len(e.service.cells) == 2 for e in done.profile.entries)


def test_cell_that_another_provider_ran_is_kept_out() -> None:
    """A cell whose nodes all ran elsewhere is `fell_back`: no surface, verdict and reason in the profile."""
    artifact = Artifact("m", "fp32", "embedding", Path("m"), "sha256:m", 1, 10)
    cells = cells_of([artifact], ["migraphx"], [16], [1], threads=1)
    record = OwnershipRecord(
        kind="ownership",
        session_providers=("MIGraphXExecutionProvider", "CPUExecutionProvider"),
        nodes={"CPUExecutionProvider": 9},
        ns={"CPUExecutionProvider": 5.0},
        cpu_operators={"MatMul": 9},
    )
    latency = LatencyRecord(kind="latency", cadence="tight", ns=(5,) * 20, warm_up=0, stopped="budget")
    outcome = Outcome(status="done", records=(latency, record), wall_s=1)
    runtime = RuntimeRecord(kind="runtime", python="3", numpy="2", onnxruntime="1", providers=())
    run = Run(
        cells=cells,
        artifacts={("m", "fp32"): artifact},
        visits=[Visit(cell=cells[0].key, role="cell", started="t", outcome=outcome)],
        rules=RULES,
        machine=machine(),
        runtimes={"migraphx": runtime},
        known={},
        gates={},
        device=device_of("cpu", machine(), None),
        drift=None,
        simcap="0",
    )
    entry = profile_of(run, "p", "now").entries[0]
    assert entry.service is None
    assert entry.ownership is not None
    assert entry.ownership.verdict == "fell_back"
    reason = "nodes by the profile: 9 on CPUExecutionProvider; on the CPU: 9 MatMul"
    assert entry.ownership.fell_back == (FellBackCell(tokens=16, batch=1, reason=reason),)
    assert failures(run) == [f"m fp32 on migraphx fell back at 16 tokens: {reason}"]


def test_runtime_without_onnxruntime_says_what_to_install(tmp_path: Path) -> None:
    """An interpreter without ONNX Runtime is exit code 3 and names the extra."""
    bare = tmp_path / "worker.py"
    bare.write_text(
        "import json, os, sys\njob = json.load(sys.stdin)\npipe = os.fdopen(job['results_fd'], 'w')\n"
        "pipe.write(json.dumps({'kind': 'failure', 'type': 'ModuleNotFoundError', 'message': \"No module named 'onnxruntime'\"}))\n"
    )
    with pytest.raises(UnavailableError, match="simcap runtimes install cpu") as error:
        carry_out(_request(tmp_path), lambda _: WorkerLauncher(worker=bare), lambda _: None)
    assert "No module named 'onnxruntime'" in str(error.value)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"providers": ["cpus"]}, InputError, "did you mean 'cpu'"),
        ({"providers": []}, InputError, "name at least one"),
        ({"runtimes": {"rocm": Path("/x")}}, InputError, "rocm is not among"),
        ({"threads": 4096}, InputError, "--threads 4096"),
        ({"models": ["mmbert-mini-intents"]}, InputError, "did you mean 'mmbert-mini-intent'"),
        ({"models": ["mmbert-mini-pii"] * 2}, InputError, "asked for twice"),
        ({"own": []}, InputError, "nothing to measure"),
        ({"out": Path("/")}, InputError, "is a directory"),
    ],
    ids=str,
)
def test_wrong_requests(tmp_path: Path, change: dict[str, Any], error: type[Exception], words: str) -> None:
    """Each wrong request is refused, with words that help, before anything is built or measured."""

    def never(job: Mapping[str, Any], limit_s: float) -> Outcome:
        raise AssertionError("a worker was started")

    with pytest.raises(error, match=words):
        carry_out(_request(tmp_path, **change), lambda _: never, lambda _: None)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("intent", "expected name=path"),
        ("=x.onnx", "expected name=path"),
        ("intent=/no/such.onnx", "/no/such.onnx is not a file"),
        ("intent:embeding=/x", "did you mean 'embedding'"),
    ],
)
def test_wrong_own_models(argument: str, words: str) -> None:
    """A --model that is not name=path, names no file or no task is refused."""
    with pytest.raises(InputError, match=words):
        parse_own(argument)


def test_own_models_task(tmp_path: Path) -> None:
    """The task is read from the outputs, and what the person says goes before it."""
    path = tiny_file(tmp_path, "embedding")
    launch = WorkerLauncher()
    assert from_file(parse_own(f"e={path}"), launch).task == "embedding"
    assert from_file(parse_own(f"e:reranking={path}"), launch).task == "reranking"


def test_file_that_is_no_model(tmp_path: Path) -> None:
    """A file that ONNX Runtime cannot load is wrong input, in the library's words."""
    (tmp_path / "x.onnx").write_text("hello")
    with pytest.raises(InputError, match="cannot load it"):
        from_file(parse_own(f"x={tmp_path / 'x.onnx'}"), WorkerLauncher())


@pytest.mark.parametrize(
    ("out", "name"), [("a/Node 7.profile.json", "node-7"), ("cpu.json", "cpu"), ("x.y_z", "x.y_z")]
)
def test_profile_is_named_after_its_file(out: str, name: str) -> None:
    """The name is the file's, in the characters that a profile's name may have."""
    assert profile_name(Path(out)) == name
