"""Devices as the Linux kernel shows them: cards in /sys/class/drm, the compute driver's nodes, and its device file.

Sources: Linux amdgpu `mem_info_*` and `current_*_partition` files (bytes; `CPX`, `NPS1`); the KFD topology, where a node
with `simd_count` above 0 is a GPU and `gfx_target_version` 90402 reads major 9, minor 4, step 2: gfx942 (the last two in
hexadecimal). Enters: a root. Leaves: devices, and what was there in words, permission denied included.
"""

from __future__ import annotations

import os
from pathlib import Path

from calibrate.gpus import Gpu, Look

VENDORS = {"0x1002": "AMD", "0x10de": "NVIDIA"}
NAMES = {"gfx942": "CDNA3 (MI300, MI325)", "gfx950": "CDNA4 (MI350, MI355)", "gfx90a": "CDNA2 (MI200)"}


def read(path: Path) -> str:
    """A file's text; the seam where tests deny permission, since they run as root in places."""
    return path.read_text(encoding="utf-8")


def _optional(path: Path) -> str | None:
    return read(path).strip() if path.exists() else None


def sysfs(root: Path) -> tuple[list[Gpu], Look]:
    """Cards. A partition beyond the first is a card without a vendor of its own; it is counted, not measured."""
    folder = root / "sys/class/drm"
    place = "/sys/class/drm/card*/device"
    if not folder.is_dir():
        return [], Look(place, "no such directory")
    gpus: list[Gpu] = []
    others, partitions = 0, 0
    unreadable: list[str] = []
    for card in sorted(folder.glob("card[0-9]*")):
        device = card / "device"
        if not device.is_dir():
            continue  # a connector such as card0-HDMI-A-1
        try:
            vendor = _optional(device / "vendor")
            if vendor is None:
                partitions += 1
            elif vendor in VENDORS:
                gpus.append(_card(card.name, VENDORS[vendor], device))
            else:
                others += 1
        except (OSError, ValueError) as error:
            unreadable.append(f"{card.name} cannot be read ({_why(error)})")
    words = [_listed(gpus), *([f"{others} of another vendor"] if others else []), *unreadable]
    if partitions:
        words.append(f"{partitions} cards without a vendor of their own, as partitions have")
    return gpus, Look(place, "; ".join(words))


def _card(name: str, vendor: str, device: Path) -> Gpu:
    total, used = _optional(device / "mem_info_vram_total"), _optional(device / "mem_info_vram_used")
    return Gpu(
        vendor=vendor,
        name=f"{vendor} {name}",
        place=f"/sys/class/drm/{name}",
        board=name,
        memory_bytes=int(total) if total else None,
        used_bytes=int(used) if used else None,
        compute=_optional(device / "current_compute_partition"),
        memory_mode=_optional(device / "current_memory_partition"),
    )


def kfd(root: Path) -> tuple[list[Gpu], Look]:
    """Nodes of the compute driver; the partitions of one board share its unique_id."""
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
            unreadable.append(f"node {node.name} cannot be read ({_why(error)})")
            continue
        if properties.get("simd_count", 0) > 0:
            target = _target(properties.get("gfx_target_version", 0))
            board = str(properties.get("unique_id") or f"node {node.name}")
            name = f"AMD {NAMES.get(target, target)}"
            gpus.append(Gpu("AMD", name, f"{place}/nodes/{node.name}", board, banks or None, target=target))
    return gpus, Look(place, "; ".join([_listed(gpus), *unreadable]))


def device_files(root: Path) -> tuple[list[Gpu], Look]:
    """Whether the compute driver's device may be opened: without it no provider runs, whatever /sys shows."""
    path = root / "dev/kfd"
    if not path.exists():
        return [], Look("/dev/kfd", "no such file (no compute driver, or not passed into this container)")
    if openable(path):
        return [], Look("/dev/kfd", "may be opened")
    return [], Look("/dev/kfd", "permission denied: add this user to the groups that own it (render, video)")


def openable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


def _target(version: int) -> str:
    """90402 -> gfx942, 90010 -> gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _pairs(path: Path) -> dict[str, int]:
    """A KFD properties file: a name and a number a line."""
    rows = (line.split() for line in read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def _why(error: Exception) -> str:
    return "permission denied" if isinstance(error, PermissionError) else str(error)


def _listed(gpus: list[Gpu]) -> str:
    if not gpus:
        return "no AMD or NVIDIA GPU"
    return ", ".join(f"{g.name} ({g.memory_bytes or 'unknown'} bytes of memory)" for g in gpus)
