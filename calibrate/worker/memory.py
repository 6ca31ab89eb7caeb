"""Memory of this process, in bytes; or of a device, when the job names where its bytes in use stand: a file, or `nvml:0`.

`held`: resident bytes once the C library has given back what was freed; without that, leftovers of loading stay or go by
chance, by as much as the weights again. `peak_while`: the highest resident size while something runs. The kernel keeps a high-water mark
(VmHWM) that misses nothing; where it can be reset (/proc/self/clear_refs) it is used, otherwise a thread samples every
millisecond and can miss a shorter peak. The record says which (`how`).
"""

from __future__ import annotations

import ctypes
import gc
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
RESET_HIGH_WATER_MARK = "5"
INTERVAL_S = 0.001
NVML = "nvml:"
_HANDLES: Dict[str, Tuple[Callable[[Any], Any], Any]] = {}


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {field}")


def resident() -> int:
    """Resident bytes now."""
    return _status("VmRSS")


def held(device: Optional[str] = None) -> int:
    """Resident bytes after the C library returned free memory (glibc; elsewhere the resident bytes as they are).

    device: a file with the bytes in use on a device, such as amdgpu's `mem_info_vram_used`, or `nvml:N`; then those.
    """
    gc.collect()
    if device is not None:
        return in_use(device)
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        pass
    return resident()


def in_use(device: str) -> int:
    """Bytes in use on the whole device, by whomever. `nvml:N`: of NVIDIA device N, from the module pynvml."""
    if not device.startswith(NVML):
        return int(Path(device).read_text())
    if device not in _HANDLES:
        import pynvml

        pynvml.nvmlInit()
        _HANDLES[device] = (pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlDeviceGetHandleByIndex(int(device[len(NVML) :])))
    ask, handle = _HANDLES[device]
    return int(ask(handle).used)


def peak_while(action: Callable[[], Any], device: Optional[str] = None) -> Tuple[int, str]:
    """The highest resident bytes while `action` runs, and how it was found: `high_water_mark` or `sampled`.

    device: as for `held`; a device keeps no mark, so it is sampled.
    """
    if device is not None:
        return _sampled(action, lambda: in_use(device)), "sampled"
    try:
        CLEAR.write_text(RESET_HIGH_WATER_MARK)
    except OSError:
        return _sampled(action, resident), "sampled"
    action()
    return max(_status("VmHWM"), resident()), "high_water_mark"


def _sampled(action: Callable[[], Any], now: Callable[[], int]) -> int:
    highest = [now()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(INTERVAL_S):
            highest.append(max(now(), highest.pop()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        action()
    finally:
        done.set()
        watcher.join()
    return max(highest[0], now())
