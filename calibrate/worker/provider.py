"""Whether a provider's library loads, and what libraries say while a session is made.

ONNX Runtime lists providers by what was compiled in, not by what loads; where a library is missing, one build raises and
another logs to descriptor 2 and goes on with the CPU in silence. So: the provider's library is loaded by hand first, and
descriptors 1 and 2 are captured while a session is made. Enters: ONNX Runtime's name of a provider. Leaves: the loader's
own words, or None; the text that was printed.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Optional

LIBRARIES = {
    "OpenVINOExecutionProvider": "libonnxruntime_providers_openvino.so",
    "MIGraphXExecutionProvider": "libonnxruntime_providers_migraphx.so",
    "ROCMExecutionProvider": "libonnxruntime_providers_rocm.so",
    "CUDAExecutionProvider": "libonnxruntime_providers_cuda.so",
}
"""Provider -> its library in the build's `capi` folder. The CPU provider is part of ONNX Runtime itself."""

SHARED = "libonnxruntime_providers_shared.so"
COLOUR = re.compile("\x1b\\[[0-9;]*m")
LOGGED = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \[\w:onnxruntime:[^\]]*\] ")
ERROR = "[ONNXRuntimeError]"
LONGEST = 1000


_SAID: Dict[str, Optional[str]] = {}


def loader_says(provider: str) -> Optional[str]:
    """Why the provider's library does not load, in the loader's words; None when it loads or there is none to load."""
    if provider not in _SAID:
        _SAID[provider] = _load(provider)
    return _SAID[provider]


def _load(provider: str) -> Optional[str]:
    import onnxruntime

    if provider not in LIBRARIES:
        return None
    folder = Path(onnxruntime.__file__).parent / "capi"
    library = folder / LIBRARIES[provider]
    if not library.exists():
        return "%s is not in this build of ONNX Runtime" % library.name
    if provider == "CUDAExecutionProvider":
        _preload_cuda()
    try:
        if (folder / SHARED).exists():
            ctypes.CDLL(str(folder / SHARED), mode=ctypes.RTLD_GLOBAL)  # the provider expects its symbols
        ctypes.CDLL(str(library))
    except OSError as error:
        return str(error)
    return None


def _preload_cuda() -> None:
    """CUDA and cuDNN from the wheels beside ONNX Runtime, which the loader alone would not find (ONNX Runtime 1.21 and later).

    What is not there is no error here: the system's libraries may serve, and if not the loader says which one is missing.
    """
    import onnxruntime

    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is None:
        return
    with captured():
        try:
            preload()
        except Exception as error:
            sys.stderr.write(str(error))  # captured and dropped: what counts is what the loader says next


@contextmanager
def captured() -> Iterator[List[str]]:
    """Collect what is written to descriptors 1 and 2; the list holds the text once the block has ended."""
    told = []  # type: List[str]
    _flush()
    kept = (os.dup(1), os.dup(2))
    with tempfile.TemporaryFile() as noise:
        try:
            os.dup2(noise.fileno(), 1)
            os.dup2(noise.fileno(), 2)
            yield told
        finally:
            _flush()
            for number in (1, 2):
                os.dup2(kept[number - 1], number)
                os.close(kept[number - 1])
            noise.seek(0)
            content = noise.read()
            told.append(content.decode(errors="replace"))
            os.write(2, content[-8192:])  # and where it would have gone


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass


def reason_in(text: str) -> str:
    """The lines of a library's output that tell of a failure, without colours and source paths, on one line."""
    lines = [_words(line) for line in text.splitlines()]
    telling = [line for line in lines if re.search("rror|[Ff]ail|cannot|not found|nvalid|unsupported", line)]
    found = " | ".join(dict.fromkeys(telling or [line for line in lines if line]))
    return found[:LONGEST]


def _words(line: str) -> str:
    """A line without colours, and without the time and the source position before ONNX Runtime's own sentence."""
    plain = LOGGED.sub("", " ".join(COLOUR.sub("", line).split()))
    return plain[plain.find(ERROR) :] if ERROR in plain else plain
