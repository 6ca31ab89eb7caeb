"""One piece of work in a process of its own while this one goes on: the figures of a report beside its page.

Enters: a function and its arguments. Leaves: what it writes to disk; its error is raised here. Only where the system
can fork (Linux), there is a second core and no library of FORKED_NEVER is in use here; elsewhere the work is done
afterwards, with the same outcome.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from profiles.errors import SimcapError

FORKED_NEVER = ("vl_convert",)
"""Modules that answer calls from a thread of their own: a fork has no such thread, and there a call waits for ever."""


@contextmanager
def beside(work: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Do `work(*arguments)` while the body runs; both are done when the block ends. An error in the body ends the work."""
    safe = sys.platform == "linux" and not any(name in sys.modules for name in FORKED_NEVER)
    if not safe or len(os.sched_getaffinity(0)) < 2:
        yield
        work(*arguments)
        return
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=_do, args=(theirs, work, arguments), daemon=True)
    with warnings.catch_warnings():  # of forking beside threads: the idle ones of the linear algebra library
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    try:
        yield
        error = _heard(ours)
    finally:
        process.kill()
        process.join()
        ours.close()
    if error is not None:
        raise error


def _heard(ours: Connection[Any, Any]) -> BaseException | None:
    try:
        error: BaseException | None = ours.recv()
    except EOFError:
        return SimcapError("the process that draws the figures ended without a word (killed, or out of memory)")
    return error


def _do(theirs: Connection[Any, Any], work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is answered by who started us
    try:
        work(*arguments)
    except BaseException as error:
        theirs.send(error)
    else:
        theirs.send(None)
