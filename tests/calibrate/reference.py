"""A second, independent forward pass of the zoo's encoder, in plain numpy and 64-bit, one text and one head at a time.

Rotary positions are complex multiplications here, attention windows are slices of allowed keys, nothing is batched: it
shares no code and no order of operations with the ONNX graph. Weights are read from the model by name.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from calibrate.model_zoo.architecture import ModelSpec

Array = NDArray[np.float64]


class Reference:
    def __init__(self, model: onnx.ModelProto, spec: ModelSpec) -> None:
        self.w = {t.name: numpy_helper.to_array(t).astype(float) for t in model.graph.initializer}
        self.spec, self.a = spec, spec.architecture

    def output(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Array:
        """[batch, tokens] -> the model's output; padded tokens of a token classifier are not meaningful."""
        return np.stack([self._one(row, keep) for row, keep in zip(ids, mask, strict=True)])

    def _one(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Array:
        hidden = self.encode(ids, mask)
        if self.spec.head.task == "token_classification":
            return np.stack([self._classify(h) for h in hidden])
        mean = hidden[mask == 1].mean(axis=0)
        if self.spec.head.task == "embedding":
            mean = mean[: self.spec.dimensions]
            return mean / np.linalg.norm(mean)
        return self._classify(mean)

    def encode(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Array:
        x = np.stack([self._norm(self.w["embeddings.tokens"][i], "embeddings.norm") for i in ids])
        for layer in range(self.spec.exit_layer or self.a.layers):
            read = x if layer == 0 else np.stack([self._norm(v, f"layers.{layer}.attention.norm") for v in x])
            x = x + self._attend(read, mask, layer)
            x = x + np.stack([self._mlp(v, layer) for v in x])
        return np.stack([self._norm(v, "final.norm") for v in x])

    def _norm(self, v: Array, name: str) -> Array:
        return (v - v.mean()) / math.sqrt(v.var() + self.a.norm_eps) * self.w[name]

    def _attend(self, x: Array, mask: NDArray[np.int64], layer: int) -> Array:
        n, d, h = len(x), self.a.head_dim, self.a.hidden
        fused = x @ self.w[f"layers.{layer}.attention.Wqkv"]
        reach = n if layer % self.a.global_every == 0 else self.a.window
        joined = np.zeros((n, h))
        for head in range(self.a.heads):
            q, k, v = (fused[:, part * h + head * d : part * h + (head + 1) * d] for part in range(3))
            q, k = self._rotate(q), self._rotate(k)
            for i in range(n):
                keys = [j for j in range(n) if abs(i - j) <= reach and mask[j]]
                if not keys:
                    continue  # a padded token far from every real one: whatever it holds is never read
                scores = np.array([q[i] @ k[j] for j in keys]) / math.sqrt(d)
                p = np.exp(scores - scores.max())
                joined[i, head * d : (head + 1) * d] = (p / p.sum()) @ v[keys]
        return joined @ self.w[f"layers.{layer}.attention.Wo"]

    def _rotate(self, x: Array) -> Array:
        """Pair coordinate i with i + d/2 as one complex number and turn it by position times frequency."""
        half = self.a.head_dim // 2
        pairs = x[:, :half] + 1j * x[:, half:]
        frequency = np.array([self.a.rope_theta ** (-2 * i / self.a.head_dim) for i in range(half)])
        turned = pairs * np.exp(1j * np.outer(np.arange(len(x)), frequency))
        return np.concatenate([turned.real, turned.imag], axis=1)

    def _mlp(self, v: Array, layer: int) -> Array:
        both = self._norm(v, f"layers.{layer}.mlp.norm") @ self.w[f"layers.{layer}.mlp.Wi"]
        value, gate = both[: self.a.intermediate], both[self.a.intermediate :]
        return (_gelu(value) * gate) @ self.w[f"layers.{layer}.mlp.Wo"]

    def _classify(self, v: Array) -> Array:
        dense = self._norm(_gelu(v @ self.w["head.dense"]), "head.norm")
        return dense @ self.w["head.classifier"] + self.w["head.classifier.bias"]


def _gelu(x: Array) -> Array:
    return np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])
