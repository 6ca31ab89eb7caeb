"""What is here and what is not: one look at the machine for the operator.

Enters: a root, a cache, interpreters that the person named, a launcher. Leaves: a `Diagnosis`: devices, ROCm and MIGraphX
versions as their files state them, and for each provider whether its runtime is there and loads, why not in the loader's
own words, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from calibrate.environments import REQUIREMENTS, environment, interpreters
from calibrate.gpus import Search
from calibrate.launch import Launch
from calibrate.results import RuntimeRecord
from calibrate.runtimes import probe
from profiles.entry import ProviderName
from profiles.errors import MeasurementError, UnavailableError

State = Literal["loads", "does not load", "absent"]

MISSING: Sequence[tuple[str, str]] = (
    ("migraphx", "install MIGraphX (package migraphx of ROCm), or use the router's ROCm image with --runtime"),
    (
        r"hip|roc|rccl|MIOpen|miopen|amd",
        "install ROCm of the version that this wheel was built for, and check LD_LIBRARY_PATH",
    ),
    (
        r"cuda|cudnn|cublas|nvrtc|curand|cufft",
        "install CUDA and cuDNN for this wheel, or beside it in its environment: pip install 'onnxruntime-gpu[cuda,cudnn]'",
    ),
)
"""A missing library's name -> what to do."""


@dataclass(frozen=True)
class ProviderState:
    """where: whose interpreter it is. reason, remedy: when it does not load or is absent."""

    provider: ProviderName
    state: State
    where: str
    versions: str
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    search: Search
    rocm: str | None
    migraphx: str | None
    providers: tuple[ProviderState, ...]

    def lacking(self, needed: Sequence[str]) -> list[ProviderState]:
        return [p for p in self.providers if p.provider in needed and p.state != "loads"]


def diagnose(
    found: Search,
    root: Path,
    cache: Path,
    chosen: Mapping[ProviderName, Path],
    launcher: Callable[[Path | None], Launch],
) -> Diagnosis:
    """Look at everything; a runtime that cannot be asked is a finding and no error."""
    pythons = interpreters(list(REQUIREMENTS), cache, dict(chosen))
    states = tuple(_state(p, python, p in chosen, launcher(python), cache) for p, python in pythons.items())
    return Diagnosis(found, rocm_version(root), migraphx_version(root), states)


def _state(provider: ProviderName, python: Path | None, chosen: bool, launch: Launch, cache: Path) -> ProviderState:
    where = "this environment" if python is None else str(python) if chosen else "installed runtime"
    try:
        found = probe(launch, provider)
    except UnavailableError:
        pins = REQUIREMENTS[provider][0]
        if python is None:
            return ProviderState(
                provider, "absent", "not installed", pins, "no runtime", f"simcap runtimes install {provider}"
            )
        return ProviderState(
            provider, "absent", where, "", f"{python} has no ONNX Runtime with it", f"install {pins} there"
        )
    except MeasurementError as error:
        return ProviderState(provider, "absent", where, "", str(error), _reinstall(provider, cache))
    if found.loader is None:
        return ProviderState(provider, "loads", where, _versions(found))
    return ProviderState(provider, "does not load", where, _versions(found), found.loader, remedy_for(found.loader))


def _reinstall(provider: ProviderName, cache: Path) -> str:
    place = environment(provider, cache)
    again = f"simcap runtimes remove {provider}; " if place.installed else ""
    return f"{again}simcap runtimes install {provider}"


def _versions(found: RuntimeRecord) -> str:
    return f"ONNX Runtime {found.onnxruntime}, Python {found.python}, numpy {found.numpy}"


def remedy_for(loader: str) -> str:
    """What to do about the library that the loader misses."""
    for pattern, remedy in MISSING:
        if re.search(pattern, loader.split(":")[0]):
            return remedy
    return "put the library that it names on the loader's path (LD_LIBRARY_PATH)"


def _first(root: Path, places: Sequence[str], pattern: str) -> str | None:
    for place in places:
        try:
            match = re.search(pattern, (root / place).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if match:
            return ".".join(part for part in match.groups() if part)
    return None


def rocm_version(root: Path) -> str | None:
    """From the file that every ROCm has; None without one."""
    return _first(root, ("opt/rocm/.info/version", "opt/rocm/.info/version-dev"), r"(\d+\.\d+(?:\.\d+)?)")


def migraphx_version(root: Path) -> str | None:
    """From MIGraphX's own header or cmake file; None without them."""
    header = "MIGRAPHX_VERSION_MAJOR (\\d+)[\\s\\S]*MIGRAPHX_VERSION_MINOR (\\d+)"
    found = _first(root, ("opt/rocm/include/migraphx/version.h",), header)
    cmake = "opt/rocm/lib/cmake/migraphx/migraphx-config-version.cmake"
    return found or _first(root, (cmake,), r'PACKAGE_VERSION "(\d+\.\d+(?:\.\d+)?)')
