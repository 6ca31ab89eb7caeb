"""What else runs on the machine while this process works: cores used by others, and cores that a hypervisor took away.

Enters: /proc/stat (Linux) and this process's own CPU time. Leaves: mean cores over the time watched; null where the system
does not tell. Seconds.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

STAT = Path("/proc/stat")


class Watch:
    """Starts to watch when it is made."""

    def __init__(self) -> None:
        self._began = self._read()

    def stop(self) -> Dict[str, Any]:
        """`own_cores`, `other_cores`, `stolen_cores`: means since the start."""
        (wall, own, seen), (wall_0, own_0, seen_0) = self._read(), self._began
        length = wall - wall_0
        told = {"span_s": length, "own_cores": (own - own_0) / length, "other_cores": None, "stolen_cores": None}
        if seen is not None and seen_0 is not None:
            told["other_cores"] = max(seen[0] - seen_0[0] - (own - own_0), 0.0) / length
            told["stolen_cores"] = (seen[1] - seen_0[1]) / length
        return told

    def _read(self) -> Tuple[float, float, Optional[Tuple[float, float]]]:
        used = os.times()
        return time.perf_counter(), used.user + used.system, busy()


def busy() -> Optional[Tuple[float, float]]:
    """CPU seconds since boot that anything ran on, and that were stolen; None where the system does not tell."""
    try:
        fields = STAT.read_text().splitlines()[0].split()
        ticks = os.sysconf("SC_CLK_TCK")
        user, nice, system, _idle, _wait, irq, softirq, steal = (int(f) / ticks for f in fields[1:9])
    except (OSError, ValueError, IndexError):
        return None
    return user + nice + system + irq + softirq, steal
