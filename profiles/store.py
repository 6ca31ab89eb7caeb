"""Find, read and write profile files.

A profile is named by a path or by the name of one that ships with simcap. Writing is whole or not at all: a temporary
name beside the target, then a rename.
"""

from __future__ import annotations

import json
import os
import tempfile
from importlib import resources
from pathlib import Path

from profiles.document import exists, load_json, nearest
from profiles.errors import InputError
from profiles.schema import Profile

SHIPPED = Path(str(resources.files("profiles"))) / "data"


def shipped_names() -> list[str]:
    """Names of the profiles that ship with simcap."""
    return sorted(path.name.removesuffix(".profile.json") for path in SHIPPED.glob("*.profile.json"))


def locate(name_or_path: str) -> Path:
    """The file behind a shipped name or a path; InputError with the nearest shipped name otherwise."""
    path = Path(name_or_path)
    if exists(path):
        return path
    if name_or_path in shipped_names():
        return SHIPPED / f"{name_or_path}.profile.json"
    if path.suffix or len(path.parts) > 1:
        raise InputError(f"profile {name_or_path}: no such file")
    raise InputError(
        f"no profile {name_or_path!r} here and none shipped under that name; {nearest(name_or_path, shipped_names())}"
    )


def load(name_or_path: str) -> Profile:
    """Read and validate a profile."""
    return load_json(locate(name_or_path), Profile)


def dumps(profile: Profile) -> str:
    """The profile as JSON text, keys in schema order, absent values left out."""
    return (
        json.dumps(profile.model_dump(mode="json", by_alias=True, exclude_defaults=False, exclude_none=True), indent=1)
        + "\n"
    )


def save(profile: Profile, path: Path) -> None:
    """Write the profile whole or not at all."""
    write_whole(path, dumps(profile).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name in the same directory, flush it to disk, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
