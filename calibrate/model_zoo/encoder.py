"""The ModernBERT-type encoder as an ONNX graph in SDPA form (MatMul, Softmax, MatMul; local layers by a band mask).

Enters: `input_ids`, `attention_mask` [batch, tokens]. Leaves: hidden states [batch, tokens, hidden]. Per block
    x = x + Wo · softmax(q k^T / sqrt(d) + mask) v      with q, k, v = split(Wqkv · norm(x)), q and k rotated
    x = x + Wo · (gelu(a) * b)                           with a, b = split(Wi · norm(x))
where block 0 has no attention norm (the embedding's norm stands right before it).
An exit after layer n is what cutting the list of blocks gives: blocks 0 to n - 1, then the final norm. In float16 the rotary
angles are made in float32 (positions above 2048 are no float16 numbers), norms take mean and variance in float32 (the
operator's default), and everything else is float16.
Source: the public ModernBERT description and mmBERT configuration; nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrate.model_zoo.architecture import Architecture
from calibrate.model_zoo.graph import GraphBuilder

LOWEST = {np.float32: float(np.finfo(np.float32).min), np.float16: float(np.finfo(np.float16).min) / 2}
"""Finite, so that a row with nothing to attend to stays finite too; in float16 with room for the score that is added."""


@dataclass(frozen=True)
class _Shared:
    """Tensors that every block uses: rotation [tokens, head_dim] and additive masks [batch, 1, 1 or tokens, tokens]."""

    cosine: str
    sine: str
    global_mask: str
    local_mask: str


def encoder(g: GraphBuilder, a: Architecture, exit_layer: int | None = None) -> str:
    """Add the encoder, whole or up to an exit; returns the name of its hidden states."""
    g.scope = "embeddings."
    x = g.node("Gather", g.table("embeddings.tokens", a.vocab, a.hidden), "input_ids", axis=0)
    x = norm(g, a, "embeddings.norm", x)
    g.scope = "shared."
    shared = _shared(g, a)
    for layer in range(exit_layer or a.layers):
        g.scope = f"layers.{layer}."
        x = _attention(g, a, layer, x, shared)
        x = _mlp(g, a, layer, x)
    g.scope = "final."
    return norm(g, a, "final.norm", x)


def norm(g: GraphBuilder, a: Architecture, name: str, x: str) -> str:
    """Layer normalisation over the last axis, with a weight and without a bias."""
    return g.node("LayerNormalization", x, g.scale(name, a.hidden), axis=-1, epsilon=a.norm_eps)


def gelu(g: GraphBuilder, x: str) -> str:
    """x/2 · (1 + erf(x/sqrt 2)), in the elementary form that exporters write and runtimes fuse."""
    inner = g.node("Erf", g.node("Div", x, g.constant(np.sqrt(2), g.real)))
    grown = g.node("Mul", x, g.node("Add", inner, g.constant(1, g.real)))
    return g.node("Mul", grown, g.constant(0.5, g.real))


def _shared(g: GraphBuilder, a: Architecture) -> _Shared:
    count = g.node("Gather", g.node("Shape", "input_ids"), g.constant(1, np.int64), axis=0)
    positions = g.node("Range", g.constant(0, np.int64), count, g.constant(1, np.int64))
    place = g.node("Cast", positions, to=1)
    column = g.node("Unsqueeze", place, g.constant([1], np.int64))
    row = g.node("Unsqueeze", place, g.constant([0], np.int64))
    frequencies = a.rope_theta ** -(np.arange(0, a.head_dim, 2) / a.head_dim)
    half = g.node("Mul", column, g.constant(frequencies[None, :], np.float32))
    angles = g.node("Concat", half, half, axis=-1)
    near = g.node("LessOrEqual", g.node("Abs", g.node("Sub", column, row)), g.constant(a.window, np.float32))
    real = g.node("Unsqueeze", g.node("Cast", "attention_mask", to=9), g.constant([1, 2], np.int64))
    zero, lowest = g.constant(0, g.real), g.constant(LOWEST[g.real], g.real)
    return _Shared(
        cosine=g.to_real(g.node("Cos", angles)),
        sine=g.to_real(g.node("Sin", angles)),
        global_mask=g.node("Where", real, zero, lowest),
        local_mask=g.node("Where", g.node("And", near, real), zero, lowest),
    )


def _attention(g: GraphBuilder, a: Architecture, layer: int, x: str, shared: _Shared) -> str:
    h = a.hidden
    read = norm(g, a, f"layers.{layer}.attention.norm", x) if layer else x
    qkv = g.node("MatMul", read, g.matrix(f"layers.{layer}.attention.Wqkv", h, 3 * h))
    split = g.nodes("Split", qkv, g.constant([h, h, h], np.int64), outputs=3, axis=-1)
    q, k, v = (_heads(g, a, part) for part in split)
    q, k = (_rotate(g, a, part, shared) for part in (q, k))
    q = g.node("Mul", q, g.constant(1 / np.sqrt(a.head_dim), g.real))
    scores = g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2]))
    mask = shared.global_mask if a.is_global(layer) else shared.local_mask
    weights = g.node("Softmax", g.node("Add", scores, mask), axis=-1)
    mixed = g.node("Transpose", g.node("MatMul", weights, v), perm=[0, 2, 1, 3])
    joined = g.node("Reshape", mixed, g.constant([0, 0, h], np.int64))
    out = g.matrix(f"layers.{layer}.attention.Wo", h, h, gain=(2 * a.layers) ** -0.5)
    return g.node("Add", x, g.node("MatMul", joined, out))


def _heads(g: GraphBuilder, a: Architecture, x: str) -> str:
    """[batch, tokens, hidden] -> [batch, heads, tokens, head_dim]."""
    shaped = g.node("Reshape", x, g.constant([0, 0, a.heads, a.head_dim], np.int64))
    return g.node("Transpose", shaped, perm=[0, 2, 1, 3])


def _rotate(g: GraphBuilder, a: Architecture, x: str, shared: _Shared) -> str:
    """Rotary positions: coordinate i turns together with coordinate i + head_dim/2."""
    half = a.head_dim // 2
    first, second = g.nodes("Split", x, g.constant([half, half], np.int64), outputs=2, axis=-1)
    turned = g.node("Concat", g.node("Neg", second), first, axis=-1)
    return g.node("Add", g.node("Mul", x, shared.cosine), g.node("Mul", turned, shared.sine))


def _mlp(g: GraphBuilder, a: Architecture, layer: int, x: str) -> str:
    m = a.intermediate
    read = norm(g, a, f"layers.{layer}.mlp.norm", x)
    both = g.node("MatMul", read, g.matrix(f"layers.{layer}.mlp.Wi", a.hidden, 2 * m))
    value, gate = g.nodes("Split", both, g.constant([m, m], np.int64), outputs=2, axis=-1)
    gated = g.node("Mul", gelu(g, value), gate)
    out = g.matrix(f"layers.{layer}.mlp.Wo", m, a.hidden, gain=(2 * a.layers) ** -0.5)
    return g.node("Add", x, g.node("MatMul", gated, out))
