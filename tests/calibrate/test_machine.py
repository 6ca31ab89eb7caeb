from __future__ import annotations

from pathlib import Path

import pytest

from calibrate.machine import machine
from profiles.errors import MeasurementError


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


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
