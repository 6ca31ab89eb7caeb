"""Heads on the encoder, and the whole model of a specification.

Sequence classification: mean over the real tokens, then norm(gelu(dense)), then the classifier with bias -> logits
[batch, labels]. Token classification: the same head on every token -> logits [batch, tokens, labels]. Embedding: mean
over the real tokens, scaled to length one -> embedding [batch, hidden].
"""

from __future__ import annotations

import json

import numpy as np
import onnx

from calibrate.model_zoo.architecture import Architecture, ModelSpec
from calibrate.model_zoo.encoder import encoder, gelu, norm
from calibrate.model_zoo.graph import GraphBuilder


def build(spec: ModelSpec) -> onnx.ModelProto:
    """The ONNX model of a specification; equal specifications give equal bytes."""
    g, a = GraphBuilder(spec.seed), spec.architecture
    hidden = encoder(g, a)
    g.scope = "head."
    if spec.head.task == "token_classification":
        labels = _labels(spec)
        g.rename_output(_classifier(g, a, hidden, labels), "logits")
        shape: dict[str, list[str | int]] = {"logits": ["batch", "tokens", labels]}
    elif spec.head.task == "sequence_classification":
        labels = _labels(spec)
        g.rename_output(_classifier(g, a, _mean(g, hidden), labels), "logits")
        shape = {"logits": ["batch", labels]}
    else:
        g.rename_output(_unit(g, _mean(g, hidden)), "embedding")
        shape = {"embedding": ["batch", a.hidden]}
    return g.model(spec.name, shape, {"simcap.spec": json.dumps(spec.identity(), sort_keys=True)})


def _labels(spec: ModelSpec) -> int:
    if spec.head.outputs is None:
        raise ValueError(f"{spec.name}: a classifier needs a number of labels")
    return spec.head.outputs


def _classifier(g: GraphBuilder, a: Architecture, x: str, labels: int) -> str:
    dense = gelu(g, g.node("MatMul", x, g.matrix("head.dense", a.hidden, a.hidden)))
    scores = g.node("MatMul", norm(g, a, "head.norm", dense), g.matrix("head.classifier", a.hidden, labels))
    return g.node("Add", scores, g.offset("head.classifier.bias", labels))


def _mean(g: GraphBuilder, hidden: str) -> str:
    """[batch, tokens, hidden] -> [batch, hidden], padding left out."""
    axis = g.constant([1], np.int64)
    weight = g.node("Unsqueeze", g.node("Cast", "attention_mask", to=1), g.constant([2], np.int64))
    total = g.node("ReduceSum", g.node("Mul", hidden, weight), axis, keepdims=0)
    count = g.node("Max", g.node("ReduceSum", weight, axis, keepdims=0), g.constant(1e-9, np.float32))
    return g.node("Div", total, count)


def _unit(g: GraphBuilder, x: str) -> str:
    square = g.node("ReduceSum", g.node("Mul", x, x), g.constant([1], np.int64), keepdims=1)
    length = g.node("Max", g.node("Sqrt", square), g.constant(1e-12, np.float32))
    return g.node("Div", x, length)
