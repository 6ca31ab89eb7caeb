"""What has been measured so far, on disk after every cell.

One JSON line a visit, flushed and synced before the next begins, so that kill -9 at any moment loses at most the visit
in progress. The file's name carries a digest of what defines the run (cells, rules, versions): the same command finds
its own journal again, another command never finds it. It is removed when the profile has been written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calibrate.results import Visit
from profiles.errors import InputError

SCHEMA = "simcap.journal/1"


class Journal:
    """The visits of one run. out: the profile that the run will write; identity: what must be equal to resume."""

    def __init__(self, out: Path, identity: Mapping[str, Any]) -> None:
        text = json.dumps({"schema": SCHEMA, **identity}, sort_keys=True)
        self.path = out.parent / f".{out.name}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.journal"
        self._header = text
        self.visits: list[Visit] = self._read()

    def add(self, visit: Visit) -> None:
        """Append a visit; on return it is on disk."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self._header)
        self._append(visit.model_dump_json(exclude_none=True))
        self.visits.append(visit)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _read(self) -> list[Visit]:
        """The whole lines; a torn last one (killed while writing) is cut off, so that the next line starts clean."""
        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self.path, len(whole))
        lines = whole.splitlines()
        if not lines:
            self.path.unlink()
            return []
        try:
            return [Visit.model_validate_json(line) for line in lines[1:]]
        except ValidationError as error:
            raise InputError(
                f"{self.path}: not a journal that this simcap can resume ({error.errors()[0]['msg']}); remove it to start again"
            ) from None
