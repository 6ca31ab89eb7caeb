"""A directory of files written whole or not at all, that only replaces what we wrote before.

Enters: a target, file names with their bytes, a manifest. Leaves: the directory with the files and the manifest, which
gets a digest of each file. A target that holds anything else is an InputError and stays as it is. No time is written: the
same inputs give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiles.errors import InputError
from simcap.staging import staged


def digest(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def json_bytes(data: Any) -> bytes:
    """JSON as we write it: every digit, finite numbers only."""
    return (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def check(target: Path, manifest_name: str, schema: str) -> None:
    """InputError unless `target` is free, empty, or holds what a manifest of this schema says it holds."""
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise InputError(f"--out {target}: exists and is not a directory; choose another")
    present = {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir()}
    present = {name for name in present if "__pycache__" not in name}
    if not present:
        return
    try:
        known = json.loads((target / manifest_name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = None
    if not isinstance(known, dict) or known.get("schema") != schema:
        raise InputError(f"--out {target}: holds files that simcap did not write for this; choose another")
    foreign = sorted(present - set(known.get("files", {})) - {manifest_name})
    if foreign:
        raise InputError(f"--out {target}: holds {foreign[0]}, which simcap did not write; move it away first")


def write(target: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any], manifest_name: str) -> None:
    """Write `files` and the manifest (its `schema` names the kind of directory)."""

    def still_free() -> None:
        check(target, manifest_name, str(manifest["schema"]))

    still_free()
    with staged(target, still_free) as staging:
        for name, content in files.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).write_bytes(content)
        digests = {name: digest(content) for name, content in sorted(files.items())}
        (staging / manifest_name).write_bytes(json_bytes({**manifest, "files": digests}))
