"""One job in, JSON lines out.

Enters: on standard input, one JSON object with `op` (a key of OPERATIONS) and `results_fd`, the number of an
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
            if type(error).__name__ == "FellBackError":  # by name: importing it would import onnxruntime
                send({"kind": "fell_back", "reason": str(error), "session_providers": getattr(error, "providers", [])})
            else:
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


def _probe(job: Dict[str, Any], send: Send) -> None:
    import numpy as np
    import onnxruntime

    from .provider import loader_says

    send(
        {
            "kind": "runtime",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "onnxruntime": onnxruntime.__version__,
            "providers": list(onnxruntime.get_available_providers()),
            "loader": loader_says(job["provider"]) if "provider" in job else None,
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


def _options(job: Dict[str, Any], send: Send) -> None:
    from .options import try_options

    try_options(job, send)


def _ownership(job: Dict[str, Any], send: Send) -> None:
    from .ownership import ownership

    send(ownership(job))


def _compile(job: Dict[str, Any], send: Send) -> None:
    from .compiling import compile_once

    send(compile_once(job))


def _concurrency(job: Dict[str, Any], send: Send) -> None:
    from .concurrency import at_once

    send(at_once(job))


def _outputs(job: Dict[str, Any], send: Send) -> None:
    from .outputs import save_outputs

    send(save_outputs(job))


def _together(job: Dict[str, Any], send: Send) -> None:
    from .together import together

    send(together(job))


def _tokenize(job: Dict[str, Any], send: Send) -> None:
    from .tokenizing import tokenize

    tokenize(job, send)


def _bursts(job: Dict[str, Any], send: Send) -> None:
    from .concurrency import bursts

    send(bursts(job))


def _live(job: Dict[str, Any], send: Send) -> None:
    from .live import play

    send(play(job))


OPERATIONS: Dict[str, Callable[[Dict[str, Any], Send], None]] = {
    "probe": _probe,
    "inspect": _inspect,
    "options": _options,
    "cell": _cell,
    "ownership": _ownership,
    "compile": _compile,
    "outputs": _outputs,
    "concurrency": _concurrency,
    "together": _together,
    "tokenize": _tokenize,
    "bursts": _bursts,
    "live": _live,
}
