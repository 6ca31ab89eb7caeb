"""Real wheels, installed by `simcap runtimes install` into environments of their own, measured and asked for in vain.

About 1.3 GB of disk while it runs. The machine needs a package index, and no GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calibrate.launch import WorkerLauncher
from calibrate.provider_options import ask
from calibrate.results import Outcome, OwnershipRecord
from profiles import store
from profiles.errors import InputError
from profiles.schema import Profile
from tests.calibrate.tiny import tiny_file

pytestmark = pytest.mark.wheels


def _simcap(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SIMCAP_CACHE": str(cache), "COLUMNS": "200"}
    command = [sys.executable, "-m", "simcap", *arguments]
    return subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the openvino, migraphx and rocm runtimes; migraphx and rocm where the machine has their libraries too."""
    folder = tmp_path_factory.mktemp("cache")
    for name in ("openvino", "migraphx", "rocm"):
        done = _simcap(folder, "runtimes", "install", name)
        assert done.returncode == 0, done.stderr
    return folder


def _calibrate(cache: Path, out: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    fixed = ("--gpu", "cpu", "--tokens", "16,48", "--threads", "1", "--budget", "4", "--out", out)
    return _simcap(cache, "calibrate", *fixed, *arguments)


@pytest.fixture(scope="module")
def both(cache: Path) -> Profile:
    """One profile of a classifier and an embedder on cpu and openvino."""
    models = [f"--model={name}={tiny_file(cache, name)}" for name in ("intent", "embedding")]
    done = _calibrate(cache, "both.profile.json", *models, "--providers", "cpu,openvino")
    assert done.returncode == 0, done.stdout + done.stderr
    return store.load(str(cache / "both.profile.json"))


def test_one_profile_with_both_providers(both: Profile) -> None:
    """cpu and openvino stand in one profile, each with surfaces, first runs, memory and proven ownership."""
    assert [(e.model, e.provider.name) for e in both.entries] == [
        ("intent", "cpu"),
        ("intent", "openvino"),
        ("embedding", "cpu"),
        ("embedding", "openvino"),
    ]
    for entry in both.entries:
        assert entry.surface("tight").range_of_tokens() == entry.surface("paced").range_of_tokens() == (16, 48)
        assert [c.tokens for c in entry.first_run] == [16, 48]
        assert entry.memory is not None
        assert len(entry.memory.cells) == 2
        assert entry.ownership is not None
        assert entry.ownership.verdict == "owned"
    assert both.software["onnxruntime of openvino"] == "1.24.1"
    assert both.software["onnxruntime of cpu"] != "1.24.1"


def test_openvino_runs_the_graph_as_one_node(both: Profile) -> None:
    """All nodes of the model are one compiled subgraph of OpenVINO, and none is left to the CPU provider."""
    entry = both.entry("intent", "intent_fp32", "openvino")
    assert entry.ownership is not None
    assert entry.ownership.nodes == {"OpenVINOExecutionProvider": 1}
    assert entry.provider.options == {"device_type": "CPU", "num_of_threads": "1"}


def test_openvino_session_with_its_cache_cold_and_warm(both: Profile) -> None:
    """Six cold and six warm creations have medians with intervals, and the profile says what the cache did by its files.

    This wheel writes a cache that it cannot read: it opens the file, removes it and compiles again. `used` would be news.
    """
    compiled = both.entry("intent", "intent_fp32", "openvino").compile
    assert compiled is not None
    assert not compiled.per_shape
    assert [(c.cache, c.n) for c in compiled.cells] == [("cold", 6), ("warm", 6)]
    assert all(c.median_lo and c.median_hi and c.median_lo <= c.median_hi for c in compiled.cells)
    assert compiled.cache == "rewritten"
    assert "6 of 6" in (compiled.proof or "")
    assert "compiled again" in (compiled.cells[1].doubt or "")


def test_openvino_drift(both: Profile) -> None:
    """OpenVINO's outputs are those of the CPU provider up to rounding, and no gate rejects them."""
    embedding = both.entry("embedding", "embedding_fp32", "openvino").accuracy
    intent = both.entry("intent", "intent_fp32", "openvino").accuracy
    assert embedding is not None
    assert intent is not None
    assert embedding.cosine is not None
    assert embedding.cosine.value > 0.9999
    assert intent.label_agreement is not None
    assert intent.label_agreement.value == 1
    for accuracy in (embedding, intent):
        assert accuracy.max_abs_difference is not None
        assert accuracy.max_abs_difference.value < 1e-4
        assert (accuracy.non_finite_outputs, accuracy.rejected) == (0, None)
    assert both.entry("intent", "intent_fp32", "cpu").accuracy is None


def test_a_gate_rejects(cache: Path) -> None:
    """An embedding under the gate that was set keeps its drift and loses its surface; exit code 4 says so."""
    model = f"--model=embedding={tiny_file(cache, 'embedding')}"
    done = _calibrate(cache, "r.profile.json", model, "--providers", "openvino", "--gate", "embedding-cosine=1")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "is below the gate embedding-cosine=1" in done.stderr
    (entry,) = store.load(str(cache / "r.profile.json")).entries
    assert (entry.service, entry.paced_service) == (None, None)
    assert entry.accuracy is not None
    with pytest.raises(InputError, match="below the gate"):
        entry.surface()


MISSING = {"migraphx": "libmigraphx_c.so.3: cannot open", "rocm": "libhipblas.so.3: cannot open"}


@pytest.mark.parametrize("provider", MISSING)
def test_asking_for_a_provider_that_cannot_load(cache: Path, provider: str) -> None:
    """Every cell is `fell_back` with the missing library's name, there is no surface, and the exit code is 4."""
    model = f"--model=intent={tiny_file(cache)}"
    done = _calibrate(cache, f"{provider}.profile.json", model, "--providers", provider)
    assert done.returncode == 4, done.stdout + done.stderr
    assert MISSING[provider] in done.stderr
    (entry,) = store.load(str(cache / f"{provider}.profile.json")).entries
    assert (entry.service, entry.paced_service, entry.compile, entry.memory) == (None, None, None, None)
    assert entry.ownership is not None
    assert entry.ownership.verdict == "fell_back"
    assert [(c.tokens, MISSING[provider] in c.reason) for c in entry.ownership.fell_back] == [(16, True), (48, True)]
    with pytest.raises(InputError, match="cannot open"):
        entry.surface()


def test_strict_writes_nothing(cache: Path) -> None:
    """With --strict a provider that cannot load is exit code 4 before any cell is measured, and no file is written."""
    model = f"--model=intent={tiny_file(cache)}"
    done = _calibrate(cache, "strict.profile.json", model, "--providers", "cpu,rocm", "--strict")
    assert done.returncode == 4
    assert MISSING["rocm"] in done.stderr
    assert list(cache.glob("*strict*")) + list(cache.glob(".*strict*")) == []


def test_doctor_shows_what_is_missing(cache: Path) -> None:
    """The screen names each runtime, the missing libraries and what to do; what is needed and missing is exit code 3."""
    done = _simcap(cache, "doctor", "--need", "openvino")
    assert done.returncode == 0, done.stderr
    assert "openvino: loads" in done.stdout
    for provider, words in MISSING.items():
        assert f"{provider}: does not load" in done.stdout
        assert words in done.stdout
    needed = _simcap(cache, "doctor", "--need", "migraphx")
    assert needed.returncode == 3
    assert "install MIGraphX" in needed.stderr


def test_options_are_asked_of_the_build(cache: Path) -> None:
    """This build takes the options that we give; one that it does not know is wrong input in its own words."""
    launch = WorkerLauncher(cache / "runtimes/openvino/bin/python")
    known = ask("openvino", launch, 3, {})
    assert {"device_type", "num_of_threads", "cache_dir"} <= set(known.accepted)
    assert known.options == {"device_type": "CPU", "num_of_threads": "3"}
    with pytest.raises(InputError, match="Invalid OpenVINO EP option: num_of_thread"):
        ask("openvino", launch, 3, {"num_of_thread": "1"})


def test_an_option_that_does_nothing_is_a_finding(cache: Path) -> None:
    """One thread's streams change nothing on OpenVINO's CPU: accepted, unseen, exit code 4. fp16 it refuses, and a note says so."""
    model = f"--model=intent={tiny_file(cache)}"
    more = ("--providers", "openvino", "--option", "openvino.num_streams=1", "--precision", "fp16")
    done = _calibrate(cache, "effect.profile.json", model, *more)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "option num_streams=1: accepted, and nothing was seen of it" in done.stderr
    profile = store.load(str(cache / "effect.profile.json"))
    (entry,) = profile.entries
    assert [(e.name, e.seen) for e in entry.effects or ()] == [("num_streams", "none")]
    assert any("openvino: fp16 was not measured: this build refuses precision=FP16" in note for note in profile.notes)


def test_operators_left_to_the_cpu_are_named(cache: Path) -> None:
    """An operator that OpenVINO does not take runs on the CPU, and ownership names it beside the compiled subgraphs."""
    import onnx
    from onnx import TensorProto, helper

    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["x"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft", name="gelu"),
        helper.make_node("BiasGelu", ["y", "bias"], ["z"], domain="com.microsoft", name="bias_gelu"),
        helper.make_node("Unique", ["z"], ["u"], name="unique"),
        helper.make_node("Exp", ["u"], ["out"], name="exp"),
    ]
    bias = helper.make_tensor("bias", TensorProto.FLOAT, [16], [0.5] * 16)
    graph = helper.make_graph(nodes, "g", [ids], [out], [bias])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(cache / "mixed.onnx"))
    job: dict[str, Any] = {
        "op": "ownership",
        "model": str(cache / "mixed.onnx"),
        "provider": "OpenVINOExecutionProvider",
    }
    job |= {"provider_options": {"device_type": "CPU"}, "threads": 1, "tokens": 16, "batch": 1, "max_id": 9, "seed": 1}
    outcome: Outcome = WorkerLauncher(cache / "runtimes/openvino/bin/python")(job, 120)
    record = next(r for r in outcome.records if isinstance(r, OwnershipRecord))
    assert record.cpu_operators.get("Unique") == 1
    assert record.session_providers[0] == "OpenVINOExecutionProvider"


def test_installing_twice_and_removing(cache: Path) -> None:
    """A second install changes nothing; what is removed is gone and can be told so."""
    note = cache / "runtimes/migraphx/runtime.json"
    before = note.stat().st_mtime_ns
    assert _simcap(cache, "runtimes", "install", "migraphx").returncode == 0
    assert note.stat().st_mtime_ns == before
    assert json.loads(note.read_text())["name"] == "migraphx"
    assert _simcap(cache, "runtimes", "remove", "migraphx").returncode == 0
    assert not note.exists()
    assert _simcap(cache, "runtimes", "remove", "migraphx").returncode == 2
