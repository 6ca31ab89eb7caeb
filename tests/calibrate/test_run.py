from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from calibrate.artifacts import Artifact
from calibrate.bench import Bench
from calibrate.journal import Journal
from calibrate.launch import Launch
from calibrate.plan import PlannedCell, block, cells_of, sentinel_of
from calibrate.results import LatencyRecord, Outcome, Visit
from calibrate.run import Progress, Rules, Runner

ARTIFACTS = [
    Artifact(name, "fp32", "sequence_classification", Path(f"/{name}.onnx"), f"sha256:{name}", 1000, 10)
    for name in ("a", "b")
]
CELLS = cells_of(ARTIFACTS, ["cpu"], [16, 64, 256], [1, 2], threads=1)


class FakeWorkers:
    """Stands in for real processes: each visit takes `wall_s` and gives `samples` equal latencies, or fails."""

    def __init__(self, fail: Mapping[tuple[str, int, int], Outcome] | None = None, spread: bool = False) -> None:
        self.fail = fail or {}
        self.spread = spread
        self.jobs: list[Mapping[str, Any]] = []

    def __call__(self, job: Mapping[str, Any], limit_s: float) -> Outcome:
        self.jobs.append(job)
        failed = self.fail.get((str(job["model"]), int(job["tokens"]), int(job["batch"])))
        if failed:
            return failed
        base = int(job["tokens"]) * 1000
        ns = tuple(base + (i * base // 50 if self.spread else 0) for i in range(30))
        records = tuple(
            LatencyRecord(kind="latency", cadence=c, ns=ns, warm_up=0, stopped="budget")
            for c in ("tight", "paced")
            if c in job
        )
        return Outcome(status="done", records=records, wall_s=1.0)


def _runner(tmp_path: Path, workers: Launch, budget_s: float = 60.0) -> tuple[Runner, Journal, list[Progress]]:
    journal = Journal(tmp_path / "out.json", {"cells": [c.key for c in CELLS]})
    told: list[Progress] = []
    by_name = {(a.model, a.artifact): a for a in ARTIFACTS}
    bench = Bench(by_name, {"cpu": workers}, journal, 600, 1, lambda _: None)
    return Runner(CELLS, Rules(budget_s=budget_s), bench, told.append), journal, told


def _measured(journal: Journal) -> list[str]:
    return [v.cell for v in journal.visits if v.role == "cell"]


def test_cells_are_every_combination_and_keys_say_what_defines_them() -> None:
    """The matrix gives each combination once; another digest, thread count or shape is another cell."""
    assert len(CELLS) == 2 * 3 * 2
    one = CELLS[0]
    others = [
        PlannedCell(one.model, one.artifact, "sha256:other", "cpu", 1, one.tokens, one.batch),
        PlannedCell(one.model, one.artifact, one.digest, "cpu", 2, one.tokens, one.batch),
    ]
    assert len({c.key for c in [*CELLS, *others]}) == len(CELLS) + 2


def test_block_is_a_random_order_with_the_sentinel_between() -> None:
    """A block holds every cell once in an order of its seed, and no more than five between looks at the sentinel."""
    steps = block(CELLS, sentinel_of(CELLS), seed=1, number=0)
    assert sorted(s.cell.key for s in steps if s.role == "cell") == sorted(c.key for c in CELLS)
    roles = "".join("s" if s.role == "sentinel" else "c" for s in steps)
    assert roles == "scccccscccccsccs"
    assert steps == block(CELLS, sentinel_of(CELLS), seed=1, number=0)
    assert steps != block(CELLS, sentinel_of(CELLS), seed=2, number=0)
    assert steps != block(CELLS, sentinel_of(CELLS), seed=1, number=1)
    assert [s.cell for s in steps if s.role == "cell"] != CELLS


def test_every_cell_is_measured_even_when_the_budget_is_spent(tmp_path: Path) -> None:
    """A budget too small for one pass is exceeded by that pass and nothing more."""
    runner, journal, _ = _runner(tmp_path, FakeWorkers(spread=True), budget_s=0.5)
    runner.run()
    assert sorted(_measured(journal)) == sorted(c.key for c in CELLS)


def test_budget_left_over_goes_to_wide_cells(tmp_path: Path) -> None:
    """Cells whose interval is wide are visited again until the budget ends; the whole stays within it."""
    runner, journal, _ = _runner(tmp_path, FakeWorkers(spread=True), budget_s=60)
    runner.run()
    assert len(_measured(journal)) > len(CELLS)
    assert sum(v.outcome.wall_s for v in journal.visits) <= 60


def test_the_widest_are_visited_first(tmp_path: Path) -> None:
    """Time that is left goes to the cells whose intervals are widest, five at a time; narrow ones get none of it."""
    workers = FakeWorkers(spread=True)
    narrow = FakeWorkers()

    def launch(job: Mapping[str, Any], limit_s: float) -> Outcome:
        return (workers if job["tokens"] == 256 else narrow)(job, limit_s)

    runner, journal, _ = _runner(tmp_path, launch, budget_s=60)
    runner.run()
    wide = {c.key for c in CELLS if c.tokens == 256}
    again = _measured(journal)[len(CELLS) :]
    assert again
    assert set(again) == wide


def test_narrow_cells_are_not_visited_again(tmp_path: Path) -> None:
    """When every interval is narrow the run ends, whatever the budget."""
    runner, journal, _ = _runner(tmp_path, FakeWorkers(), budget_s=10_000)
    runner.run()
    assert len(_measured(journal)) == len(CELLS)


def test_longer_inferences_get_more_time(tmp_path: Path) -> None:
    """The budget is shared out whole, and by what an inference costs, so that long texts get samples too."""
    runner, _, _ = _runner(tmp_path, FakeWorkers())
    shares = {(c.model, c.tokens, c.batch): runner._share(c, CELLS) for c in CELLS}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["a", 256, 2] > shares["a", 64, 2] > shares["a", 16, 1]


def test_only_the_first_visit_is_thorough(tmp_path: Path) -> None:
    """Memory is looked at once a cell, ownership once a model on the CPU; the sentinel and later visits only take time."""
    workers = FakeWorkers(spread=True)
    _runner(tmp_path, workers, budget_s=60)[0].run()
    assert sum(j["memory"] for j in workers.jobs) == len(CELLS)
    assert [(j["tokens"], j["batch"]) for j in workers.jobs if j["ownership"]] == [(256, 2)] * len(ARTIFACTS)
    assert len([j for j in workers.jobs if "paced" in j]) > len(CELLS)


@pytest.mark.parametrize("status", ["crashed", "timed_out", "garbage", "failed", "out_of_memory"])
def test_a_bad_worker_costs_its_cell_only(tmp_path: Path, status: Any) -> None:
    """A visit that ends badly is recorded, and tried once more only when the worker crashed; every other cell is measured."""
    bad = Outcome(status=status, reason="why", wall_s=1.0)
    workers = FakeWorkers(fail={("/a.onnx", 64, 2): bad}, spread=True)
    runner, journal, _ = _runner(tmp_path, workers)
    runner.run()
    lost = [v for v in journal.visits if v.outcome.status != "done"]
    assert [(v.role, v.outcome) for v in lost] == [("cell", bad)] * (2 if status == "crashed" else 1)
    assert {v.cell for v in journal.visits if v.outcome.status == "done"} == {c.key for c in CELLS} - {lost[0].cell}


def test_a_worker_killed_once_costs_nothing(tmp_path: Path) -> None:
    """A cell whose worker died once is measured thoroughly at the second try, and not a third time."""
    workers = FakeWorkers(spread=True)
    died: list[int] = []

    def launch(job: Mapping[str, Any], limit_s: float) -> Outcome:
        if job["tokens"] == 64 and job["batch"] == 2 and not died:
            died.append(1)
            return Outcome(status="crashed", reason="killed by SIGKILL", wall_s=1.0)
        return workers(job, limit_s)

    runner, journal, _ = _runner(tmp_path, launch, budget_s=1)
    runner.run()
    assert sorted(_measured(journal)) == sorted([*(c.key for c in CELLS), _lost(journal)])
    assert sum(j["memory"] for j in workers.jobs) == len(CELLS)


def _lost(journal: Journal) -> str:
    (lost,) = [v.cell for v in journal.visits if v.outcome.status != "done"]
    return lost


def test_progress_counts_cells_and_time(tmp_path: Path) -> None:
    """Before each visit the person hears how many cells are done and how much time is left."""
    runner, _, told = _runner(tmp_path, FakeWorkers(), budget_s=60)
    runner.run()
    assert [p.done for p in told] == sorted(p.done for p in told)
    assert told[0].done == 0
    assert told[-1].done == len(CELLS)
    assert all(p.total == len(CELLS) for p in told)
    assert told[0].left_s == 60
    assert (told[-1].left_s or 0) < 60


def test_journal_survives_a_torn_line(tmp_path: Path) -> None:
    """Killed while writing, the journal loses that line only and goes on clean."""
    visit = Visit(cell="x", role="cell", started="t", outcome=Outcome(status="done", wall_s=1))
    journal = Journal(tmp_path / "p.json", {"k": 1})
    journal.add(visit)
    with journal.path.open("a") as stream:
        stream.write('{"cell": "y", "ro')
    again = Journal(tmp_path / "p.json", {"k": 1})
    assert again.visits == [visit]
    again.add(visit)
    assert Journal(tmp_path / "p.json", {"k": 1}).visits == [visit, visit]


def test_journal_belongs_to_one_request(tmp_path: Path) -> None:
    """Another request, even with the same output file, does not see this journal."""
    journal = Journal(tmp_path / "p.json", {"k": 1})
    journal.add(Visit(cell="x", role="cell", started="t", outcome=Outcome(status="done", wall_s=1)))
    assert Journal(tmp_path / "p.json", {"k": 2}).visits == []


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.calibrate.test_run import FakeWorkers, _runner
import time
class Slow(FakeWorkers):
    def __call__(self, job, limit_s):
        time.sleep(0.03)
        return super().__call__(job, limit_s)
_runner(Path(sys.argv[1]), Slow())[0].run()
"""


def test_kill_and_resume_measures_nothing_twice(tmp_path: Path) -> None:
    """kill -9 at any moment, then the same command: all cells measured, none twice."""
    root = str(Path(__file__).parents[2])
    path = _runner(tmp_path, FakeWorkers())[1].path
    for more_lines, delay in ((3, 0.0), (2, 0.01), (4, 0.02)):
        enough = _lines(path) + more_lines
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), root])
        while _lines(path) < enough and process.poll() is None:
            time.sleep(0.005)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    runner, journal, _ = _runner(tmp_path, FakeWorkers())
    before = len(_measured(journal))
    runner.run()
    assert 0 < before < len(CELLS)
    assert sorted(_measured(journal)) == sorted(c.key for c in CELLS)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
