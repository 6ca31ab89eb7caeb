"""What an ONNX file is, and whether it is sound.

Enters: the path of an ONNX file. Leaves: `Facts` (inputs, outputs, opset, parameters, weights' types, bytes and digest), read
without running anything; or the result of a check: ONNX's own checker with shape inference, then one inference through a
worker on the CPU provider. Parameters are the elements of initializers of more than one element and of a float or
quantised type: weights, and not shapes or single constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.artifacts import digest_of, external_data
from calibrate.launch import Launch
from calibrate.results import FirstRunRecord
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.errors import FindingError, InputError, MeasurementError

VERIFY_LIMIT_S = 300.0


@dataclass(frozen=True)
class Tensor:
    """An input or output. `shape`: a number, or a symbolic name, or `?`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Facts:
    """`opsets`: by domain; `dtypes`: parameters by type; `notes`: metadata of the file."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    opsets: Mapping[str, int]
    operators: Mapping[str, int]
    dtypes: Mapping[str, int]
    size_bytes: int
    digest: str
    producer: str
    notes: Mapping[str, str]

    @property
    def parameters(self) -> int:
        return sum(self.dtypes.values())


def facts_of(path: Path) -> Facts:
    """Read a file; InputError when it is no ONNX model or weights beside it are missing."""
    model = _read(path)
    graph = model.graph
    operators: dict[str, int] = {}
    for node in graph.node:
        operators[node.op_type] = operators.get(node.op_type, 0) + 1
    given = {t.name for t in graph.initializer}  # old files list weights as inputs, too
    beside = external_data(path)
    for file in beside:
        if not file.is_file():
            raise InputError(f"{path}: its weights should be in {file.name} beside it, and that file is not there")
    digest, size = digest_of([path, *beside])
    return Facts(
        inputs=tuple(_tensor(i) for i in graph.input if i.name not in given),
        outputs=tuple(_tensor(o) for o in graph.output),
        opsets={o.domain or "ai.onnx": o.version for o in model.opset_import},
        operators=dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        dtypes=_dtypes(graph),
        size_bytes=size,
        digest=digest,
        producer=model.producer_name,
        notes={p.key: p.value for p in model.metadata_props},
    )


def _dtypes(graph: Any) -> dict[str, int]:
    """Parameters by type."""
    import onnx

    found: dict[str, int] = {}
    for tensor in graph.initializer:
        name = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
        count = math.prod(tensor.dims)
        if count > 1 and not name.startswith(("int64", "int32", "bool", "string")):
            found[name] = found.get(name, 0) + count
    return found


def runs_in_fp32(path: Path) -> bool:
    """Whether the CPU provider can run the file as a reference: most weights float32, and no operators of a library."""
    model = _read(path)
    dtypes = _dtypes(model.graph)
    foreign = {n.domain for n in model.graph.node} - {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
    return not foreign and 2 * dtypes.get("float", 0) > sum(dtypes.values())


def _read(path: Path) -> Any:
    """The model without weights that lie beside it."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # no stubs; onnx brings the library

    try:
        model = onnx.load(str(path), load_external_data=False)
    except DecodeError as error:
        raise InputError(f"{path}: is not an ONNX file ({error})") from None
    if not model.graph.node:
        raise InputError(f"{path}: is not an ONNX file: it has no graph")
    return model


def _tensor(value: Any) -> Tensor:
    import onnx

    kind = value.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim)
    return Tensor(value.name, onnx.TensorProto.DataType.Name(kind.elem_type).lower(), shape)


def check_graph(path: Path) -> None:
    """ONNX's checker, with shapes inferred strictly; FindingError in its words."""
    import onnx

    _read(path)
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise FindingError(f"{path}: the ONNX checker refuses it: {error}") from None


def run_once(path: Path, launch: Launch, tokens: int, max_id: int, seed: int) -> float:
    """Seconds of one inference on the CPU provider; FindingError when outputs are not finite or it does not run."""
    job = {
        "op": "cell",
        "model": str(path),
        "provider": EXECUTION_PROVIDERS["cpu"],
        "threads": 1,
        "batch": 1,
        "tokens": tokens,
        "max_id": max_id,
        "seed": seed,
        "loads": 1,
    }
    outcome = launch(job, VERIFY_LIMIT_S)
    if outcome.failure_type == "UnsupportedInputError":
        raise InputError(f"{path}: simcap cannot make up inputs for this model: {outcome.reason}")
    if outcome.status == "failed":
        raise FindingError(f"{path}: ONNX Runtime does not run it: {outcome.reason}")
    if outcome.status != "done":
        raise MeasurementError(f"{path}: running it {outcome.status.replace('_', ' ')}: {outcome.reason}")
    first = next(r for r in outcome.records if isinstance(r, FirstRunRecord))
    if first.non_finite:
        raise FindingError(f"{path}: {first.non_finite} of its outputs are not finite")
    return first.ns[0] / 1e9
