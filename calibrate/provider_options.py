"""Provider options: which ones a build knows, which ones we give, and where its compile cache is set.

Option names differ from version to version, and an unknown one is an error of the library, so each build is asked.
Enters: a launcher, a provider, threads, what the person asked for. Leaves: the options for every session, and what the
build said about each name. Sources of the names: ONNX Runtime's and AMD's fork's provider sources, versions 1.16 to 1.24.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from calibrate.launch import Launch
from calibrate.results import OptionRecord
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.entry import ProviderName
from profiles.errors import InputError, MeasurementError, nearest

BASE: dict[ProviderName, dict[str, str]] = {"openvino": {"device_type": "CPU"}}
"""Given in every session. OpenVINO without a device type takes whichever device it likes."""

CANDIDATES: dict[ProviderName, dict[str, str]] = {
    "openvino": {"device_type": "CPU", "num_of_threads": "1", "num_streams": "1", "precision": "FP32", "cache_dir": ""},
    "migraphx": {
        "device_id": "0",
        "migraphx_fp16_enable": "0",
        "migraphx_bf16_enable": "0",
        "migraphx_fp8_enable": "0",
        "migraphx_int8_enable": "0",
        "migraphx_model_cache_dir": "",
        "migraphx_save_compiled_model": "0",
        "migraphx_load_compiled_model": "0",
        "migraphx_exhaustive_tune": "0",
        "migraphx_mem_limit": "8589934592",
    },
    "rocm": {
        "device_id": "0",
        "gpu_mem_limit": "8589934592",
        "arena_extend_strategy": "kSameAsRequested",
        "tunable_op_enable": "0",
    },
    "cuda": {
        "device_id": "0",
        "gpu_mem_limit": "8589934592",
        "arena_extend_strategy": "kSameAsRequested",
        "cudnn_conv_algo_search": "HEURISTIC",
        "do_copy_in_default_stream": "1",
        "use_tf32": "1",
    },
}
CACHE_OPTION: dict[ProviderName, str] = {"openvino": "cache_dir", "migraphx": "migraphx_model_cache_dir"}
"""Providers that compile, and the option that names their cache's directory."""

LIMIT_S = 300.0


@dataclass(frozen=True)
class Known:
    """What a build said. options: for every session; fell_back: why nothing could be asked."""

    options: Mapping[str, str]
    records: tuple[OptionRecord, ...] = ()
    fell_back: str | None = None

    @property
    def accepted(self) -> tuple[str, ...]:
        return tuple(r.name for r in self.records if r.accepted)

    def told(self, provider: ProviderName) -> list[str]:
        """For the profile's notes."""
        if not self.records:
            return []
        refused = [r.name if r.value in {"", "0"} else f"{r.name}={r.value}" for r in self.records if not r.accepted]
        words = f"{provider}: this build takes the options {', '.join(self.accepted) or '(none)'}"
        return [words + (f" and refuses {', '.join(refused)}" if refused else "")]


def ask(
    provider: ProviderName,
    launch: Launch,
    threads: int,
    wanted: Mapping[str, str],
    also: Mapping[str, str] | None = None,
) -> Known:
    """Try every candidate, `also` with these values, and what the person wants; InputError, in the library's words, when
    the build refuses the last.
    """
    base = {**BASE.get(provider, {}), **wanted}
    if provider == "cpu":
        if wanted:
            raise InputError(f"--option cpu.{next(iter(wanted))}: simcap gives the cpu provider no options")
        return Known({})
    with tempfile.TemporaryDirectory(prefix="simcap-") as folder:
        model = Path(folder) / "small.onnx"
        model.write_bytes(small_model())
        candidates = {n: v or str(Path(folder) / "cache") for n, v in CANDIDATES.get(provider, {}).items()}
        job = {
            "op": "options",
            "model": str(model),
            "provider": EXECUTION_PROVIDERS[provider],
            "threads": 1,
            "base": BASE.get(provider, {}),
            "candidates": {**candidates, **(also or {}), **wanted},
        }
        outcome = launch(job, LIMIT_S)
    if outcome.fell_back is not None:
        return Known(base, fell_back=outcome.fell_back.reason)
    if outcome.status != "done":
        raise MeasurementError(f"{provider}: asking for its options {outcome.status}: {outcome.reason}")
    records = tuple(r for r in outcome.records if isinstance(r, OptionRecord))
    known = Known(base, records)
    for record in records:
        if record.name in wanted and not record.accepted:
            raise InputError(
                f"--option {provider}.{record.name}={record.value}: {record.reason}; {nearest(record.name, known.accepted)}"
            )
    if provider == "openvino" and "num_of_threads" in known.accepted:
        return Known({"num_of_threads": str(threads), **base}, records)
    return known


def parse_option(argument: str) -> tuple[ProviderName, str, str]:
    """`openvino.precision=FP16` taken apart; InputError that shows the form."""
    left, equals, value = argument.partition("=")
    provider, dot, name = left.partition(".")
    if not (equals and dot and provider and name and value):
        raise InputError(f"--option {argument!r}: expected provider.name=value, as in migraphx.migraphx_fp16_enable=1")
    for known in EXECUTION_PROVIDERS:
        if known == provider:
            return known, name, value
    raise InputError(f"--option {argument!r}: no provider {provider!r}; {nearest(provider, EXECUTION_PROVIDERS)}")


def small_model() -> bytes:
    """One matrix product, which every provider takes."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 16])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "small", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content
