"""Variants of the zoo's models: float16, early exits, shorter embeddings, the reranker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from calibrate.artifacts import from_zoo
from calibrate.drift import compare
from calibrate.model_zoo.architecture import SIZES, spec_of
from calibrate.model_zoo.cache import key_of
from calibrate.model_zoo.heads import build
from profiles import store
from profiles.errors import InputError
from simcap.cli import main
from tests.calibrate.reference import Reference
from tests.calibrate.tiny import TINY, tiny_spec

TOLERANCE = 0.005
"""Of float16 outputs: about five times the largest difference seen, relative to the largest output."""


def _run(model: onnx.ModelProto, tokens: int = 11, padded: int = 4) -> Any:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ids = np.random.default_rng(5).integers(0, TINY.vocab, (2, tokens))
    mask = (np.arange(tokens) < np.array([tokens, tokens - padded])[:, None]).astype(np.int64)
    return session.run(None, {"input_ids": ids, "attention_mask": mask})[0], ids, mask


@pytest.mark.parametrize("signal", ["intent", "pii", "embedding", "reranker"])
def test_float16_computes_what_float32_does(signal: str) -> None:
    """The fp16 artifact runs on the CPU provider, gives float32 outputs and agrees with fp32 within the tolerance."""
    spec = tiny_spec(signal)
    half = build(replace(spec, artifact="fp16"))
    onnx.checker.check_model(half, full_check=True)
    (full, _, mask), (got, _, _) = _run(build(spec)), _run(half)
    if signal == "pii":
        full, got = full[mask == 1], got[mask == 1]
    assert got.dtype == np.float32
    assert 0 < np.abs(got - full).max() <= TOLERANCE * np.abs(full).max()


def test_float16_tells_far_positions_apart() -> None:
    """With 2,500 tokens, where whole positions leave float16, a token classifier's artifacts still agree on every token."""
    spec = replace(tiny_spec("pii"), architecture=replace(TINY, layers=2, heads=1))
    full, half = (_run(build(replace(spec, artifact=a)), 2500, 0)[0] for a in ("fp32", "fp16"))
    np.testing.assert_allclose(half, full, atol=TOLERANCE * np.abs(full).max())


@pytest.mark.parametrize("signal", ["intent", "embedding"])
def test_float16_is_used_where_it_may_be_and_only_there(signal: str) -> None:
    """Matrices multiply in float16; angles, means over tokens and lengths are taken in float32."""
    model = onnx.shape_inference.infer_shapes(build(replace(tiny_spec(signal), artifact="fp16")), strict_mode=True)
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info}
    found: dict[str, set[int]] = {}
    for node in model.graph.node:
        found.setdefault(node.op_type, set()).add(kinds.get(node.output[0], TensorProto.UNDEFINED))
    for operator in ("MatMul", "Softmax", "LayerNormalization", "Erf"):
        assert found[operator] == {TensorProto.FLOAT16}
    for operator in ("ReduceSum", "Sin", "Cos", *(["Sqrt"] if signal == "embedding" else [])):
        assert found[operator] == {TensorProto.FLOAT}


def test_float16_text_of_padding_only_stays_finite() -> None:
    """A mask's lowest value plus a score does not leave float16."""
    for artifact in ("fp16", "fp32"):
        got, _, _ = _run(build(replace(tiny_spec("pii"), artifact=artifact)), 9, 9)
        assert np.isfinite(got).all()


def test_float16_weights_are_the_float32_ones_rounded() -> None:
    """Every weight of fp16 is that of fp32 in float16; token ids stay int64."""
    full, half = (
        {t.name: numpy_helper.to_array(t) for t in build(replace(tiny_spec(), artifact=a)).graph.initializer}
        for a in ("fp32", "fp16")
    )
    weights = [name for name in full if not name.startswith("const.")]
    assert weights == [name for name in half if not name.startswith("const.")]
    for name in weights:
        assert half[name].dtype == np.float16
        np.testing.assert_array_equal(half[name], full[name].astype(np.float16))
    inputs = build(replace(tiny_spec(), artifact="fp16")).graph.input
    assert {i.type.tensor_type.elem_type for i in inputs} == {TensorProto.INT64}


@pytest.mark.parametrize(("layer", "dimensions"), [(2, None), (None, 8), (3, 16), (4, 32)])
def test_exits_compute_what_a_cut_encoder_does(layer: int | None, dimensions: int | None) -> None:
    """An early exit and a shorter embedding agree with the independent forward pass, and have length one."""
    spec = replace(tiny_spec("embedding"), exit_layer=layer, dimensions=dimensions)
    got, ids, mask = _run(build(spec))
    np.testing.assert_allclose(got, Reference(build(spec), spec).output(ids, mask), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1, rtol=1e-5)
    assert got.shape == (2, dimensions or TINY.hidden)


def test_an_exit_has_the_weights_of_the_whole_model() -> None:
    """The blocks before an exit are those of the full model, the ones after it are not in the file."""
    spec = tiny_spec("embedding")
    whole, cut = (
        {t.name: t for t in build(s).graph.initializer if not t.name.startswith("const.")}
        for s in (spec, replace(spec, exit_layer=2))
    )
    assert all(whole[name] == tensor for name, tensor in cut.items())
    assert {name.split(".")[1] for name in cut if name.startswith("layers.")} == {"0", "1"}


def test_a_shorter_embedding_is_the_beginning_of_the_longer_one() -> None:
    """Cutting to d coordinates gives the first d of the full embedding, scaled to length one."""
    spec = tiny_spec("embedding")
    full, short = _run(build(spec))[0], _run(build(replace(spec, dimensions=8)))[0]
    expected = full[:, :8] / np.linalg.norm(full[:, :8], axis=1, keepdims=True)
    np.testing.assert_allclose(short, expected, rtol=1e-4, atol=1e-6)


def test_names_of_exits() -> None:
    """An exit is part of the model's name; each has a file of its own, on the full architecture."""
    spec = spec_of("mmbert32k-embedding-l6-d256", 1)
    assert (spec.exit_layer, spec.dimensions, spec.architecture) == (6, 256, SIZES["mmbert32k"])
    assert spec_of("mmbert32k-embedding-d64", 1).exit_layer is None
    assert spec_of("mmbert-small-embedding-l22", 1).dimensions is None
    named = ["", "-l6", "-d256", "-l6-d256", "-l11-d256"]
    keys = {key_of(spec_of(f"mmbert32k-embedding{n}", 1, artifact=a)) for n in named for a in ("fp32", "fp16")}
    assert len(keys) == 10


@pytest.mark.parametrize(
    ("name", "artifact", "words"),
    [
        ("mmbert32k-embedding-l7", "fp32", "no exit at layer 7; .*valid: 6, 11, 16, 22"),
        ("mmbert-mini-embedding-l11", "fp32", "no exit at layer 11; .*valid: 6$"),
        ("mmbert-small-embedding-d512", "fp32", "no exit at dimensions 512; .*valid: 64, 128, 256$"),
        ("mmbert32k-intent-l6", "fp32", "only an embedding has exits"),
        ("mmbert32k-embedding-256", "fp32", "did you mean 'mmbert32k-embedding'"),
        ("mmbert32k-intent", "fp61", "did you mean 'fp16'"),
    ],
)
def test_wrong_exits_and_artifacts(name: str, artifact: str, words: str) -> None:
    """What a size does not have is refused with what it has."""
    with pytest.raises(InputError, match=words):
        spec_of(name, 1, artifact=artifact)


def test_files_without_exit_keep_their_identity() -> None:
    """A model without an exit has the key that it had before there were exits, so old runs still merge with new ones."""
    assert "exit_layer" not in tiny_spec().identity()
    assert replace(tiny_spec(), exit_layer=2).identity()["exit_layer"] == 2


def test_reranker_gives_one_score_and_no_angle() -> None:
    """A cross-encoder's output is one score a pair; drift compares it by difference, since one number has no cosine."""
    got = _run(build(tiny_spec("reranker")))[0]
    assert got.shape == (2, 1)
    record = compare(got, got + np.float32(0.5), "reranking", "ref")
    assert record.cosine is None
    assert record.max_abs == pytest.approx(0.5)


def test_calibrate_measures_both_artifacts_and_their_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--artifacts fp32,fp16` gives two entries; fp16's drift is against fp32 on the CPU, and fp32 has none."""
    monkeypatch.chdir(tmp_path)
    model = "mmbert-mini-embedding-l6-d64"
    arguments = ["--models", model, "--artifacts", "fp32,fp16", "--tokens", "8", "--cadence", "tight", "--budget", "1"]
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", "--gpu", "cpu", *arguments, "--cache", "cache", "--out", "p.json"])
    assert stop.value.code == 0
    full, half = store.load("p.json").entries
    assert (full.artifact, half.artifact, full.accuracy) == ("fp32", "fp16", None)
    assert full.service is not None
    assert half.accuracy is not None
    assert half.accuracy.reference.startswith("fp32 on cpu")
    assert half.accuracy.cosine is not None
    assert 0.999 < half.accuracy.cosine.value < 1
    sizes = [from_zoo(model, tmp_path / "cache", 1, a).size_bytes for a in ("fp32", "fp16")]
    assert sizes[1] == pytest.approx(sizes[0] / 2, rel=0.02)
