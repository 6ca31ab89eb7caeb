"""What making a session costs with its on-disk cache empty or filled, in a process that has made none before.

Enters: a job with `cache_dir` (also in its provider's options) and a shape. Leaves: nanoseconds to create the session and
for the first run, and the cache's files before and after: name, bytes, time of change, file number, and whether they were
read. To see reading, the time of last access is set back to 1970 first; file systems that record it move it when read.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, List

from .session import create, feed


def compile_once(job: Dict[str, Any]) -> Dict[str, Any]:
    """The `compile` record of one fresh process."""
    folder = Path(job["cache_dir"])
    before = files_in(folder)
    for path in _paths(folder):
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
    start = time.perf_counter_ns()
    session = create(job)
    created = time.perf_counter_ns()
    inputs = feed(session, job)
    ready = time.perf_counter_ns()
    session.run(None, inputs)
    ran = time.perf_counter_ns()
    read = [str(p.relative_to(folder)) for p in _paths(folder) if p.stat().st_atime_ns > 0]
    return {
        "kind": "compile",
        "create_ns": created - start,
        "first_run_ns": ran - ready,
        "before": before,
        "after": files_in(folder),
        "read": read,
    }


def _paths(folder: Path) -> List[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def files_in(folder: Path) -> List[Dict[str, Any]]:
    """Every file below the folder: its name, bytes, and what changes when it is written again."""
    found = []
    for path in _paths(folder):
        seen = path.stat()
        name = str(path.relative_to(folder))
        found.append({"name": name, "bytes": seen.st_size, "changed_ns": seen.st_mtime_ns, "number": seen.st_ino})
    return found
