"""Runtimes: interpreters that hold ONE build of ONNX Runtime each, asked what they have.

Enters: a launcher for an interpreter. Leaves: its versions and execution providers, and why the provider's library does
not load where it does not; or an UnavailableError that says what to install. A provider that is compiled in and does not
load is no error here: its cells will say so, in the library's words.
"""

from __future__ import annotations

from calibrate.launch import Launch
from calibrate.results import RuntimeRecord
from profiles.entry import ProviderName
from profiles.errors import MeasurementError, UnavailableError

EXECUTION_PROVIDERS: dict[ProviderName, str] = {
    "cpu": "CPUExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "rocm": "ROCMExecutionProvider",
}
"""Our provider names -> ONNX Runtime's."""

PROBE_LIMIT_S = 120.0  # importing a GPU build for the first time reads gigabytes


def remedy(provider: ProviderName) -> str:
    """What to do about a provider's missing runtime."""
    return f"install it with: simcap runtimes install {provider}   (or name one: --runtime {provider}=/path/to/python)"


def probe(launch: Launch, provider: ProviderName) -> RuntimeRecord:
    """What the runtime holds; UnavailableError when it has no ONNX Runtime or was built without this provider."""
    outcome = launch({"op": "probe", "provider": EXECUTION_PROVIDERS[provider]}, PROBE_LIMIT_S)
    if outcome.failure_type in {"ModuleNotFoundError", "ImportError"}:
        raise UnavailableError(
            f"the runtime for {provider} cannot import what measuring needs ({outcome.reason})\n{remedy(provider)}"
        )
    found = next((r for r in outcome.records if isinstance(r, RuntimeRecord)), None)
    if found is None:
        raise MeasurementError(
            f"the runtime for {provider} could not be asked what it has: {outcome.status}, {outcome.reason}"
        )
    if EXECUTION_PROVIDERS[provider] not in found.providers:
        raise UnavailableError(
            f"no runtime for {provider}: ONNX Runtime {found.onnxruntime} here offers {', '.join(found.providers)} and not "
            f"{EXECUTION_PROVIDERS[provider]}\n{remedy(provider)}"
        )
    return found
