"""Where the tasks of a sweep are done: in this process, over processes of this machine, or on a Dask cluster.

Enters: a `Sweep` and its tasks. Leaves: (position of the task, outcome) as tasks end, in any order; the outcomes are the
same in every executor, bit for bit. A sweep goes to each worker once, not with each task. An error in a task is raised
here; whoever stops listening (an error, Ctrl-C) leaves no process behind, and workers whose starter was killed end by
themselves.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Protocol

from profiles.errors import InputError, SimcapError
from sim import compiled
from sim.sweep import Bench, Outcome, Sweep, Task

WORTH_A_PROCESS = 10_000  # requests; fewer take less time than starting a process
LOOK_AFTER_PARENT_S = 0.5
CONNECT_S = 10


class Executor(Protocol):
    """Does the tasks of a sweep."""

    def outcomes(self, sweep: Sweep, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
        """(position in `tasks`, its outcome), each once, in the order in which they end."""
        ...


def local(workers: int, sweep: Sweep) -> Executor:
    """Up to `workers` processes of this machine, and no more than the sweep is worth."""
    workers = min(workers, len(sweep.tasks()), max(sweep.requests() // WORTH_A_PROCESS, 1))
    return Processes(workers) if workers > 1 else InProcess()


class InProcess:
    """One task after the other, here."""

    def outcomes(self, sweep: Sweep, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
        bench = Bench(sweep)
        for place, task in enumerate(tasks):
            yield place, bench.do(*task)


class Processes:
    """Over `workers` processes. Where the system can fork (Linux), they inherit the sweep and the compiled code."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def outcomes(self, sweep: Sweep, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
        forks = sys.platform == "linux"
        if forks and sweep.engine == "compiled":
            compiled.load()
        context = multiprocessing.get_context("fork" if forks else "spawn")
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(self.workers, context, initializer=_begin, initargs=(sweep, os.getpid()))
        places: dict[Future[Outcome], int] = {}
        try:
            with _forking():
                places = {pool.submit(_do, *task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                yield places.pop(future), future.result()
        except BrokenProcessPool:
            raise SimcapError(
                "a worker process ended without a word (killed, or the machine is out of memory); "
                "run again, with fewer --workers if memory is short"
            ) from None
        finally:
            if places:
                for child in set(multiprocessing.active_children()) - others:
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _forking() -> Iterator[None]:
    """Python from 3.12 on warns of forks beside threads. Ours are the idle ones of the linear algebra library, which
    takes care of forks itself, and the one that draws the progress bar, which no worker touches.
    """  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


_here = threading.local()  # `bench` of this thread: a Dask worker may run several
_shared: list[Sweep] = []  # in a worker process: the one sweep that it was started for


def _begin(sweep: Sweep, parent: int) -> None:
    """A worker starts: Ctrl-C is its parent's to answer, and it does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _shared[:] = [sweep]


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_AFTER_PARENT_S)
    os._exit(1)


def _do(load: float, replication: int) -> Outcome:
    return _do_of(_shared[0], load, replication)


def _do_of(sweep: Sweep, load: float, replication: int) -> Outcome:
    bench: Bench | None = getattr(_here, "bench", None)
    if bench is None or bench.sweep is not sweep:
        bench = _here.bench = Bench(sweep)
    return bench.do(load, replication)


class Dask:
    """On the cluster whose scheduler listens at `address`. A worker that vanishes has its tasks done by the others."""

    def __init__(self, address: str) -> None:
        self.address = address

    def outcomes(self, sweep: Sweep, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise InputError("--dask: Dask is not installed: pip install 'vllm-sr-simcap[cluster]'") from None
        try:
            client = distributed.Client(self.address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"--dask {self.address}: no Dask scheduler answers there ({error})") from None
        with client:
            if not client.scheduler_info(n_workers=-1)["workers"]:
                raise InputError(f"--dask {self.address}: the scheduler has no workers; start some first")
            shared = client.scatter(sweep, broadcast=True, hash=False)
            places = {client.submit(_do_of, shared, *task, pure=False): k for k, task in enumerate(tasks)}
            for future in distributed.as_completed(places, loop=client.loop):
                yield places[future], future.result()
