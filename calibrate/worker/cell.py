"""One cell, start to end, in one fresh process.

Order, and why: idle memory before any session; first load and first run, which are true firsts; memory while a few
inferences run, with a watcher that would disturb timing; then warm latency undisturbed; then further fresh sessions
for more loads and first runs; last the profiled session, whose instruments would disturb everything before it.
Enters: the job (`loads`, `memory`, `ownership`, `tight`, `paced`: which parts and how long). Leaves: one record a part.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import Any, Callable, Dict, Tuple

import numpy as np

from .memory import peak_while, resident
from .ownership import ownership
from .sampling import exponential_gaps, sample
from .session import create, feed

MEMORY_RUNS = 2


def measure(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
    """Measure everything the job asks for and send a record for each part."""
    _first_session(job, send)
    _more_loads(job, send)
    if job.get("ownership"):
        send(ownership(job))


def _first_session(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
    idle = resident()
    session, load_ns = _timed(lambda: create(job))
    loaded = resident()
    inputs = feed(session, job)

    def run() -> Any:
        return session.run(None, inputs)

    outputs, first_ns = _timed(run)
    send({"kind": "loaded", "ns": [load_ns], "session_providers": list(session.get_providers())})
    send({"kind": "first_run", "ns": [first_ns], "non_finite": _non_finite(outputs)})
    del outputs
    if job.get("memory"):
        send(_memory(run, idle, loaded))
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


def _memory(run: Callable[[], Any], idle: int, loaded: int) -> Dict[str, Any]:
    def several() -> None:
        for _ in range(MEMORY_RUNS):
            run()

    peak, how = peak_while(several)
    gc.collect()
    parts = {"idle_bytes": idle, "loaded_bytes": loaded, "peak_bytes": peak, "steady_bytes": resident()}
    return {"kind": "memory", **parts, "how": how}


def _more_loads(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
    for _ in range(int(job["loads"]) - 1):
        gc.collect()  # the session before is gone before the next is timed
        session, load_ns = _timed(lambda: create(job))
        inputs = feed(session, job)
        outputs, first_ns = _timed(partial(session.run, None, inputs))
        send({"kind": "loaded", "ns": [load_ns], "session_providers": list(session.get_providers())})
        send({"kind": "first_run", "ns": [first_ns], "non_finite": _non_finite(outputs)})
        del session, outputs


def _non_finite(outputs: Any) -> int:
    return sum(
        int(np.size(o) - np.count_nonzero(np.isfinite(o))) for o in outputs if np.issubdtype(o.dtype, np.floating)
    )
