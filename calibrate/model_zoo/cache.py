"""Model files on disk: built once for each specification, found again by a key of its content.

Enters: a `ModelSpec` and a cache directory. Leaves: the path of an ONNX file, written whole or not at all. The key
covers the specification and the version of the generator, so a change of either makes another file.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from calibrate.model_zoo.architecture import ModelSpec
from profiles.store import write_whole

GENERATOR = 1  # raise it when the same specification begins to give another graph


def cache_directory(explicit: Path | None = None) -> Path:
    """`--cache`, else SIMCAP_CACHE, else XDG_CACHE_HOME/simcap, else ~/.cache/simcap."""
    if explicit is not None:
        return explicit
    if os.environ.get("SIMCAP_CACHE"):
        return Path(os.environ["SIMCAP_CACHE"])
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "simcap"


def key_of(spec: ModelSpec) -> str:
    """Twelve hex digits that name this content."""
    text = json.dumps({"generator": GENERATOR, **spec.identity()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def path_of(spec: ModelSpec, cache: Path) -> Path:
    return cache / "models" / f"{spec.name}-{spec.artifact}-{key_of(spec)}.onnx"


def ensure(spec: ModelSpec, cache: Path) -> Path:
    """The model's file, built first when it is not there."""
    path = path_of(spec, cache)
    if not path.exists():
        from calibrate.model_zoo.heads import build

        write_whole(path, build(spec).SerializeToString(deterministic=True))
    return path
