"""A module that answers like pynvml (package nvidia-ml-py), by the names and the byte counts of NVML."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

H200_BYTES = 150_754_820_096
IDLE = 541_196_288


def pynvml(name: str | bytes, total: int, devices: int = 1, error: str | None = None) -> Any:
    """`used` may be set while it is in use; `error` is raised by nvmlInit."""
    module: Any = ModuleType("pynvml")
    module.used = IDLE

    def init() -> None:
        if error:
            raise RuntimeError(error)

    module.nvmlInit = init
    module.nvmlShutdown = lambda: None
    module.nvmlDeviceGetCount = lambda: devices
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetName = lambda _: name
    module.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"
    module.nvmlDeviceGetMemoryInfo = lambda _: SimpleNamespace(total=total, used=module.used)
    module.nvmlDeviceGetCudaComputeCapability = lambda _: (9, 0)
    return module
