"""NVIDIA devices as NVML tells them, through the Python module pynvml (package nvidia-ml-py).

Enters: the module, imported or given. Leaves: devices and what was found there, in words. Bytes are those of
`nvmlDeviceGetMemoryInfo`, of the whole device. The target is the compute capability: 9.0 is `sm_90`.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from calibrate.gpus import Gpu, Look

PLACE = "Python module pynvml"


def ask_nvml(module: ModuleType | None = None) -> tuple[list[Gpu], Look]:
    """The devices, and what NVML said; never an exception of NVML's."""
    try:
        nvml: Any = module or importlib.import_module("pynvml")
    except ImportError as error:
        return [], Look(PLACE, f"cannot be imported ({error})")
    try:
        nvml.nvmlInit()
        try:
            gpus = [_device(nvml, i) for i in range(nvml.nvmlDeviceGetCount())]
        finally:
            nvml.nvmlShutdown()
    except Exception as error:  # NVMLError, whose kinds differ by version
        return [], Look(PLACE, f"failed: {error}")
    return gpus, Look(PLACE, ", ".join(f"{g.name} ({g.memory_bytes} bytes of memory)" for g in gpus) or "no NVIDIA GPU")


def _device(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        vendor="NVIDIA",
        name=name.decode() if isinstance(name, bytes) else str(name),  # older versions answer in bytes
        place=f"nvml:{index}",
        board=str(nvml.nvmlDeviceGetUUID(handle)),
        memory_bytes=int(memory.total),
        used_bytes=int(memory.used),
        target=f"sm_{major}{minor}",
    )
