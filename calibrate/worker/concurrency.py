"""Several inferences at once: on one session, or on a session each.

Enters: a job with a shape, `width` (how many at once), `kind` (`threads`: on one session; `sessions`: one each) and
`seconds`. All start together after one unmeasured run each, and each runs back to back until the time is over. Leaves: how
many ended, in how long a time, and their nanoseconds. The threads belong to Python; ONNX Runtime releases its lock while
it runs.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Callable, Dict, List, Sequence

from .session import create, feed


def at_once(job: Dict[str, Any]) -> Dict[str, Any]:
    """The `concurrency` record. Inferences under way when the time is over are not counted; the time ends with it."""
    width = int(job["width"])
    sessions = [create(job) for _ in range(width if job["kind"] == "sessions" else 1)]
    inputs = feed(sessions[0], job)
    span_ns = int(float(job["seconds"]) * 1e9)
    runs = [partial(sessions[place % len(sessions)].run, None, inputs) for place in range(width)]
    ns = [n for mine in run_at_once(runs, span_ns) for n in mine]
    return {"kind": "concurrency", "how": job["kind"], "width": width, "span_ns": span_ns, "ns": ns}


def run_at_once(runs: Sequence[Callable[[], Any]], span_ns: int) -> List[List[int]]:
    """A thread for each run, all through the same time; the nanoseconds of what ended in it, by run. None may be empty."""
    barrier = threading.Barrier(len(runs))
    ended = [[] for _ in runs]  # type: List[List[int]]
    failures = []  # type: List[BaseException]

    def work(place: int) -> None:
        try:
            runs[place]()
            barrier.wait()
            _repeat(runs[place], span_ns, ended[place])
        except BaseException as error:
            barrier.abort()
            failures.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    if not all(ended):
        raise TimeoutError("no inference ended within %g s" % (span_ns / 1e9))
    return ended


def _repeat(run: Callable[[], Any], span_ns: int, into: List[int]) -> None:
    clock = time.perf_counter_ns
    until = clock() + span_ns
    while True:
        start = clock()
        run()
        end = clock()
        if end > until:
            return
        into.append(end - start)
