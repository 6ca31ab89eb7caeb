from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from calibrate import gpus_sysfs
from calibrate.gpus import check_device, device_of, memory_of, search
from calibrate.machine import machine
from calibrate.worker import memory
from profiles.errors import InputError, UnavailableError
from tests.calibrate import amd, nvidia

SPX = amd.amdsmi("AMD Instinct MI300X", "gfx942", amd.MI300X_BYTES, "SPX", "NPS1")
CPX = amd.amdsmi("AMD Instinct MI300X", "gfx942", amd.MI300X_BYTES, "CPX", "NPS1", devices=8)


def test_mi300x_whole(tmp_path: Path) -> None:
    """An MI300X in SPX is one board, found by amdsmi, sysfs and KFD alike, with target, mode and memory in bytes."""
    amd.mi300x_spx(tmp_path)
    for found in (search(tmp_path, SPX), search(tmp_path)):
        (board,) = found.boards()
        assert board.memory_bytes == amd.MI300X_BYTES
        assert (board.first.target, board.first.mode) == ("gfx942", "SPX/NPS1")
        assert board.first.used_bytes == amd.MI300X_IDLE
        assert not board.whole_device
    assert "1 of another vendor" in found.told()
    assert "may be opened" in found.told()


def test_partitions_are_not_summed(tmp_path: Path) -> None:
    """In CPX/NPS1 eight devices each report the whole memory: one board, that memory once, and it says so."""
    amd.mi300x_cpx(tmp_path)
    (board,) = search(tmp_path, CPX).boards()
    assert len(board.devices) == 8
    assert board.memory_bytes == amd.MI300X_BYTES
    assert board.whole_device
    assert "whole device: not summed" in board.told()
    assert "CPX/NPS1" in board.told()


def test_partitions_without_amdsmi(tmp_path: Path) -> None:
    """Without amdsmi sysfs gives the board once; KFD alone groups its nodes by the board's unique id and does not sum."""
    amd.mi300x_cpx(tmp_path)
    found = search(tmp_path)
    (board,) = found.boards()
    assert (board.memory_bytes, board.first.mode, board.first.target) == (amd.MI300X_BYTES, "CPX/NPS1", "gfx942")
    assert "7 cards without a vendor" in found.told()
    (tmp_path / "sys/class/drm").rename(tmp_path / "gone")
    (board,) = search(tmp_path).boards()
    assert (len(board.devices), board.memory_bytes, board.whole_device) == (8, amd.MI300X_BYTES, True)


def test_partitions_with_memories_of_their_own() -> None:
    """With NPS4 the partitions' memories are parts, and the board has their sum."""
    quarter = amd.amdsmi("AMD Instinct MI300X", "gfx942", amd.MI300X_BYTES // 4, "QPX", "NPS4", devices=4)
    (board,) = search(Path("/nowhere"), quarter).boards()
    assert board.memory_bytes == amd.MI300X_BYTES
    assert not board.whole_device


def test_mi355x(tmp_path: Path) -> None:
    """An MI355X is gfx950 with its own memory, and is not taken for an MI300X."""
    amd.mi355x(tmp_path)
    found = check_device("mi355x", tmp_path)
    assert found is not None
    assert found.boards()[0].first.target == "gfx950"
    with pytest.raises(UnavailableError, match=r"found .*gfx950"):
        check_device("mi300x", tmp_path)


def test_two_boards_of_one_target_are_told_apart(tmp_path: Path) -> None:
    """MI300X and MI325X share a target; memory tells which one is here."""
    amd.mi300x_spx(tmp_path)
    assert check_device("mi300x", tmp_path) is not None
    with pytest.raises(UnavailableError):
        check_device("mi325x", tmp_path)


def test_the_profiles_device(tmp_path: Path) -> None:
    """The profile names the board with its partition mode, and says when memory is the whole device's."""
    amd.mi300x_cpx(tmp_path)
    device = device_of("mi300x", machine(), check_device("mi300x", tmp_path, CPX))
    assert (device.catalog, device.kind, device.partition) == ("mi300x", "gpu", "CPX/NPS1")
    assert device.memory_bytes is not None
    assert device.memory_bytes.value == amd.MI300X_BYTES
    assert "whole device" in (device.memory_bytes.doubt or "")
    assert device_of("cpu", machine(), None).kind == "cpu"


def test_an_empty_machine_says_where_we_looked(tmp_path: Path) -> None:
    """Without a GPU every place that was searched is named, with what was there, and asking for one is exit code 3."""
    found = search(tmp_path)
    assert (found.gpus, found.boards()) == ((), [])
    assert [look.place for look in found.looks] == [
        "Python module amdsmi",
        "/sys/class/drm/card*/device",
        "/sys/class/kfd/kfd/topology",
        "/dev/kfd",
        "Python module pynvml",
    ]
    assert "cannot be imported" in found.looks[0].found
    with pytest.raises(UnavailableError, match="found no GPU") as nothing:
        check_device("mi300x", tmp_path)
    assert nothing.value.exit_code == 3
    assert "/sys/class/kfd/kfd/topology: no such directory" in str(nothing.value)


def test_permission_denied_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and the device that may not be opened are named with what to do; what can be read still counts."""
    amd.mi300x_spx(tmp_path)
    real = gpus_sysfs.read

    def denied(path: Path) -> str:
        if "kfd" in path.parts or path.name == "mem_info_vram_total":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(gpus_sysfs, "read", denied)
    monkeypatch.setattr(gpus_sysfs, "openable", lambda _: False)
    found = search(tmp_path)
    assert found.boards() == []
    assert "card1 cannot be read (permission denied)" in found.told()
    assert "node 1 cannot be read (permission denied)" in found.told()
    assert "permission denied: add this user to the groups" in found.told()
    assert len(search(tmp_path, SPX).boards()) == 1


def test_a_failing_amdsmi_does_not_hide_the_rest(tmp_path: Path) -> None:
    """An error of amdsmi is quoted, and sysfs and KFD are still read."""
    amd.mi300x_spx(tmp_path)
    broken = amd.amdsmi("x", "gfx942", 1, "SPX", "NPS1", error="driver not loaded")
    found = search(tmp_path, broken)
    assert len(found.gpus) == 2
    assert "failed: driver not loaded" in found.told()


def test_what_amdsmi_does_not_support_is_unknown() -> None:
    """A call that a version or a device does not support leaves its field unknown and nothing else."""
    module = amd.amdsmi("AMD Instinct MI210", "gfx90a", 1, "N/A", "N/A")

    def unsupported(*_: object) -> str:
        raise RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")

    module.amdsmi_get_gpu_compute_partition = unsupported  # type: ignore[attr-defined]
    (gpu,) = search(Path("/nowhere"), module).gpus
    assert gpu.mode is None
    assert gpu.target == "gfx90a"


def test_nvidia_by_nvml(tmp_path: Path) -> None:
    """NVML gives name, target and bytes; H100 and H200 share a target and are told apart by memory; use is read from it."""
    found = check_device("h200", tmp_path, pynvml=nvidia.pynvml("NVIDIA H200", nvidia.H200_BYTES))
    assert found is not None
    (board,) = found.boards()
    assert (board.first.name, board.first.target, board.memory_bytes) == ("NVIDIA H200", "sm_90", nvidia.H200_BYTES)
    assert board.first.used_bytes == nvidia.IDLE
    assert memory_of(found) == "nvml:0"
    assert device_of("h200", machine(), found).kind == "gpu"
    with pytest.raises(UnavailableError, match="found NVIDIA H200"):
        check_device("h100", tmp_path, pynvml=nvidia.pynvml("NVIDIA H200", nvidia.H200_BYTES))


def test_two_devices_have_no_memory_of_one(tmp_path: Path) -> None:
    """With two devices nothing tells which one a provider will use, so no memory is measured; with AMD's one it is a file."""
    assert memory_of(search(tmp_path, pynvml=nvidia.pynvml("NVIDIA H100", 85_520_809_984, devices=2))) is None
    amd.mi300x_spx(tmp_path)
    assert memory_of(search(tmp_path)) == "/sys/class/drm/card1/device/mem_info_vram_used"
    assert memory_of(None) is None


def test_nvml_that_fails_is_told(tmp_path: Path) -> None:
    """Without a driver NVML's own words are shown, and an old version's name in bytes is read."""
    failing = search(tmp_path, pynvml=nvidia.pynvml("x", 1, error="NVML Shared Library Not Found"))
    assert "Python module pynvml: failed: NVML Shared Library Not Found" in failing.told()
    (gpu,) = search(tmp_path, pynvml=nvidia.pynvml(b"Tesla", 1)).gpus
    assert gpu.name == "Tesla"


def test_the_worker_reads_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peak and held bytes of a device named `nvml:0` come from NVML, asked while the work runs."""
    module = nvidia.pynvml("NVIDIA H200", nvidia.H200_BYTES)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(memory, "_HANDLES", {})
    assert memory.held("nvml:0") == nvidia.IDLE

    def work() -> None:
        module.used = nvidia.IDLE + 2_000_000_000
        time.sleep(0.05)
        module.used = nvidia.IDLE + 1_000_000_000

    assert memory.peak_while(work, "nvml:0") == (nvidia.IDLE + 2_000_000_000, "sampled")
    assert memory.held("nvml:0") == nvidia.IDLE + 1_000_000_000


def test_unknown_device_is_answered_with_the_nearest() -> None:
    """A name outside the hardware catalog is wrong input, with the nearest name; `cpu` needs no search."""
    with pytest.raises(InputError, match="did you mean 'mi300x'"):
        check_device("mi300")
    assert check_device("cpu") is None
