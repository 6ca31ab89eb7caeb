"""Several inferences at once: on one session, or on a session each.

Enters: a job with a shape, `width` (how many at once), `kind` (`threads`: on one session; `sessions`: one each) and
`seconds`. All start together after one unmeasured run each, and each runs back to back until the time is over. Leaves: how
many ended, in how long a time, and their nanoseconds. The threads belong to Python; ONNX Runtime releases its lock while
it runs.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List

from .session import create, feed


def at_once(job: Dict[str, Any]) -> Dict[str, Any]:
    """The `concurrency` record. Inferences under way when the time is over are not counted; the time ends with it."""
    width = int(job["width"])
    sessions = [create(job) for _ in range(width if job["kind"] == "sessions" else 1)]
    inputs = feed(sessions[0], job)
    barrier = threading.Barrier(width)
    ended = [[] for _ in range(width)]  # type: List[List[int]]
    failures = []  # type: List[BaseException]
    span_ns = int(float(job["seconds"]) * 1e9)

    def work(place: int) -> None:
        session = sessions[place % len(sessions)]
        try:
            session.run(None, inputs)
            barrier.wait()
            _repeat(lambda: session.run(None, inputs), span_ns, ended[place])
        except BaseException as error:
            barrier.abort()
            failures.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(width)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    ns = [n for mine in ended for n in mine]
    if not ns:
        raise TimeoutError("no inference ended within %g s" % (span_ns / 1e9))
    return {"kind": "concurrency", "how": job["kind"], "width": width, "span_ns": span_ns, "ns": ns}


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
