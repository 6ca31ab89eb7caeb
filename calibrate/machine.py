"""The machine that is measured: processor, cores, memory, system, versions.

Enters: /proc, /etc and /sys below an injected root (tests use a recorded tree). Leaves: a `Machine`. What the system
does not tell stays None; nothing is guessed.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from profiles.errors import MeasurementError

ROOT = Path("/")


@dataclass(frozen=True)
class Machine:
    """cores: those that this process may use; quota_cores: what a container's CPU limit allows, None without a limit."""

    cpu: str
    cores: int
    quota_cores: float | None
    memory_bytes: int
    os: str
    kernel: str


def machine(root: Path = ROOT) -> Machine:
    """Look at the machine below `root`."""
    return Machine(
        cpu=_cpu(root),
        cores=available_cores(),
        quota_cores=_quota(root),
        memory_bytes=_memory(root),
        os=_os(root),
        kernel=platform.release(),
    )


def memory_limit(root: Path = ROOT) -> int:
    """Bytes that processes here may use together: a control group's limit where that is below the machine's memory."""
    limit = (_text(root / "sys/fs/cgroup/memory.max") or "").strip()
    return min(_memory(root), int(limit)) if limit.isdigit() else _memory(root)


def available_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def simcap_version() -> str:
    """The version of the installed distribution."""
    return metadata.version("vllm-sr-simcap")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _cpu(root: Path) -> str:
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Model", "Hardware"} and value.strip():
            return value.strip()
    return f"{platform.machine()} (the system names no model)"


def _memory(root: Path) -> int:
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise MeasurementError(f"{root / 'proc/meminfo'} does not say how much memory there is")


def _quota(root: Path) -> float | None:
    """A control group's limit in cores: `cpu.max` holds "<microseconds or max> <period>"."""
    parts = (_text(root / "sys/fs/cgroup/cpu.max") or "").split()
    if len(parts) != 2 or parts[0] == "max":
        return None
    return int(parts[0]) / int(parts[1])


def _os(root: Path) -> str:
    for line in (_text(root / "etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip().strip('"')
    return platform.system()
