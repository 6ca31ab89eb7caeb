"""The folder that a document is written to: Markdown, HTML, the data behind them as JSON, and the pictures.

Enters: the files as bytes. Leaves: the folder, whole or not at all; one that holds anything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from profiles.errors import InputError
from simcap.staging import staged


def check(out: Path, stem: str) -> None:
    """InputError unless `out` is free, or holds a document of this kind and nothing else."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"--out {out}: exists and is not a directory; choose another")
    for path in sorted(out.rglob("*")):
        inside = path.relative_to(out)
        picture = inside.parts[0] == "plots" and path.suffix in {"", ".svg"}
        if not picture and inside.name not in {f"{stem}.{kind}" for kind in ("md", "html", "json")}:
            raise InputError(f"--out {out}: holds {inside}, which simcap {stem} did not write; choose another")


def write(out: Path, stem: str, files: Mapping[str, bytes]) -> None:
    """Write all files (path below `out` -> content)."""
    check(out, stem)
    with staged(out, lambda: check(out, stem)) as directory:
        for name, content in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
