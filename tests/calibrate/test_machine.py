from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from calibrate.gpus import search
from calibrate.machine import machine
from calibrate.request import check_device
from profiles.errors import InputError, MeasurementError, UnavailableError
from profiles.hardware import catalog

MI300X_BYTES = 206_141_652_992


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _mi300x(root: Path) -> None:
    """What Linux shows of an MI300X: a card, its connector-less siblings, and a KFD node beside the processor's."""
    card = root / "sys/class/drm/card1"
    _write(card / "device/vendor", "0x1002\n")
    _write(card / "device/mem_info_vram_total", f"{MI300X_BYTES}\n")
    (root / "sys/class/drm/card1-HDMI-A-1").mkdir()
    _write(root / "sys/class/drm/card0/device/vendor", "0x1a03\n")
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    _write(nodes / "0/properties", "cpu_cores_count 96\nsimd_count 0\n")
    _write(nodes / "1/properties", "cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\n")
    _write(nodes / "1/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {MI300X_BYTES}\nflags 0\n")


def _fake_amdsmi(error: str | None = None) -> ModuleType:
    module: Any = ModuleType("amdsmi")

    def init() -> None:
        if error:
            raise RuntimeError(error)

    module.amdsmi_init = init
    module.amdsmi_shut_down = lambda: None
    module.amdsmi_get_processor_handles = lambda: ["handle"]
    module.AmdSmiMemoryType = SimpleNamespace(VRAM=0)
    module.amdsmi_get_gpu_memory_total = lambda *_: MI300X_BYTES
    module.amdsmi_get_gpu_asic_info = lambda *_: {"market_name": "AMD Instinct MI300X"}
    found: ModuleType = module
    return found


def test_a_card_is_found_in_each_place(tmp_path: Path) -> None:
    """An MI300X is found by amdsmi, by sysfs and by KFD, with its memory in bytes; other vendors' cards are not it."""
    _mi300x(tmp_path)
    found = search(tmp_path, _fake_amdsmi())
    assert [g.memory_bytes for g in found.gpus] == [MI300X_BYTES] * 3
    assert [g.vendor for g in found.gpus] == ["AMD"] * 3
    assert "1 of another vendor" in found.told()


def test_an_empty_machine_says_where_we_looked(tmp_path: Path) -> None:
    """Without a GPU every place that was searched is named, with what was there."""
    found = search(tmp_path)
    assert found.gpus == ()
    assert [look.place for look in found.looks] == [
        "Python module amdsmi",
        "/sys/class/drm/card*/device",
        "/sys/class/kfd/kfd/topology",
    ]
    assert "cannot be imported" in found.looks[0].found
    assert "no such directory" in found.looks[1].found


def test_a_failing_amdsmi_does_not_hide_the_rest(tmp_path: Path) -> None:
    """An error of amdsmi is quoted, and sysfs and KFD are still read."""
    _mi300x(tmp_path)
    found = search(tmp_path, _fake_amdsmi("driver not loaded"))
    assert len(found.gpus) == 2
    assert "failed: driver not loaded" in found.told()


def test_unreadable_files_are_told(tmp_path: Path) -> None:
    """A card whose files cannot be understood is named and does not stop the search."""
    _mi300x(tmp_path)
    _write(tmp_path / "sys/class/drm/card1/device/mem_info_vram_total", "secret\n")
    found = search(tmp_path, _fake_amdsmi())
    assert len(found.gpus) == 2
    assert "card1 cannot be read" in found.told()


def test_asking_for_a_gpu_here(tmp_path: Path) -> None:
    """A GPU that is not here ends with exit code 3 and the list of places; one that is here is not denied."""
    with pytest.raises(UnavailableError, match="found no GPU") as nothing:
        check_device("mi300x", list(catalog()), tmp_path)
    assert nothing.value.exit_code == 3
    assert "/sys/class/kfd/kfd/topology: no such directory" in str(nothing.value)
    _mi300x(tmp_path)
    with pytest.raises(UnavailableError, match="found a GPU, but this version"):
        check_device("mi300x", list(catalog()), tmp_path)


def test_unknown_device_is_answered_with_the_nearest() -> None:
    """A name outside the hardware catalog is wrong input, with the nearest name; `cpu` needs no search."""
    with pytest.raises(InputError, match="did you mean 'mi300x'"):
        check_device("mi300", list(catalog()))
    check_device("cpu", list(catalog()))


def test_machine_is_read_from_the_system(tmp_path: Path) -> None:
    """Processor, memory, system and a container's limit come from the files that Linux has for them."""
    _write(tmp_path / "proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\n")
    _write(tmp_path / "proc/meminfo", "MemFree: 1 kB\nMemTotal:       1024 kB\n")
    _write(tmp_path / "etc/os-release", 'NAME="X"\nPRETTY_NAME="Ubuntu 24.04"\n')
    _write(tmp_path / "sys/fs/cgroup/cpu.max", "150000 100000\n")
    seen = machine(tmp_path)
    assert (seen.cpu, seen.memory_bytes, seen.os) == ("AMD EPYC 9654 96-Core Processor", 1024 * 1024, "Ubuntu 24.04")
    assert seen.quota_cores == 1.5
    _write(tmp_path / "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert machine(tmp_path).quota_cores is None


def test_machine_does_not_guess(tmp_path: Path) -> None:
    """Memory that the system does not state is an error, not a number."""
    with pytest.raises(MeasurementError, match="does not say how much memory"):
        machine(tmp_path)
