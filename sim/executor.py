"""Where the tasks of a run are done: in this process, over processes of this machine, or on a Dask cluster.

Enters: what the tasks share (a `Sweep`, a `Grid`) and tasks. Leaves: (position of the task, outcome) as tasks end, in any
order; the outcomes are the same in every executor, bit for bit. What is shared goes to each worker once, not with each
task. An error in a task is raised here; whoever stops listening (an error, Ctrl-C) leaves no process behind, and workers
whose starter was killed end by themselves.
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
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Protocol

from profiles.errors import InputError, SimcapError
from sim import compiled
from sim.engine import EngineName
from sim.rounds import Do
from sim.sweep import Sweep

WORTH_A_PROCESS = 10_000  # requests; fewer take less time than starting a process
LOOK_AFTER_PARENT_S = 0.5
CONNECT_S = 10


class LostWorkerError(SimcapError):
    """Whoever did the tasks is gone."""


class Shared(Protocol):
    """What all tasks of a run share, such as a `sim.sweep.Sweep`; it goes to each worker once, not with each task."""

    @property
    def engine(self) -> EngineName: ...

    @property
    def sweeps(self) -> Sequence[Sweep]:
        """All that outcomes depend on."""

    def bench(self) -> Any:
        """Something whose `do(*task)` gives the outcome of a task."""


class Executor:
    """Does the tasks of a run."""

    def opened(self, shared: Shared) -> AbstractContextManager[Do]:
        """Workers that do tasks of `shared`, as often as asked, until the block ends."""
        raise NotImplementedError

    def outcomes(self, shared: Shared, tasks: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
        """(position in `tasks`, its outcome), each once, in the order in which they end."""
        with self.opened(shared) as do, closing(do(tasks)) as running:
            yield from running


class Sized(Protocol):
    """Something that knows how much there is to do at least: a `Sweep`, a `Grid`."""

    def tasks(self) -> Sequence[Any]: ...

    def requests(self) -> int: ...


def local(workers: int, least: Sized) -> Executor:
    """Up to `workers` processes of this machine, and no more than the work is worth."""
    workers = min(workers, len(least.tasks()), max(least.requests() // WORTH_A_PROCESS, 1))
    return Processes(workers) if workers > 1 else InProcess()


class InProcess(Executor):
    """One task after the other, here."""

    @contextmanager
    def opened(self, shared: Shared) -> Iterator[Do]:
        bench = shared.bench()

        def do(tasks: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
            for place, task in enumerate(tasks):
                yield place, bench.do(*task)

        yield do


class Processes(Executor):
    """Over `workers` processes. Where the system can fork (Linux), they inherit what is shared and the compiled code."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @contextmanager
    def opened(self, shared: Shared) -> Iterator[Do]:
        forks = sys.platform == "linux"
        if forks and shared.engine == "compiled":
            compiled.load()
        context = multiprocessing.get_context("fork" if forks else "spawn")
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(self.workers, context, initializer=_begin, initargs=(shared, os.getpid()))
        places: dict[Future[Any], int] = {}  # of what is not finished

        def do(tasks: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
            try:
                with _forking():
                    places.update({pool.submit(_do, task): place for place, task in enumerate(tasks)})
                for future in as_completed(list(places)):
                    yield places.pop(future), future.result()
            except BrokenProcessPool:
                raise LostWorkerError(
                    "a worker process ended without a word (killed, or the machine is out of memory); "
                    "run again, with fewer --workers if memory is short"
                ) from None

        try:
            yield do
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


_here = threading.local()  # `shared`, `bench` of this thread: a Dask worker may run several
_shared: list[Shared] = []  # in a worker process: what it was started for


def _begin(shared: Shared, parent: int) -> None:
    """A worker starts: Ctrl-C is its parent's to answer, and it does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _shared[:] = [shared]


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_AFTER_PARENT_S)
    os._exit(1)


def _do(task: Sequence[Any]) -> Any:
    return _do_of(_shared[0], task)


def _do_of(shared: Shared, task: Sequence[Any]) -> Any:
    if getattr(_here, "shared", None) is not shared:
        _here.shared, _here.bench = shared, shared.bench()
    return _here.bench.do(*task)


class Dask(Executor):
    """On the cluster whose scheduler listens at `address`. A worker that vanishes has its tasks done by the others."""

    def __init__(self, address: str) -> None:
        self.address = address

    @contextmanager
    def opened(self, shared: Shared) -> Iterator[Do]:
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
            sent = client.scatter(shared, broadcast=True, hash=False)

            def do(tasks: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
                places = {client.submit(_do_of, sent, task, pure=False): k for k, task in enumerate(tasks)}
                try:
                    for future in distributed.as_completed(places, loop=client.loop):
                        yield places[future], future.result()
                except (distributed.KilledWorker, CancelledError, distributed.comm.CommClosedError) as error:
                    raise LostWorkerError(f"--dask {self.address}: the cluster lost the run ({error})") from None

            yield do
