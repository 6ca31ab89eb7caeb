"""Runtimes as virtual environments of their own, below the user's cache: install, list, remove.

Enters: a runtime's name and a cache directory. Leaves: `<cache>/runtimes/<name>/` with one pinned build of ONNX Runtime
and a numpy that it works with, whole or not at all: it is built beside its place, asked what it has, and only then
renamed. `runtime.json` inside says what was asked for. Downloading is pip's work, with the user's own settings for it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calibrate.launch import Launch, WorkerLauncher
from calibrate.runtimes import EXECUTION_PROVIDERS, probe
from profiles.entry import ProviderName
from profiles.errors import InputError, UnavailableError, nearest

NUMPY = "numpy==2.4.6"
REQUIREMENTS: dict[ProviderName, tuple[str, ...]] = {
    "cpu": ("onnxruntime==1.32.0", NUMPY, "tokenizers==0.23.3"),
    "openvino": ("onnxruntime-openvino==1.24.1", NUMPY),
    "migraphx": ("onnxruntime-migraphx==1.27.1", NUMPY),
    "rocm": ("onnxruntime-rocm==1.22.2.post3", NUMPY),
    "cuda": ("onnxruntime-gpu==1.31.1", NUMPY, "nvidia-ml-py==13.615.71"),
}
"""Runtime -> what it holds. Each build owns the import name `onnxruntime`, hence one environment each. `tokenizers`: to
measure what a model's tokenizer costs; `nvidia-ml-py`: to see how much memory of the device is in use."""

NOTE = "runtime.json"
QUOTED_LINES = 3


@dataclass(frozen=True)
class Environment:
    """One runtime's place. `python` exists only when it is installed."""

    name: ProviderName
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def installed(self) -> bool:
        return (self.folder / NOTE).is_file() and self.python.exists()

    @property
    def requirements(self) -> tuple[str, ...]:
        """What it was installed from; empty when it is not installed or its note cannot be read."""
        try:
            return tuple(json.loads((self.folder / NOTE).read_text(encoding="utf-8"))["requirements"])
        except (OSError, ValueError, KeyError, TypeError):
            return ()


def environment(name: str, cache: Path) -> Environment:
    """The place of a runtime; InputError with the nearest name for an unknown one."""
    for known in REQUIREMENTS:
        if known == name:
            return Environment(known, cache / "runtimes" / known)
    raise InputError(f"no runtime {name!r}; {nearest(name, REQUIREMENTS)}")


def environments(cache: Path) -> list[Environment]:
    return [environment(name, cache) for name in REQUIREMENTS]


def install(
    name: str, cache: Path, say: Callable[[str], None], launcher: Callable[[Path], Launch] = WorkerLauncher
) -> Environment:
    """Build the runtime and put it in its place; returns at once when the same pins are there already.

    UnavailableError in pip's own words when a wheel cannot be had; then nothing is left behind and an older
    installation stays as it was.
    """
    place = environment(name, cache)
    wanted = REQUIREMENTS[place.name]
    if place.installed and place.requirements == wanted:
        return place
    place.folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.folder.parent))
    try:
        say(f"making an environment for {place.name}")
        _run([sys.executable, "-m", "venv", str(building)], place.name)
        python = building / "bin" / "python"
        say(f"installing {' '.join(wanted)}")
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], place.name)
        probe(launcher(python), place.name)
        (building / NOTE).write_text(json.dumps({"name": place.name, "requirements": wanted}) + "\n", encoding="utf-8")
        _swap(building, place.folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return place


def remove(name: str, cache: Path) -> None:
    """Remove a runtime; InputError when it is not installed."""
    place = environment(name, cache)
    if not place.folder.exists():
        raise InputError(f"runtime {name} is not installed in {place.folder.parent}")
    leaving = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.folder.parent))
    place.folder.rename(leaving / "old")  # out of sight at once, then gone
    shutil.rmtree(leaving)


def _swap(building: Path, target: Path) -> None:
    """Rename into place. The interpreter in it is a link and finds its packages by where it lies."""
    old = building.with_name(building.name + ".old")
    if target.exists():
        target.rename(old)
    building.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _run(command: list[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_without_ours())
    except OSError as error:
        raise UnavailableError(f"runtime {name}: cannot start {command[0]}: {error.strerror or error}") from None
    if done.returncode == 0:
        return
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    told = "\n".join(errors[-QUOTED_LINES:])
    raise UnavailableError(
        f"runtime {name} could not be installed; nothing was changed. {Path(command[0]).name} {command[2]} said:\n{told}\n"
        "pip needs a package index that it can reach, or wheels in a folder named by PIP_FIND_LINKS"
    )


def _without_ours() -> dict[str, str]:
    """The environment without variables that would point a new interpreter at our packages."""
    return {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}}


def interpreters(
    providers: list[ProviderName], cache: Path, chosen: dict[ProviderName, Path]
) -> dict[ProviderName, Path | None]:
    """The interpreter for each provider: the one chosen, else the installed runtime, else None, which is our own."""
    found: dict[ProviderName, Path | None] = {}
    for provider in providers:
        place = environment(provider, cache)
        found[provider] = chosen.get(provider) or (place.python if place.installed else None)
    return found


def parse_runtime(argument: str) -> tuple[ProviderName, Path]:
    """`migraphx=/path/to/python` taken apart; InputError that shows the form or names what is wrong."""
    name, equals, path = argument.partition("=")
    if not (equals and name and path):
        raise InputError(f"--runtime {argument!r}: expected provider=python, as in migraphx=/opt/venv/bin/python")
    if not os.access(path, os.X_OK) or Path(path).is_dir():
        raise InputError(f"--runtime {argument!r}: {path} is not an interpreter that can be started")
    for known in EXECUTION_PROVIDERS:
        if known == name:
            return known, Path(os.path.abspath(path))  # noqa: PTH100 - resolving its links would leave the environment
    raise InputError(f"--runtime {argument!r}: no provider {name!r}; {nearest(name, EXECUTION_PROVIDERS)}")
