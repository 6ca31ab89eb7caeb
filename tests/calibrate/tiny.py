"""A model small enough that a real measurement of it takes milliseconds."""

from __future__ import annotations

from pathlib import Path

from calibrate.model_zoo.architecture import HEADS, Architecture, ModelSpec
from calibrate.model_zoo.heads import build

TINY = Architecture(layers=4, hidden=32, heads=2, intermediate=48, window=3)


def tiny_spec(signal: str = "intent", seed: int = 1) -> ModelSpec:
    return ModelSpec(f"tiny-{signal}", TINY, HEADS[signal], seed)


def tiny_file(folder: Path, signal: str = "intent") -> Path:
    path = folder / f"{signal}_fp32.onnx"
    path.write_bytes(build(tiny_spec(signal)).SerializeToString())
    return path
