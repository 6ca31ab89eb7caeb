from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from calibrate.launch import WORKER, WorkerLauncher
from calibrate.results import (
    FirstRunRecord,
    LatencyRecord,
    LoadedRecord,
    MemoryRecord,
    OwnershipRecord,
    RuntimeRecord,
    TensorRecord,
)
from calibrate.worker import memory
from calibrate.worker.ownership import count
from calibrate.worker.sampling import exponential_gaps, sample
from tests.calibrate.tiny import tiny_file

RULE = {"seconds": 0.3, "enough": 30, "at_least": 10, "target": 0.5}


def _job(model: Path, **more: Any) -> dict[str, Any]:
    base = {"model": str(model), "provider": "CPUExecutionProvider", "threads": 1, "tokens": 16, "batch": 2}
    return {"op": "cell", **base, "max_id": 1000, "seed": 1, "loads": 1, **more}


def test_a_real_cell(tmp_path: Path) -> None:
    """One worker measures load, first run, memory, both cadences and ownership of a real model."""
    job = _job(
        tiny_file(tmp_path), loads=3, memory=True, ownership=True, tight=RULE, paced={**RULE, "gap_over_service": 1.5}
    )
    outcome = WorkerLauncher()(job, 60)
    assert outcome.status == "done", outcome.reason
    found = {kind: [r for r in outcome.records if isinstance(r, kind)] for kind in map(type, outcome.records)}
    assert sum(len(r.ns) for r in found[LoadedRecord]) == sum(len(r.ns) for r in found[FirstRunRecord]) == 3
    tight, paced = found[LatencyRecord]
    assert (tight.cadence, paced.cadence) == ("tight", "paced")
    assert len(tight.settled_s) >= 10
    assert len(paced.settled_s) >= 10
    assert paced.mean_gap_s > 0
    used = found[MemoryRecord][0]
    assert used.idle_bytes < used.loaded_bytes <= used.load_peak_bytes
    assert used.loaded_bytes <= used.peak_bytes
    assert used.steady_bytes <= used.peak_bytes
    ran = found[OwnershipRecord][0]
    assert ran.nodes.keys() == {"CPUExecutionProvider"}
    assert sum(ran.cpu_operators.values()) == ran.nodes["CPUExecutionProvider"]
    assert ran.ns["CPUExecutionProvider"] > 0


def test_peak_memory_grows_with_the_shape(tmp_path: Path) -> None:
    """A long text needs the memory of its attention scores: at least batch x heads x tokens^2 x 4 bytes."""
    model = tiny_file(tmp_path)
    needs = {}
    for tokens in (16, 1500):
        outcome = WorkerLauncher()(_job(model, tokens=tokens, batch=1, memory=True), 60)
        used = next(r for r in outcome.records if isinstance(r, MemoryRecord))
        needs[tokens] = used.peak_bytes - used.loaded_bytes
    assert needs[1500] - needs[16] > 2 * 1500 * 1500 * 4


def test_peak_is_seen_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is taken and given back within the action is seen by the kernel's mark, and by sampling without it."""

    def take() -> None:
        block = np.ones(40_000_000, dtype=np.uint8)
        time.sleep(0.1)
        del block

    for path, how in ((memory.CLEAR, "high_water_mark"), (tmp_path / "no" / "clear_refs", "sampled")):
        monkeypatch.setattr(memory, "CLEAR", path)
        before = memory.held()
        peak, found = memory.peak_while(take)
        assert found == how
        assert peak - before > 35_000_000


def test_worker_runs_alone_when_copied(tmp_path: Path) -> None:
    """Copied elsewhere and isolated, the worker still measures, and nothing of ours outside it is imported."""
    copy = tmp_path / "elsewhere" / "measuring"
    shutil.copytree(WORKER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    outcome = WorkerLauncher(worker=copy)(_job(tiny_file(tmp_path), tight=RULE), 60)
    assert outcome.status == "done", outcome.reason
    spy = (
        "import runpy, sys\n"
        "try: runpy.run_path(sys.argv[1], run_name='__main__')\n"
        "except SystemExit: pass\n"
        "ours = {'calibrate', 'profiles', 'scenarios', 'sim', 'simcap'}\n"
        "print(sorted(ours & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    job = json.dumps({"op": "probe", "results_fd": 2})
    done = subprocess.run(
        [sys.executable, "-I", "-c", spy, str(copy / "__main__.py")],
        input=job,
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    assert '"kind":"end"' in done.stderr


def test_probe_tells_versions_and_providers() -> None:
    """A runtime says which ONNX Runtime and which providers it has."""
    outcome = WorkerLauncher()({"op": "probe"}, 60)
    record = outcome.records[0]
    assert isinstance(record, RuntimeRecord)
    assert "CPUExecutionProvider" in record.providers


def test_inspect_lists_inputs_and_outputs(tmp_path: Path) -> None:
    """A model's inputs and outputs come from the session."""
    outcome = WorkerLauncher()({**_job(tiny_file(tmp_path, "pii")), "op": "inspect"}, 60)
    seen = {(r.role, r.name): r.shape for r in outcome.records if isinstance(r, TensorRecord)}
    assert seen == {
        ("input", "input_ids"): ("batch", "tokens"),
        ("input", "attention_mask"): ("batch", "tokens"),
        ("output", "logits"): ("batch", "tokens", 35),
    }


@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [
        ("pixel_values", TensorProto.FLOAT, ["batch", 3, "side", "side"]),
        ("input_ids", TensorProto.FLOAT, ["batch", "tokens"]),
        ("input_ids", TensorProto.INT64, ["tokens"]),
    ],
)
def test_unsupported_inputs_are_refused(tmp_path: Path, name: str, dtype: int, shape: list[str | int]) -> None:
    """An input that we cannot make up honestly is refused by name."""
    value = helper.make_tensor_value_info(name, dtype, shape)
    out = helper.make_tensor_value_info("out", dtype, shape)
    graph = helper.make_graph([helper.make_node("Identity", [name], ["out"])], "g", [value], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "odd.onnx"))
    outcome = WorkerLauncher()(_job(tmp_path / "odd.onnx", tight=RULE), 60)
    assert outcome.failure_type == "UnsupportedInputError"
    assert repr(name) in (outcome.reason or "")


def test_sampling_stops_when_narrow() -> None:
    """A steady inference ends sampling by its narrow interval, long before the budget."""
    found = sample(_work, {"seconds": 60, "enough": 50, "at_least": 10, "target": 0.9})
    assert found["stopped"] == "narrow"
    assert 50 <= len(found["ns"]) < 2000


def test_sampling_stops_with_the_budget_but_not_before_the_least() -> None:
    """Without a narrow interval the budget ends sampling, yet at least so many samples are taken."""
    found = sample(_work, {"seconds": 0.0, "enough": 10**6, "at_least": 12, "target": 0.0})
    assert found["stopped"] == "budget"
    assert len(found["ns"]) == 12


def _work() -> int:
    return sum(range(20_000))


def test_gaps_are_exponential() -> None:
    """Idle gaps have the mean asked for and the exponential's equal standard deviation."""
    gap = exponential_gaps(0.25, seed=1)
    gaps = [gap() for _ in range(20_000)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(0.25, rel=0.03)
    assert spread == pytest.approx(0.25, rel=0.05)


def test_ownership_counts_kernels_per_provider() -> None:
    """Only kernel events count; a compiled subgraph is one node, and the operators left on the CPU are named."""

    def event(name: str, provider: str, operator: str, microseconds: int) -> dict[str, Any]:
        return {"cat": "Node", "name": name, "dur": microseconds, "args": {"provider": provider, "op_name": operator}}

    events = [
        {"cat": "Session", "name": "model_run", "dur": 99},
        {**event("a_fence_before", "CPUExecutionProvider", "Add", 50)},
        *[event("MGXKernel_0_kernel_time", "MIGraphXExecutionProvider", "MGXKernel_0", 300)] * 2,
        *[event("range_kernel_time", "CPUExecutionProvider", "Range", 10)] * 2,
        *[event("pad_kernel_time", "CPUExecutionProvider", "Pad", 20)] * 2,
    ]
    found = count(events, runs=2)
    assert found["nodes"] == {"MIGraphXExecutionProvider": 1, "CPUExecutionProvider": 2}
    assert found["ns"] == {"MIGraphXExecutionProvider": 300_000, "CPUExecutionProvider": 30_000}
    assert found["cpu_operators"] == {"Range": 1, "Pad": 1}
