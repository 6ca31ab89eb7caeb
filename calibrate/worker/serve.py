"""One job in, JSON lines out.

Enters: on standard input, one JSON object with `op` (`probe`, `inspect`, `cell`) and `results_fd`, the number of an
inherited descriptor. Leaves: on that descriptor, one JSON object a line, each with `kind`; the last one is
`{"kind": "end"}` when all went well, or `{"kind": "failure", "type": …, "message": …}`. Standard output and error
belong to the libraries. Times are integer nanoseconds, memory is bytes.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
from typing import Any, Callable, Dict

Send = Callable[[Dict[str, Any]], None]


def main() -> int:
    """Run the job; the exit status is 0 after `end`, 1 after `failure`."""
    _die_with_parent()
    job = json.load(sys.stdin)
    with os.fdopen(int(job["results_fd"]), "w", encoding="utf-8") as pipe:

        def send(record: Dict[str, Any]) -> None:
            pipe.write(json.dumps(record, separators=(",", ":")) + "\n")
            pipe.flush()

        try:
            OPERATIONS[job["op"]](job, send)
        except BaseException as error:
            send({"kind": "failure", "type": type(error).__name__, "message": str(error)[:2000]})
            return 1
        send({"kind": "end"})
    return 0


def _die_with_parent() -> None:
    """A killed runner must not leave a worker that disturbs the next measurement (Linux; elsewhere no effect)."""
    parent_death_signal = 1
    try:
        ctypes.CDLL(None).prctl(parent_death_signal, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError, TypeError):
        pass


def _probe(_: Dict[str, Any], send: Send) -> None:
    import numpy as np
    import onnxruntime

    send(
        {
            "kind": "runtime",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "onnxruntime": onnxruntime.__version__,
            "providers": list(onnxruntime.get_available_providers()),
        }
    )


def _inspect(job: Dict[str, Any], send: Send) -> None:
    from .session import check_inputs, create

    session = create(job)
    check_inputs(session)
    for kind, items in (("input", session.get_inputs()), ("output", session.get_outputs())):
        for item in items:
            shape = [side if isinstance(side, (int, str)) else None for side in item.shape]
            send({"kind": "tensor", "role": kind, "name": item.name, "dtype": item.type, "shape": shape})


def _cell(job: Dict[str, Any], send: Send) -> None:
    from .cell import measure

    measure(job, send)


OPERATIONS: Dict[str, Callable[[Dict[str, Any], Send], None]] = {"probe": _probe, "inspect": _inspect, "cell": _cell}
