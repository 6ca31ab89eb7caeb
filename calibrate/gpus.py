"""The search for accelerators: what is here, in which partition mode, and where we looked.

Enters: the modules amdsmi and pynvml when they can be imported, and /sys and /dev below an injected root. Leaves: what was found and, for
each place, what we looked for and what was there; an operator whose GPU is missing needs the second more than the first.

Partitions: an MI300X in CPX shows eight devices, and with one memory (NPS1) each of them reports the memory of the whole
board (ROCm/legacy-rocm-build#4750). So memory is never summed over partitions: devices are grouped to boards, and a board
says when its numbers are those of the whole device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from calibrate.machine import ROOT, Machine
from profiles.errors import InputError, UnavailableError, nearest
from profiles.hardware import Hardware, catalog
from profiles.quantity import Figure
from profiles.schema import Device

MEMORY_TOLERANCE = 0.1
"""Catalogs say 192 GB for what the driver reports as 206 or 192 thousand million bytes."""

PLACES = {
    "AMD": ("amdsmi", "/sys/class/drm", "/sys/class/kfd"),
    "NVIDIA": ("nvml", "/sys/class/drm"),
}
"""Where devices of a maker are looked up, the place that tells most first."""


@dataclass(frozen=True)
class Look:
    """One place that was searched. `found`: what was there, in words."""

    place: str
    found: str


@dataclass(frozen=True)
class Gpu:
    """A device as one place reports it. board: equal for the partitions of one board.

    memory_bytes, used_bytes: None when not reported. target: `gfx942`. compute, memory_mode: `SPX`, `CPX`; `NPS1`, `NPS4`.
    """

    vendor: str
    name: str
    place: str
    board: str
    memory_bytes: int | None
    used_bytes: int | None = None
    target: str | None = None
    compute: str | None = None
    memory_mode: str | None = None

    @property
    def mode(self) -> str | None:
        """`CPX/NPS1`, as far as it is known."""
        return "/".join(m for m in (self.compute, self.memory_mode) if m) or None


@dataclass(frozen=True)
class Board:
    """The devices of one board. memory_bytes: of the board; whole_device: each partition reported this very number."""

    devices: tuple[Gpu, ...]
    memory_bytes: int | None
    whole_device: bool

    @property
    def first(self) -> Gpu:
        return self.devices[0]

    def told(self) -> str:
        gpu = self.first
        words = [gpu.name, gpu.target or "gfx target unknown"]
        words.append(f"{self.memory_bytes} bytes of memory" if self.memory_bytes else "memory unknown")
        if gpu.used_bytes is not None:
            words.append(f"{gpu.used_bytes} in use")
        words.append(f"partition mode {gpu.mode}" if gpu.mode else "partition mode not reported")
        if self.whole_device:
            words.append(
                f"{len(self.devices)} partitions, each reporting the memory of the whole device: not summed, and use of one "
                "cannot be told from use of the others"
            )
        elif len(self.devices) > 1:
            words.append(f"{len(self.devices)} partitions")
        return ", ".join(words)


@dataclass(frozen=True)
class Search:
    gpus: tuple[Gpu, ...]
    looks: tuple[Look, ...]

    def told(self) -> str:
        """The search as text, one place a line."""
        return "\n".join(f"  looked at {look.place}: {look.found}" for look in self.looks)

    def boards(self) -> list[Board]:
        """Each board once, from the place that tells most: NVML for NVIDIA; for AMD amdsmi, else sysfs, else KFD."""
        found: list[Board] = []
        for vendor, places in PLACES.items():
            for place in places:
                seen = [g for g in self.gpus if g.vendor == vendor and g.place.startswith(place)]
                if seen:
                    found += boards_of(self._with_targets(seen))
                    break
        return found

    def _with_targets(self, seen: list[Gpu]) -> list[Gpu]:
        """The gfx target is not in sysfs; KFD does, and where all its devices have one target it is everyone's."""
        targets = {g.target for g in self.gpus if g.target and g.vendor == "AMD"}
        only = next(iter(targets)) if len(targets) == 1 else None
        return [replace(g, target=g.target or (only if g.vendor == "AMD" else None)) for g in seen]


def boards_of(gpus: list[Gpu]) -> list[Board]:
    """Group devices by board; memory is the board's, once."""
    found: list[Board] = []
    for board in dict.fromkeys(g.board for g in gpus):
        devices = tuple(g for g in gpus if g.board == board)
        sizes = [g.memory_bytes for g in devices if g.memory_bytes]
        one_memory = len(devices) > 1 and devices[0].memory_mode in {"NPS1", None} and len(set(sizes)) == 1
        total = None if not sizes else sizes[0] if one_memory else sum(sizes)
        found.append(Board(devices, total, one_memory))
    return found


def search(root: Path = ROOT, amdsmi: ModuleType | None = None, pynvml: ModuleType | None = None) -> Search:
    """Look everywhere. amdsmi, pynvml: modules to use instead of importing them (tests)."""
    from calibrate.gpus_amdsmi import ask_amdsmi
    from calibrate.gpus_nvml import ask_nvml
    from calibrate.gpus_sysfs import device_files, kfd, sysfs

    gpus: list[Gpu] = []
    looks: list[Look] = []
    for found, look in (ask_amdsmi(amdsmi), sysfs(root), kfd(root), device_files(root), ask_nvml(pynvml)):
        gpus += found
        looks.append(look)
    return Search(tuple(gpus), tuple(looks))


def memory_of(found: Search | None) -> str | None:
    """Where a worker reads the device's bytes in use: amdgpu's file, or `nvml:N`.

    None without a GPU that tells, or with several, whose order providers do not tell.
    """
    cards = [g for g in found.gpus if g.place.startswith(("/sys/class/drm", "nvml"))] if found else []
    telling = [g for g in cards if g.used_bytes is not None]
    if len(telling) != 1:
        return None
    place = telling[0].place
    return place if place.startswith("nvml") else str(Path(place) / "device" / "mem_info_vram_used")


def check_device(
    gpu: str, root: Path = ROOT, amdsmi: ModuleType | None = None, pynvml: ModuleType | None = None
) -> Search | None:
    """None for `cpu`; the search that found the device; otherwise what is wrong with the name, or where we looked."""
    known = catalog()
    if gpu not in known:
        raise InputError(f"--gpu {gpu!r}: no such device in the hardware catalog; {nearest(gpu, known)}")
    if gpu == "cpu":
        return None
    found = search(root, amdsmi, pynvml)
    boards = found.boards()
    if any(_is(board, known[gpu]) for board in boards):
        return found
    what = "found no GPU" if not boards else "found " + "; ".join(board.told() for board in boards)
    raise UnavailableError(
        f"cannot measure {gpu} here: {what}\n{found.told()}\nmeasure on a machine with it, or use --gpu cpu here"
    )


def _is(board: Board, hardware: Hardware) -> bool:
    """Same target, and about the memory that the catalog states: MI300X and MI325X share a target."""
    if hardware.target is None or board.first.target != hardware.target:
        return False
    if hardware.memory_bytes is None or board.memory_bytes is None:
        return True
    stated = hardware.memory_bytes.value / max(hardware.visible_devices, 1)
    return abs(board.memory_bytes - stated) <= MEMORY_TOLERANCE * stated


def device_of(gpu: str, here: Machine, found: Search | None) -> Device:
    """The profile's device: the processor for `cpu`, else the board that `check_device` found."""
    if gpu == "cpu" or found is None:
        memory = Figure(value=here.memory_bytes, origin="measured", n=1)
        return Device(catalog="cpu", kind="cpu", name=here.cpu, memory_bytes=memory, cores=here.cores)
    board = next(b for b in found.boards() if _is(b, catalog()[gpu]))
    doubt = "of the whole device; its partitions share it" if board.whole_device else None
    size = board.memory_bytes
    return Device(
        catalog=gpu,
        kind="gpu",
        name=board.first.name,
        memory_bytes=Figure(value=size, origin="measured", n=1, doubt=doubt) if size else None,
        partition=board.first.mode,
    )
