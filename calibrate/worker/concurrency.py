"""Several inferences at once: on one session, or on a session each.

Enters: a job with a shape, `width` (how many at once), `kind` (`threads`: on one session; `sessions`: one each) and
`seconds`. All start together after one unmeasured run each, and each runs back to back until the time is over. Leaves: how
many ended, in how long a time, and their nanoseconds. The threads belong to Python; ONNX Runtime releases its lock while
it runs.
"""

from __future__ import annotations

import resource
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


def bursts(job: Dict[str, Any]) -> Dict[str, Any]:
    """`width` inferences that start at one instant, on a session and a thread each, then a pause; again and again.

    More threads than cores make the system's scheduler show how it deals them out. Leaves: for each burst the nanoseconds
    from its start to each thread's end (`ends`), each thread's CPU time (`cpu`), and how often the system took the core from it
    for another (`switches`).
    """
    width = int(job["width"])
    sessions = [create(job) for _ in range(width)]
    inputs = feed(sessions[0], job)
    begin, over = threading.Barrier(width + 1), threading.Barrier(width + 1)
    ends, cpu, switches = [], [], []  # type: List[List[int]], List[List[int]], List[List[int]]
    zero, stop = [0], []  # type: List[int], List[bool]
    row_end, row_cpu, row_switches = [0] * width, [0] * width, [0] * width

    def work(place: int) -> None:
        session = sessions[place]
        session.run(None, inputs)
        while True:
            begin.wait()
            if stop:
                return
            used, taken = time.thread_time_ns(), resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
            session.run(None, inputs)
            row_cpu[place] = time.thread_time_ns() - used
            row_end[place] = time.perf_counter_ns()
            row_switches[place] = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - taken
            over.wait()

    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(width)]
    for thread in threads:
        thread.start()
    until = time.perf_counter() + float(job["seconds"])
    while time.perf_counter() < until or len(ends) < 3:
        time.sleep(float(job["pause_s"]))
        zero[0] = time.perf_counter_ns()
        begin.wait()
        over.wait()
        ends.append([end - zero[0] for end in row_end])
        cpu.append(list(row_cpu))
        switches.append(list(row_switches))
    stop.append(True)
    begin.wait()
    return {"kind": "bursts", "width": width, "ends": ends, "cpu": cpu, "switches": switches}
