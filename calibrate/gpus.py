"""The search for accelerators, and a report of where we looked.

Enters: the amdsmi module when it can be imported, and /sys below an injected root. Leaves: what was found and, for each
place, what we looked for and what was there; an operator whose GPU is missing needs the second more than the first.
Sources: Linux amdgpu `mem_info_*` files (bytes) and the KFD topology (a node with `simd_count` above 0 is a GPU).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from calibrate.machine import ROOT

AMD = "0x1002"
NVIDIA = "0x10de"
VENDORS = {AMD: "AMD", NVIDIA: "NVIDIA"}


@dataclass(frozen=True)
class Look:
    """One place that was searched. `found`: what was there, in words."""

    place: str
    found: str


@dataclass(frozen=True)
class Gpu:
    """An accelerator. `memory_bytes`: as this place reports it, None when it does not."""

    vendor: str
    name: str
    place: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Search:
    gpus: tuple[Gpu, ...]
    looks: tuple[Look, ...]

    def told(self) -> str:
        """The search as text, one place a line."""
        return "\n".join(f"  looked at {look.place}: {look.found}" for look in self.looks)


def search(root: Path = ROOT, amdsmi: ModuleType | None = None) -> Search:
    """Look everywhere. amdsmi: a module to use instead of importing it (tests)."""
    gpus: list[Gpu] = []
    looks: list[Look] = []
    for found, look in (_ask_amdsmi(amdsmi), _sysfs(root), _kfd(root)):
        gpus += found
        looks.append(look)
    return Search(tuple(gpus), tuple(looks))


def _ask_amdsmi(module: ModuleType | None) -> tuple[list[Gpu], Look]:
    place = "Python module amdsmi"
    try:
        smi: Any = module or importlib.import_module("amdsmi")
    except ImportError as error:
        return [], Look(place, f"cannot be imported ({error})")
    except OSError as error:  # its shared library is missing
        return [], Look(place, f"cannot be loaded ({error})")
    try:
        smi.amdsmi_init()
        try:
            gpus = [_from_amdsmi(smi, handle, i) for i, handle in enumerate(smi.amdsmi_get_processor_handles())]
        finally:
            smi.amdsmi_shut_down()
    except Exception as error:
        return [], Look(place, f"failed: {error}")
    return gpus, Look(place, _listed(gpus))


def _from_amdsmi(smi: Any, handle: Any, index: int) -> Gpu:
    memory = int(smi.amdsmi_get_gpu_memory_total(handle, smi.AmdSmiMemoryType.VRAM))
    name = str(smi.amdsmi_get_gpu_asic_info(handle)["market_name"])
    return Gpu("AMD", name, f"amdsmi processor {index}", memory)


def _sysfs(root: Path) -> tuple[list[Gpu], Look]:
    folder = root / "sys/class/drm"
    place = "/sys/class/drm/card*/device"
    if not folder.is_dir():
        return [], Look(place, "no such directory")
    gpus: list[Gpu] = []
    others = 0
    unreadable: list[str] = []
    for card in sorted(folder.glob("card[0-9]*")):
        device = card / "device"
        if not device.is_dir():
            continue  # a connector such as card0-HDMI-A-1
        try:
            vendor = (device / "vendor").read_text().strip()
            memory = device / "mem_info_vram_total"
            total = int(memory.read_text()) if memory.exists() else None
        except (OSError, ValueError) as error:
            unreadable.append(f"{card.name} cannot be read ({error})")
            continue
        if vendor in VENDORS:
            gpus.append(Gpu(VENDORS[vendor], f"{VENDORS[vendor]} {card.name}", f"/sys/class/drm/{card.name}", total))
        else:
            others += 1
    words = [_listed(gpus), *([f"{others} of another vendor"] if others else []), *unreadable]
    return gpus, Look(place, "; ".join(words))


def _kfd(root: Path) -> tuple[list[Gpu], Look]:
    folder = root / "sys/class/kfd/kfd/topology/nodes"
    place = "/sys/class/kfd/kfd/topology"
    if not folder.is_dir():
        return [], Look(place, "no such directory (the amdgpu compute driver is not loaded)")
    gpus: list[Gpu] = []
    unreadable: list[str] = []
    for node in sorted(folder.iterdir()):
        try:
            properties = _pairs(node / "properties")
            banks = sum(_pairs(bank / "properties").get("size_in_bytes", 0) for bank in node.glob("mem_banks/*"))
        except (OSError, ValueError) as error:
            unreadable.append(f"node {node.name} cannot be read ({error})")
            continue
        if properties.get("simd_count", 0) > 0:
            version = properties.get("gfx_target_version", 0)
            gpus.append(Gpu("AMD", f"gfx target {version}", f"{place}/nodes/{node.name}", banks or None))
    return gpus, Look(place, "; ".join([_listed(gpus), *unreadable]))


def _pairs(path: Path) -> dict[str, int]:
    """A KFD properties file: a name and a number a line."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def _listed(gpus: list[Gpu]) -> str:
    if not gpus:
        return "no AMD or NVIDIA GPU"
    return ", ".join(f"{g.name} ({g.memory_bytes or 'unknown'} bytes of memory)" for g in gpus)
