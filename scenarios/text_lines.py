"""Lines of a text file, plain or gzip, in blocks, so that a file of any length fits in memory.

Enters: a path. Leaves: (number of the first line, lines without their ends). A gzip file is known by its first two
bytes, whatever its name. Bytes that are not UTF-8 become the replacement character: they spoil only their own column.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from profiles.errors import InputError

BLOCK = 128 * 1024  # bytes; larger ones leave the processor's cache and read at half the speed
MAX_LINE = 1024 * 1024  # characters; a log record that holds a whole prompt is far below


def blocks_of(path: str) -> Iterator[tuple[int, list[str]]]:
    """InputError: no such file, a directory, a line that does not end, a cut or damaged gzip file (with its line)."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    first, rest = 1, ""
    try:
        with _open(Path(path)) as stream:
            for data, problem in _blocks(stream):
                *lines, rest = (rest + decoder.decode(data, final=not data)).replace("\r\n", "\n").split("\n")
                if len(rest) > MAX_LINE:
                    raise InputError(f"{path}:{first + len(lines)}: a line of more than {MAX_LINE} characters")
                if lines:
                    yield first, lines
                first += len(lines)
                if problem is not None:
                    raise InputError(f"{path}:{first}: {problem}; {first - 1} whole lines came before")
            if rest:
                yield first, [rest]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def _blocks(stream: gzip.GzipFile | io.BufferedReader) -> Iterator[tuple[bytes, str | None]]:
    """(bytes, what went wrong after them), the last of them empty. Everything before damage is handed out first."""
    problem = None
    while True:
        parts, size = [], 0
        try:
            while size < BLOCK and (part := stream.read1(BLOCK)):
                parts.append(part)
                size += len(part)
        except EOFError:
            problem = "the gzip file is cut off here"
        except (gzip.BadGzipFile, zlib.error) as error:
            problem = f"the gzip file is damaged here ({error})"
        yield b"".join(parts), problem
        if problem is not None or not parts:
            return
