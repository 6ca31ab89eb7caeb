"""The image–text encoder against an independent forward pass, and what the worker feeds it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from calibrate.launch import WorkerLauncher
from calibrate.model_zoo.architecture import HEADS, VISION, ModelSpec, Vision, spec_of
from calibrate.model_zoo.facts import run_once
from calibrate.model_zoo.heads import build
from tests.calibrate.reference import Reference, _gelu
from tests.calibrate.tiny import TINY

SMALL = Vision(layers=2, hidden=16, heads=2, intermediate=24, side=12, patch=4, shared=8)
SPEC = ModelSpec("tiny-multimodal", TINY, HEADS["multimodal"], 1, vision=SMALL)
Array = NDArray[np.float64]


def _feed() -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {
        "input_ids": generator.integers(0, TINY.vocab, (2, 7)),
        "attention_mask": (np.arange(7) < np.array([[7], [4]])).astype(np.int64),
        "pixel_values": generator.standard_normal((2, 3, 12, 12)).astype(np.float32),
    }


def _run(spec: ModelSpec) -> Any:
    session = onnxruntime.InferenceSession(build(spec).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, _feed())[0]


def _image(w: dict[str, Array], pixels: Array) -> Array:
    """One image, one patch and one head at a time, in 64-bit."""
    v, d = SMALL, SMALL.hidden // SMALL.heads

    def norm(x: Array, name: str) -> Array:
        return (x - x.mean()) / math.sqrt(x.var() + v.norm_eps) * w[name] + w[f"{name}.bias"]

    def linear(x: Array, name: str) -> Array:
        return x @ w[name] + w[f"{name}.bias"]

    cut = [pixels[:, r : r + 4, c : c + 4] for r in (0, 4, 8) for c in (0, 4, 8)]
    rows = [np.array([(w["image.patches.kernel"][f] * p).sum() for f in range(v.hidden)]) for p in cut]
    x = np.stack([r + w["image.patches.bias"] + w["image.positions"][i] for i, r in enumerate(rows)])
    for n in range(v.layers):
        fused = np.stack([linear(norm(r, f"image.{n}.attention.norm"), f"image.{n}.attention.Wqkv") for r in x])
        joined = np.zeros_like(x)
        for head in range(v.heads):
            q, k, value = (fused[:, part * v.hidden + head * d :][:, :d] for part in range(3))
            for i in range(v.patches):
                p = np.exp(k @ q[i] / math.sqrt(d))
                joined[i, head * d : (head + 1) * d] = (p / p.sum()) @ value
        x = x + linear(joined, f"image.{n}.attention.Wo")
        grown = [_gelu(linear(norm(r, f"image.{n}.mlp.norm"), f"image.{n}.mlp.W1")) for r in x]
        x = x + np.stack([linear(r, f"image.{n}.mlp.W2") for r in grown])
    pooled: Array = np.mean([norm(r, "image.final.norm") for r in x], axis=0)
    return pooled


def test_both_towers_compute_what_the_architecture_says() -> None:
    """Text and image vectors agree with an independent numpy pass, and each has length one."""
    model, feed = build(SPEC), _feed()
    onnx.checker.check_model(model, full_check=True)
    reference, got = Reference(model, SPEC), _run(SPEC)
    for row in range(2):
        ids, mask = feed["input_ids"][row], feed["attention_mask"][row]
        text = reference.encode(ids, mask)[mask == 1].mean(axis=0) @ reference.w["head.text"]
        image = _image(reference.w, feed["pixel_values"][row].astype(float)) @ reference.w["head.image"]
        for vector, expected in zip(got[row], (text, image), strict=True):
            np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), rtol=2e-4, atol=2e-5)


def test_float16_agrees() -> None:
    """The fp16 artifact of both towers agrees with fp32 within half a percent of the largest coordinate."""
    full, half = _run(SPEC), _run(replace(SPEC, artifact="fp16"))
    assert half.dtype == np.float32
    assert 0 < np.abs(half - full).max() <= 0.005 * np.abs(full).max()


def test_image_tower_is_vit_small() -> None:
    """The image tower of the zoo's model has the 21.7 million parameters of ViT-S/16 without its class token and classifier."""
    model = build(spec_of("mmbert-mini-multimodal", 1))
    held = sum(math.prod(t.dims) for t in model.graph.initializer if t.name.startswith("image."))
    assert round(held / 1e6, 1) == 21.7
    assert VISION.patches == 196


def test_worker_feeds_images(tmp_path: Path) -> None:
    """The measuring worker makes up an image where the model fixes its size, and runs the model."""
    path = tmp_path / "m.onnx"
    path.write_bytes(build(SPEC).SerializeToString())
    assert run_once(path, WorkerLauncher(), 9, 100, 1) > 0


@pytest.mark.parametrize("signal", ["embedding", "intent"])
def test_models_of_text_alone_have_no_image(signal: str) -> None:
    """Only the multimodal model has an image input."""
    assert spec_of(f"mmbert-mini-{signal}", 1).vision is None
