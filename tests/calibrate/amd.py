"""Recorded trees: what Linux and amdsmi show of AMD machines, written below a folder.

Field names and values follow the amdgpu driver's documentation, the KFD topology, amdsmi's API, and ROCm issue 4750
(an MI300X in CPX/NPS1 whose eight partitions each report the whole memory). Nobody had such a machine here.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

MI300X_BYTES = 206_141_652_992
MI300X_IDLE = 297_771_008
MI355X_BYTES = 309_220_868_096


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def card(root: Path, number: int, total: int, used: int, compute: str, memory: str) -> None:
    device = root / f"sys/class/drm/card{number}/device"
    write(device / "vendor", "0x1002\n")
    write(device / "mem_info_vram_total", f"{total}\n")
    write(device / "mem_info_vram_used", f"{used}\n")
    write(device / "current_compute_partition", f"{compute}\n")
    write(device / "current_memory_partition", f"{memory}\n")


def partition_card(root: Path, number: int) -> None:
    """A partition beyond the first: a card whose device is a platform device, without a vendor file."""
    write(root / f"sys/class/drm/card{number}/device/driver_override", "(null)\n")


def node(root: Path, number: int, simds: int, target: int, unique_id: int, total: int) -> None:
    folder = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
    write(
        folder / "properties",
        f"cpu_cores_count 0\nsimd_count {simds}\ngfx_target_version {target}\nunique_id {unique_id}\n",
    )
    write(folder / "mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {total}\nflags 0\n")


def processor_node(root: Path) -> None:
    write(root / "sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 96\nsimd_count 0\n")
    write(root / "dev/kfd", "")


def mi300x_spx(root: Path) -> None:
    """One device; beside it a management controller's display, and a connector of the card."""
    card(root, 1, MI300X_BYTES, MI300X_IDLE, "SPX", "NPS1")
    (root / "sys/class/drm/card1-HDMI-A-1").mkdir()
    write(root / "sys/class/drm/card0/device/vendor", "0x1a03\n")
    processor_node(root)
    node(root, 1, 1216, 90402, 77, MI300X_BYTES)


def mi300x_cpx(root: Path) -> None:
    """Eight partitions of one die each on one memory; every one reports the whole of it."""
    card(root, 1, MI300X_BYTES, MI300X_IDLE, "CPX", "NPS1")
    for number in range(2, 9):
        partition_card(root, number)
    processor_node(root)
    for number in range(1, 9):
        node(root, number, 152, 90402, 77, MI300X_BYTES)


def mi355x(root: Path) -> None:
    card(root, 1, MI355X_BYTES, MI300X_IDLE, "SPX", "NPS1")
    processor_node(root)
    node(root, 1, 1024, 90500, 99, MI355X_BYTES)


def amdsmi(
    name: str, target: str, total: int, compute: str, memory: str, devices: int = 1, error: str | None = None
) -> ModuleType:
    """A module that answers like amdsmi; `error` is raised by its first call."""
    module: Any = ModuleType("amdsmi")
    handles = [SimpleNamespace(bdf=f"0000:05:00.{i}") for i in range(devices)]

    def init() -> None:
        if error:
            raise RuntimeError(error)

    module.amdsmi_init = init
    module.amdsmi_shut_down = lambda: None
    module.amdsmi_get_processor_handles = lambda: handles
    module.amdsmi_get_gpu_device_bdf = lambda handle: handle.bdf
    module.AmdSmiMemoryType = SimpleNamespace(VRAM=0)
    module.amdsmi_get_gpu_memory_total = lambda *_: total
    module.amdsmi_get_gpu_memory_usage = lambda *_: MI300X_IDLE
    module.amdsmi_get_gpu_asic_info = lambda *_: {"market_name": name, "target_graphics_version": target}
    module.amdsmi_get_gpu_compute_partition = lambda *_: compute
    module.amdsmi_get_gpu_memory_partition = lambda *_: memory
    found: ModuleType = module
    return found
