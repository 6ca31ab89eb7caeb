"""One cell, start to end, in one fresh process.

Order, and why: first load and first run, which are true firsts; warm latency, undisturbed; further fresh sessions for
more loads and first runs; then a session whose memory is watched; last the profiled session. What disturbs comes after
what it would disturb. Enters: the job (`loads`, `memory`, `ownership`, `tight`, `paced`: which parts and how long).
Leaves: one record a part.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from .memory import held, peak_while
from .ownership import ownership
from .sampling import exponential_gaps, sample
from .session import create, feed

MEMORY_RUNS = 2


def measure(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
    """Measure everything the job asks for and send a record for each part."""
    _warm_session(job, send)
    for _ in range(int(job["loads"]) - 1):
        gc.collect()  # the session before is gone before the next is timed
        _fresh_session(job, send)
    if job.get("memory"):
        send(_memory(job))
    if job.get("ownership"):
        send(ownership(job))


def _fresh_session(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> Tuple[Callable[[], Any], int]:
    """Time a load and the first run; returns the inference and the first run's nanoseconds."""
    session, load_ns = _timed(lambda: create(job))
    run = partial(session.run, None, feed(session, job))
    outputs, first_ns = _timed(run)
    send({"kind": "loaded", "ns": [load_ns], "session_providers": list(session.get_providers())})
    send({"kind": "first_run", "ns": [first_ns], "non_finite": _non_finite(outputs)})
    return run, first_ns


def _warm_session(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
    run, first_ns = _fresh_session(job, send)
    median_ns = float(first_ns)
    if job.get("tight"):
        found = sample(run, job["tight"])
        median_ns = float(np.median(found["ns"][found["warm_up"] :]))
        send({"kind": "latency", "cadence": "tight", **found})
    if job.get("paced"):
        gap_s = float(job["paced"]["gap_over_service"]) * median_ns / 1e9
        found = sample(run, job["paced"], exponential_gaps(gap_s, int(job["seed"])))
        send({"kind": "latency", "cadence": "paced", "mean_gap_s": gap_s, **found})


def _timed(action: Callable[[], Any]) -> Tuple[Any, int]:
    start = time.perf_counter_ns()
    result = action()
    return result, time.perf_counter_ns() - start


def _memory(job: Dict[str, Any]) -> Dict[str, Any]:
    """A session of its own, since watching disturbs; what the process holds before it is the idle baseline."""
    device = job.get("memory_of")
    idle = held(device)
    kept: List[Any] = []
    load_peak, how = peak_while(lambda: kept.append(create(job)), device)
    loaded = held(device)
    session = kept[0]
    inputs = feed(session, job)

    def several() -> None:
        for _ in range(MEMORY_RUNS):
            session.run(None, inputs)

    peak, _ = peak_while(several, device)
    parts = {"idle_bytes": idle, "load_peak_bytes": load_peak, "loaded_bytes": loaded, "peak_bytes": peak}
    return {"kind": "memory", **parts, "steady_bytes": held(device), "how": how, "device": device is not None}


def _non_finite(outputs: Any) -> int:
    return sum(
        int(np.size(o) - np.count_nonzero(np.isfinite(o))) for o in outputs if np.issubdtype(o.dtype, np.floating)
    )
