"""An image tower of the ViT type: patches, pre-norm blocks with biases, mean over patches.

Enters: `pixel_values` [batch, channels, side, side], float32. Leaves: pooled features [batch, hidden], float32. A patch is a
convolution as wide as its stride; positions are learned and added. Per block
    x = x + Wo · softmax(q k^T / sqrt(d)) v + bo         with q, k, v = split(Wqkv · norm(x) + bqkv)
    x = x + W2 · gelu(W1 · norm(x) + b1) + b2
Source: the public description of ViT and of its small size (12 blocks, 384 wide, patches of 16); there is no class token, as
its pooling is a mean.
"""

from __future__ import annotations

import numpy as np

from calibrate.model_zoo.architecture import Vision
from calibrate.model_zoo.encoder import gelu
from calibrate.model_zoo.graph import GraphBuilder


def image_tower(g: GraphBuilder, v: Vision) -> str:
    """Add the tower; returns the name of its pooled features."""
    g.scope = "image.patches."
    h = v.hidden
    pixels = v.channels * v.patch**2
    kernel = g.kernel("image.patches.kernel", h, v.channels, v.patch, gain=pixels**-0.5)
    grid = g.node(
        "Conv", g.to_real(PIXELS), kernel, g.offset("image.patches.bias", h), strides=[v.patch, v.patch], pads=[0] * 4
    )
    rows = g.node("Reshape", grid, g.constant([0, h, v.patches], np.int64))
    x = g.node("Transpose", rows, perm=[0, 2, 1])
    x = g.node("Add", x, g.table("image.positions", v.patches, h))
    for layer in range(v.layers):
        g.scope = f"image.{layer}."
        x = g.node("Add", x, _attention(g, v, layer, _norm(g, v, f"image.{layer}.attention.norm", x)))
        x = g.node("Add", x, _mlp(g, v, layer, _norm(g, v, f"image.{layer}.mlp.norm", x)))
    g.scope = "image.final."
    x = g.to_float32(_norm(g, v, "image.final.norm", x))
    return g.node("ReduceMean", x, axes=[1], keepdims=0)


PIXELS = "pixel_values"


def _norm(g: GraphBuilder, v: Vision, name: str, x: str) -> str:
    weight, bias = g.scale(name, v.hidden), g.offset(f"{name}.bias", v.hidden)
    return g.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=v.norm_eps)


def _linear(g: GraphBuilder, name: str, x: str, rows: int, columns: int, gain: float = 1.0) -> str:
    return g.node("Add", g.node("MatMul", x, g.matrix(name, rows, columns, gain)), g.offset(f"{name}.bias", columns))


def _attention(g: GraphBuilder, v: Vision, layer: int, x: str) -> str:
    h, d = v.hidden, v.hidden // v.heads
    qkv = _linear(g, f"image.{layer}.attention.Wqkv", x, h, 3 * h)
    parts = g.nodes("Split", qkv, g.constant([h, h, h], np.int64), outputs=3, axis=-1)
    shape = g.constant([0, 0, v.heads, d], np.int64)
    q, k, value = (g.node("Transpose", g.node("Reshape", p, shape), perm=[0, 2, 1, 3]) for p in parts)
    q = g.node("Mul", q, g.constant(d**-0.5, g.real))
    scores = g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2]))
    mixed = g.node("MatMul", g.node("Softmax", scores, axis=-1), value)
    joined = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), g.constant([0, 0, h], np.int64))
    return _linear(g, f"image.{layer}.attention.Wo", joined, h, h, (2 * v.layers) ** -0.5)


def _mlp(g: GraphBuilder, v: Vision, layer: int, x: str) -> str:
    grown = gelu(g, _linear(g, f"image.{layer}.mlp.W1", x, v.hidden, v.intermediate))
    return _linear(g, f"image.{layer}.mlp.W2", grown, v.intermediate, v.hidden, (2 * v.layers) ** -0.5)
