"""Heads on the encoder, and the whole model of a specification.

Sequence classification: mean over the real tokens, then norm(gelu(dense)), then the classifier with bias -> logits
[batch, labels]. Token classification: the same head on every token -> logits [batch, tokens, labels]. Reranking (a
cross-encoder: query and document stand in one text, joined by the tokenizer, since this architecture has no token types):
as sequence classification with one score -> logits [batch, 1]. Multimodal: a text and an image, each pooled, projected to the
shared space and scaled to length one -> embeddings [batch, 2, shared], the text's first. Embedding: mean over the real tokens, the first
`dimensions` of it, scaled to length one -> embedding [batch, dimensions]. Outputs are float32, means and lengths are taken
in float32, whatever the activations are: a sum over thousands of tokens leaves float16.
"""

from __future__ import annotations

import json

import numpy as np
import onnx

from calibrate.model_zoo.architecture import Architecture, ModelSpec, Vision
from calibrate.model_zoo.encoder import encoder, gelu, norm
from calibrate.model_zoo.graph import GraphBuilder
from calibrate.model_zoo.vision import PIXELS, image_tower

REAL: dict[str, type[np.float32 | np.float16]] = {"fp32": np.float32, "fp16": np.float16}
"""Artifact -> type of weights and activations."""


def build(spec: ModelSpec) -> onnx.ModelProto:
    """The ONNX model of a specification; equal specifications give equal bytes."""
    g, a = GraphBuilder(spec.seed, REAL[spec.artifact]), spec.architecture
    hidden = encoder(g, a, spec.exit_layer)
    g.scope = "head."
    if spec.head.task == "token_classification":
        labels = _labels(spec)
        g.rename_output(g.to_float32(_classifier(g, a, hidden, labels)), "logits")
        shape: dict[str, list[str | int]] = {"logits": ["batch", "tokens", labels]}
    elif spec.head.task in {"sequence_classification", "reranking"}:
        labels = _labels(spec)
        pooled = g.to_real(_mean(g, hidden))
        g.rename_output(g.to_float32(_classifier(g, a, pooled, labels)), "logits")
        shape = {"logits": ["batch", labels]}
    elif spec.vision is not None:
        g.rename_output(_two_towers(g, a, spec.vision, hidden), "embeddings")
        shape = {"embeddings": ["batch", 2, spec.vision.shared]}
    else:
        kept = spec.dimensions or a.hidden
        g.rename_output(_unit(g, _first(g, _mean(g, hidden), kept, a.hidden)), "embedding")
        shape = {"embedding": ["batch", kept]}
    notes = {"simcap.spec": json.dumps(spec.identity(), sort_keys=True)}
    v = spec.vision
    return g.model(spec.name, shape, notes, {PIXELS: ["batch", v.channels, v.side, v.side]} if v else None)


def _two_towers(g: GraphBuilder, a: Architecture, v: Vision, hidden: str) -> str:
    text, image = g.to_real(_mean(g, hidden)), g.to_real(image_tower(g, v))
    g.scope = "head."
    towers = ((text, "head.text", a.hidden), (image, "head.image", v.hidden))
    vectors = [_unit(g, g.to_float32(g.node("MatMul", x, g.matrix(name, n, v.shared)))) for x, name, n in towers]
    axis = g.constant([1], np.int64)
    return g.node("Concat", *(g.node("Unsqueeze", x, axis) for x in vectors), axis=1)


def _labels(spec: ModelSpec) -> int:
    if spec.head.outputs is None:
        raise ValueError(f"{spec.name}: a classifier needs a number of labels")
    return spec.head.outputs


def _classifier(g: GraphBuilder, a: Architecture, x: str, labels: int) -> str:
    dense = gelu(g, g.node("MatMul", x, g.matrix("head.dense", a.hidden, a.hidden)))
    scores = g.node("MatMul", norm(g, a, "head.norm", dense), g.matrix("head.classifier", a.hidden, labels))
    return g.node("Add", scores, g.offset("head.classifier.bias", labels))


def _mean(g: GraphBuilder, hidden: str) -> str:
    """[batch, tokens, hidden] -> [batch, hidden] in float32, padding left out."""
    hidden = g.to_float32(hidden)
    axis = g.constant([1], np.int64)
    weight = g.node("Unsqueeze", g.node("Cast", "attention_mask", to=1), g.constant([2], np.int64))
    total = g.node("ReduceSum", g.node("Mul", hidden, weight), axis, keepdims=0)
    count = g.node("Max", g.node("ReduceSum", weight, axis, keepdims=0), g.constant(1e-9, np.float32))
    return g.node("Div", total, count)


def _first(g: GraphBuilder, x: str, kept: int, width: int) -> str:
    """The first `kept` of `width` coordinates: a Matryoshka embedding cut short."""
    if kept == width:
        return x
    start, end, axis = (g.constant([v], np.int64) for v in (0, kept, 1))
    return g.node("Slice", x, start, end, axis)


def _unit(g: GraphBuilder, x: str) -> str:
    square = g.node("ReduceSum", g.node("Mul", x, x), g.constant([1], np.int64), keepdims=1)
    length = g.node("Max", g.node("Sqrt", square), g.constant(1e-12, np.float32))
    return g.node("Div", x, length)
