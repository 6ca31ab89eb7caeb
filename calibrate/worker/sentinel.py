"""A fixed small inference by which a machine's speed is known: around a load, and while it runs.

Enters: a job's `sentinel` (the keys of `session.create`, `tokens`, `batch`, `width`, `seconds`, `every_s`). Leaves: nanoseconds.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List

from .session import create, feed


def sentinel(job: Dict[str, Any]) -> Dict[str, List[int]]:
    """Nanoseconds of a fixed small inference back to back: one alone, and one on each of `width` threads at once.

    The second shows what the first cannot: somebody on another core. Each thread has a session of its own.
    """
    spec = job["sentinel"]
    width, seconds = int(spec["width"]), float(spec["seconds"])
    sessions = [create(spec) for _ in range(width)]
    inputs = feed(sessions[0], spec)
    alone, together = [], []  # type: List[int], List[int]

    def repeat(session: Any, into: List[int], until: float) -> None:
        while time.perf_counter() < until:
            start = time.perf_counter_ns()
            session.run(None, inputs)
            into.append(time.perf_counter_ns() - start)

    for session in sessions:
        repeat(session, [], time.perf_counter() + 0.05)
    repeat(sessions[0], alone, time.perf_counter() + seconds)
    until = time.perf_counter() + seconds
    threads = [threading.Thread(target=repeat, args=(session, together, until)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"alone": alone, "together": together}


class Pulse:
    """The sentinel's inference while the load runs, every `every_s` seconds: its CPU time, which waiting for a core is not
    part of. It tells how fast the machine was during the load and not only around it, for some thousandths of its work.
    """

    def __init__(self, spec: Dict[str, Any], every_s: float) -> None:
        self._session, self._every_s = create(spec), every_s
        self._inputs = feed(self._session, spec)
        self._session.run(None, self._inputs)
        self._stop = threading.Event()
        self.cpu_ns = []  # type: List[int]
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _live(self) -> None:
        while True:
            before = time.thread_time_ns()
            self._session.run(None, self._inputs)
            self.cpu_ns.append(time.thread_time_ns() - before)
            if self._stop.wait(self._every_s):
                return

    def stop(self) -> List[int]:
        self._stop.set()
        self._thread.join()
        return self.cpu_ns
