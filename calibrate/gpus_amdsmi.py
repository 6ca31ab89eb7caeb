"""AMD devices as the Python module amdsmi tells them.

Enters: the module, imported or given. Leaves: devices and what was found there, in words. Bytes come from the calls that
return bytes (`amdsmi_get_gpu_vram_usage` counts in megabytes). What a version or a device does not support is left
unknown; that something failed is said.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from calibrate.gpus import Gpu, Look

PLACE = "Python module amdsmi"


def ask_amdsmi(module: ModuleType | None = None) -> tuple[list[Gpu], Look]:
    """The devices, and what amdsmi said; never an exception of amdsmi's."""
    try:
        smi: Any = module or importlib.import_module("amdsmi")
    except ImportError as error:
        return [], Look(PLACE, f"cannot be imported ({error})")
    except (OSError, KeyError) as error:  # its shared library is missing
        return [], Look(PLACE, f"cannot be loaded ({error})")
    try:
        smi.amdsmi_init()
        try:
            gpus = [_device(smi, handle, i) for i, handle in enumerate(smi.amdsmi_get_processor_handles())]
        finally:
            smi.amdsmi_shut_down()
    except Exception as error:
        return [], Look(PLACE, f"failed: {error}")
    return gpus, Look(PLACE, ", ".join(f"{g.name} ({g.mode or 'mode not reported'})" for g in gpus) or "no AMD GPU")


def _device(smi: Any, handle: Any, index: int) -> Gpu:
    asic = smi.amdsmi_get_gpu_asic_info(handle)
    kind = smi.AmdSmiMemoryType.VRAM
    bdf = str(_tried(smi.amdsmi_get_gpu_device_bdf, handle) or f"processor {index}")
    version = str(asic.get("target_graphics_version") or "")
    return Gpu(
        vendor="AMD",
        name=str(asic["market_name"]),
        place=f"amdsmi processor {index}",
        board=bdf.rpartition(".")[0] or bdf,  # partitions differ in the function number only
        memory_bytes=int(smi.amdsmi_get_gpu_memory_total(handle, kind)),
        used_bytes=_whole(_tried(smi.amdsmi_get_gpu_memory_usage, handle, kind)),
        target=version if version.startswith("gfx") else None,
        compute=_mode(_tried(smi.amdsmi_get_gpu_compute_partition, handle)),
        memory_mode=_mode(_tried(smi.amdsmi_get_gpu_memory_partition, handle)),
    )


def _tried(call: Callable[..., Any], *arguments: Any) -> Any:
    """The call's answer; None where this device or version does not support it."""
    try:
        return call(*arguments)
    except Exception:  # amdsmi's own errors, whose names differ by version; what cannot be read is left unknown
        return None


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _mode(value: Any) -> str | None:
    text = str(value or "").strip()
    return text if text and text not in {"N/A", "UNKNOWN"} else None
