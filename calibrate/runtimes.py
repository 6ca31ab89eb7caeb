"""Runtimes: interpreters that hold ONE build of ONNX Runtime each, asked what they have.

Enters: a launcher for an interpreter. Leaves: its versions and execution providers, or an UnavailableError that says
what to install. Extras of ours exclude each other, because all builds own the import name `onnxruntime`.
"""

from __future__ import annotations

from calibrate.launch import Launch
from calibrate.results import RuntimeRecord
from profiles.errors import MeasurementError, UnavailableError
from profiles.schema import ProviderName

EXECUTION_PROVIDERS: dict[ProviderName, str] = {
    "cpu": "CPUExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "rocm": "ROCMExecutionProvider",
}
"""Our provider names -> ONNX Runtime's."""

PROBE_LIMIT_S = 120.0  # importing a GPU build for the first time reads gigabytes


def probe(launch: Launch, provider: ProviderName) -> RuntimeRecord:
    """What the runtime holds; UnavailableError when it has no ONNX Runtime or not this provider."""
    extra = f"install it with: pip install 'vllm-sr-simcap[{provider}]'"
    outcome = launch({"op": "probe"}, PROBE_LIMIT_S)
    if outcome.failure_type in {"ModuleNotFoundError", "ImportError"}:
        raise UnavailableError(f"this runtime cannot import what measuring needs ({outcome.reason}); {extra}")
    found = next((r for r in outcome.records if isinstance(r, RuntimeRecord)), None)
    if found is None:
        raise MeasurementError(f"the runtime could not be asked what it has: {outcome.status}, {outcome.reason}")
    if EXECUTION_PROVIDERS[provider] not in found.providers:
        raise UnavailableError(
            f"ONNX Runtime {found.onnxruntime} here offers {', '.join(found.providers)} and not "
            f"{EXECUTION_PROVIDERS[provider]}; {extra} in an environment of its own"
        )
    return found
