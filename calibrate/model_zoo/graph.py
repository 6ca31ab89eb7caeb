"""A small builder over `onnx.helper`: nodes with readable names, constants once, seeded weights.

Enters: operator calls. Leaves: an `onnx.ModelProto` (opset 17, the oldest that has LayerNormalization, so that older
builds of ONNX Runtime and the MIGraphX parser read it too). Weights are drawn by name, so adding one changes no other; in
float16 they are the float32 ones, rounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


class GraphBuilder:
    """Collects nodes and initializers of one graph. `scope` prefixes node names; `real` is the type of weights and activations."""

    def __init__(self, seed: int, real: type[np.float32 | np.float16] = np.float32) -> None:
        self.scope = ""
        self.real = real
        self._seed = seed
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; returns that output's name."""
        return self.nodes(operator, *inputs, outputs=1, **attributes)[0]

    def nodes(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs; returns their names."""
        name = f"{self.scope}{operator}_{len(self._nodes)}"
        names = [f"{name}:{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), names, name=name, **attributes))
        return names

    def to_real(self, x: str) -> str:
        """A float32 tensor in the type of the activations; nothing is added where that is float32."""
        return x if self.real is np.float32 else self.node("Cast", x, to=TensorProto.FLOAT16)

    def to_float32(self, x: str) -> str:
        """A tensor of the activations' type in float32; nothing is added where it is that already."""
        return x if self.real is np.float32 else self.node("Cast", x, to=TensorProto.FLOAT)

    def rename_output(self, old: str, new: str) -> None:
        """Give a graph output its public name."""
        self._nodes.append(helper.make_node("Identity", [old], [new], name=f"output.{new}"))

    def constant(self, value: object, dtype: type[np.generic]) -> str:
        """A constant tensor; equal constants are stored once."""
        array = np.asarray(value, dtype=dtype)
        name = f"const.{array.dtype.name}.{'x'.join(map(str, array.shape))}.{zlib.crc32(array.tobytes()):08x}"
        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(array, name)
        return name

    def matrix(self, name: str, rows: int, columns: int, gain: float = 1.0) -> str:
        """A weight [rows, columns], normal with variance gain^2 / rows: outputs have about the inputs' size."""
        return self._weight(name, self._normal(name, (rows, columns)) * np.float32(gain / np.sqrt(rows)))

    def kernel(self, name: str, filters: int, channels: int, side: int, gain: float) -> str:
        """A convolution's weight [filters, channels, side, side], normal with deviation `gain`."""
        return self._weight(name, self._normal(name, (filters, channels, side, side)) * np.float32(gain))

    def table(self, name: str, rows: int, columns: int) -> str:
        """A lookup table [rows, columns] of unit normals."""
        return self._weight(name, self._normal(name, (rows, columns)))

    def scale(self, name: str, size: int) -> str:
        """A norm's weight [size], near one but not one, so that a forgotten norm shows."""
        return self._weight(name, 1 + 0.1 * self._normal(name, (size,)))

    def offset(self, name: str, size: int) -> str:
        """A bias [size], small."""
        return self._weight(name, 0.1 * self._normal(name, (size,)))

    def _normal(self, name: str, shape: Sequence[int]) -> NDArray[np.float32]:
        generator = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        return generator.standard_normal(shape, dtype=np.float32)

    def _weight(self, name: str, array: NDArray[np.float32]) -> str:
        self._initializers[name] = numpy_helper.from_array(np.asarray(array, dtype=self.real), name)
        return name

    def model(
        self,
        name: str,
        outputs: Mapping[str, Sequence[str | int]],
        notes: dict[str, str],
        images: Mapping[str, Sequence[str | int]] | None = None,
    ) -> onnx.ModelProto:
        """The finished model. Inputs are `input_ids` and `attention_mask`, int64 [batch, tokens], then `images`, float32."""
        inputs = [
            helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "tokens"])
            for n in ("input_ids", "attention_mask")
        ]
        inputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in (images or {}).items()]
        results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(shape)) for n, shape in outputs.items()]
        graph = helper.make_graph(self._nodes, name, inputs, results, list(self._initializers.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="simcap model zoo"
        )
        model.ir_version = IR_VERSION
        helper.set_model_props(model, notes)
        return model
