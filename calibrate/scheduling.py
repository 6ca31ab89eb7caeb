"""How the system deals out cores: measured by bursts of equal inferences that outnumber the cores.

`width` inferences of the same shape start at one instant, a thread each (worker op `bursts`). Their ends tell:
    pull_s   cores + 1 of them. Each core gets one and one core a second. When the first end comes, a core falls idle, and the two
             that share have about half of their work w left each. Helped at once the last would end w/2 later; helped d later,
             (w + d)/2. So d = 2 (last end - first end) - w, between 0 and w (never helped).
    slice_s  two a core. Then the system takes the core from a thread at the end of its slice, and counts that: a slice is the CPU
             time of all over how often that happened.
Starting costs cancel out, since only a difference of ends counts; w is the mean CPU time of the burst's threads. Medians over
bursts. Enters: session job, cores, launcher. Leaves: a `Scheduling`, `measured`, with the count of bursts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrate.fit import figure
from calibrate.launch import Launch
from calibrate.results import BurstsRecord
from profiles.errors import MeasurementError
from profiles.schema import Scheduling

SECONDS = 4.0
PAUSE_S = 0.02
LIMIT_S = 120.0


def measure(job: Mapping[str, Any], cores: int, launch: Launch) -> Scheduling:
    """job: the keys of a session of one thread, with `tokens` and `batch`."""
    odd, even = (_bursts(job, width, launch) for width in (cores + 1, 2 * cores))
    return Scheduling(slice_s=figure(slices_of(even)), pull_s=figure(pulls_of(odd)))


def _bursts(job: Mapping[str, Any], width: int, launch: Launch) -> BurstsRecord:
    outcome = launch({**job, "op": "bursts", "width": width, "seconds": SECONDS, "pause_s": PAUSE_S}, LIMIT_S)
    record = next((r for r in outcome.records if isinstance(r, BurstsRecord)), None)
    if record is None:
        raise MeasurementError(f"bursts of {width} inferences brought nothing: {outcome.status}: {outcome.reason}")
    return record


def pulls_of(record: BurstsRecord) -> Sequence[float]:
    """Seconds that an idle core waited before it helped, burst by burst."""
    ends, work = _seconds(record)
    return np.clip(2 * (ends[:, -1] - ends[:, 0]) - work, 0.0, work).tolist()  # type: ignore[no-any-return]


def slices_of(record: BurstsRecord) -> Sequence[float]:
    """Seconds that a thread ran before another of its core did, burst by burst; all of its work where nothing was taken."""
    cpu, taken = np.array(record.cpu).sum(axis=1) / 1e9, np.array(record.switches).sum(axis=1)
    return (cpu / np.maximum(taken, 1)).tolist()  # type: ignore[no-any-return]


def _seconds(
    record: BurstsRecord,
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """(bursts, width) ends in order, and (bursts,) mean work of one."""
    return np.sort(np.array(record.ends) / 1e9, axis=1), np.array(record.cpu).mean(axis=1) / 1e9
