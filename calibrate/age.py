"""Profile age: whether what a profile was measured on is still what is here. docs/decisions/0016 has the rule.

Enters: a profile, the machine at hand, model files where the user names them. Leaves: an `Age`: `current`, `stale` (this
machine, and something on it changed), `elsewhere` (another machine, which is normal for simulating) or `unmeasured`
(nothing in it was measured). What cannot be looked up here is told and not judged. Nothing is started: versions of ONNX
Runtime are read from the metadata of the environments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from calibrate.artifacts import digest_of, external_data
from calibrate.environments import environment
from calibrate.gpus import check_device
from calibrate.machine import ROOT, Machine, machine
from calibrate.model_zoo.cache import cache_directory
from profiles.document import nearest
from profiles.errors import InputError, UnavailableError
from profiles.schema import Profile, origins

Word = Literal["current", "stale", "elsewhere", "unmeasured"]

MEMORY_TOLERANCE = 0.02  # firmware and kernel keep a little more or less for themselves after an update
NOT_HERE = "(not here)"
BUILD = re.compile(r"^onnxruntime(?:[_-][a-z]+)?-(?P<version>\d[^-]*)\.dist-info$")


@dataclass(frozen=True)
class Compared:
    """One thing, as the profile says it and as it is here. `differs` None: it could not be looked up, or is not judged."""

    what: str
    profile: str
    here: str
    differs: bool | None


@dataclass(frozen=True)
class Age:
    """`rows`: everything compared, those that identify the machine first."""

    word: Word
    rows: tuple[Compared, ...]

    @property
    def changed(self) -> list[Compared]:
        return [row for row in self.rows if row.differs]

    def sentence(self, name: str) -> str:
        """One line for a person; what differs is named."""
        told = "; ".join(f"{row.what} was {row.profile}, here it is {row.here}" for row in self.changed)
        match self.word:
            case "stale":
                return f"profile {name} is stale: {told}; calibrate again"
            case "elsewhere":
                return f"profile {name} was measured elsewhere ({told}): figures are of that machine, not of this one"
            case "unmeasured":
                return f"nothing in profile {name} was measured: it cannot grow old on this machine"
        return f"profile {name} is current: nothing that could be compared has changed"


def age_of(
    profile: Profile, models: Mapping[str, Path] | None = None, *, root: Path = ROOT, cache: Path | None = None
) -> Age:
    """Compare with the machine below `root`. `models`: model name -> file, where the user says which file is in use."""
    if "measured" not in origins(profile):
        return Age("unmeasured", ())
    here = machine(root)
    who = tuple(_identity(profile, here, root))
    if any(row.differs for row in who):
        return Age("elsewhere", who)
    rest = (*_state(profile, here), *_runtimes(profile, cache or cache_directory()), *_files(profile, models or {}))
    return Age("stale" if any(row.differs for row in rest) else "current", (*who, *rest))


def _identity(profile: Profile, here: Machine, root: Path) -> Iterator[Compared]:
    """Whether it is the same machine: its processor, its cores, its device."""
    if profile.host is not None:
        yield _row("processor", profile.host.cpu, here.cpu)
        if profile.host.cores is not None:
            yield _row("cores", str(profile.host.cores), str(here.cores))
    device = profile.device
    if device.kind == "gpu" and (profile.host is None or profile.host.cpu == here.cpu):  # looking for a GPU takes time
        try:
            check_device(device.catalog, root)
        except UnavailableError:
            yield Compared("device", device.name, NOT_HERE, True)
        else:
            yield Compared("device", device.name, device.name, False)


def _state(profile: Profile, here: Machine) -> Iterator[Compared]:
    """What changes on a machine: memory, system, and the kernel, which brings the driver."""
    host = profile.host
    if host is not None and host.memory_bytes is not None:
        far = abs(here.memory_bytes - host.memory_bytes) > MEMORY_TOLERANCE * host.memory_bytes
        yield Compared("memory", f"{host.memory_bytes / 2**30:.1f} GiB", f"{here.memory_bytes / 2**30:.1f} GiB", far)
    if host is not None and host.os is not None:
        yield _row("system", host.os, here.os)
    if "kernel" in profile.software:
        yield _row("kernel and driver", profile.software["kernel"], here.kernel)


def _runtimes(profile: Profile, cache: Path) -> Iterator[Compared]:
    """ONNX Runtime of each provider that the profile measured with."""
    for provider in dict.fromkeys(entry.provider.name for entry in profile.entries):
        said = profile.software.get(f"onnxruntime of {provider}", profile.software.get("onnxruntime"))
        if said is not None:
            found = _onnxruntime(provider, cache)
            differs = None if found is None else found != said
            yield Compared(f"ONNX Runtime of {provider}", said, found or NOT_HERE, differs)


def _onnxruntime(provider: str, cache: Path) -> str | None:
    """The version in the provider's own environment, else in ours."""
    place = environment(provider, cache)
    if place.installed:
        for found in sorted(place.python.parent.parent.glob("lib/python*/site-packages/onnxruntime*.dist-info")):
            if match := BUILD.match(found.name):
                return match["version"]
        return None
    versions = (
        one.version
        for one in metadata.distributions()
        if (one.name or "").lower().replace("_", "-").startswith("onnxruntime")
    )
    return next(versions, None)


def _files(profile: Profile, models: Mapping[str, Path]) -> Iterator[Compared]:
    """Model files by their digest; those that nobody named are told and not judged."""
    known = {entry.model for entry in profile.entries}
    for name in models:
        if name not in known:
            raise InputError(f"--model {name}={models[name]}: the profile has no such model; {nearest(name, known)}")
    for entry in profile.entries:
        if entry.digest is None:
            continue
        path, said = models.get(entry.model), _short(entry.digest)
        if path is None:
            yield Compared(f"file of {entry.key}", said, "(not named)", None)
        else:
            found = file_digest(path)
            yield Compared(f"file of {entry.key}", said, _short(found), found != entry.digest)


def file_digest(path: Path) -> str:
    """As calibration takes it: the model's bytes, then those of the files beside it that hold its weights."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return digest_of([path, *external_data(path)])[0]


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _row(what: str, said: str, found: str) -> Compared:
    return Compared(what, said, found, said != found)
