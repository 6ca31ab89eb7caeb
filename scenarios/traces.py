"""Read request logs: the three trace formats of fleet-sim and others by a column map, as compact arrays.

Enters: the scenario's `arrivals` of process `trace`, how many requests are wanted. Leaves: `TraceRows`: seconds since
the first request, prompt tokens, class numbers. The file streams through in blocks; 14 bytes a request are kept.

Formats, told apart by column names (CSV with a header, or JSON Lines; either may be gzip):
    TIMESTAMP, ContextTokens            Azure LLM inference trace
    timestamp, num_prefill_tokens       Splitwise
    timestamp, prompt_tokens            semantic router
Source: fleet_sim/workload/trace.py. Unlike it we read the date-times of the published Azure trace (its reader drops such
lines), and a line that cannot be read is refused or counted, never passed over.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.errors import InputError, nearest
from scenarios.arrivals import Trace
from scenarios.text_lines import blocks_of
from scenarios.trace_fields import BadLineError, Clock, show, token_count, token_counts
from scenarios.trace_lines import CsvLines, JsonLines, Lines

SHOWN = 5  # bad lines that a report names; the rest are counted
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class TraceRows:
    """n requests in order of time. `skipped`: lines left out among those read; `bad`: the first few, with the reason."""

    path: str
    times_s: NDArray[np.float64]  # (n,) since the first; not decreasing
    tokens: NDArray[np.int32] | None  # (n,), None if no class takes its lengths from the trace
    class_of: NDArray[np.int16] | None  # (n,), None without a class column
    skipped: int
    bad: tuple[str, ...]
    at_end: bool  # the file has no more requests than these

    def __len__(self) -> int:
        return int(self.times_s.size)

    def rows(self, rows: slice) -> TraceRows:
        """A view of some requests."""
        tokens, class_of = self.tokens, self.class_of
        return replace(
            self,
            times_s=self.times_s[rows],
            tokens=None if tokens is None else tokens[rows],
            class_of=None if class_of is None else class_of[rows],
        )

    def range_of_tokens(self, class_number: int) -> tuple[int, int] | None:
        """Smallest and largest length of one class (of all without a class column); None if it never comes."""
        if self.tokens is None:
            raise ValueError("the trace was read without its tokens")
        mine = self.tokens if self.class_of is None else self.tokens[self.class_of == class_number]
        return (int(mine.min()), int(mine.max())) if mine.size else None


def read(trace: Trace, class_names: Sequence[str], limit: int, *, tokens: bool = True) -> TraceRows:
    """The first `limit` requests of the trace, by time. `tokens`: False leaves the lengths out.

    InputError with path and line: unknown columns, a time that runs backwards, a class that the scenario does not have,
    a cut gzip file, and a broken line unless `on_bad_line` is `skip`.
    """
    rows = _Rows(trace, class_names, tokens)
    lines: Lines | None = None
    for first, block in blocks_of(trace.path):
        numbered = [(first + k, text) for k, text in enumerate(block) if text and not text.isspace()]
        if lines is None and numbered:
            lines = JsonLines(trace, tokens) if numbered[0][1].lstrip().startswith("{") else CsvLines(trace, tokens)
        if lines is not None and not rows.add_block(lines, numbered, limit):
            return rows.done(limit)
    if lines is None:
        raise InputError(f"{trace.path}: the trace is empty")
    return rows.done(limit)


class _Rows:
    """The arrays while they grow."""

    def __init__(self, trace: Trace, class_names: Sequence[str], tokens: bool) -> None:
        self._trace, self._wants_tokens, self._wants_class = trace, tokens, trace.columns.kind is not None
        number = {name: k for k, name in enumerate(class_names)}
        self._class_of = number | {value: number[name] for value, name in trace.classes.items()}
        self._clock = Clock(_SECONDS[trace.time_unit])
        self._times, self._tokens, self._kinds = array("d"), array("i"), array("h")
        self._last = -math.inf
        self._skipped, self._bad = 0, list[str]()

    def add_block(self, lines: Lines, numbered: Sequence[tuple[int, str]], limit: int) -> bool:
        """Add lines, all at once where they are in order, else one by one. False: enough, one more than `limit`."""
        if not (numbered and self._add_many(lines.many([text for _, text in numbered]))):
            for number, text in numbered:
                self._add_one(lines, number, text)
                if self._enough(limit):
                    break
        return not self._enough(limit)

    def _enough(self, limit: int) -> bool:
        return len(self._times) > limit and not self._trace.sort

    def _add_many(self, columns: list[list[Any] | None] | None) -> bool:
        """Add whole columns; False and nothing added if any line of them needs a closer look."""
        if columns is None or columns[0] is None:
            return False
        times = self._clock.many(columns[0])
        counts = token_counts(columns[1]) if columns[1] is not None else None
        kinds = self._kinds_of(columns[2]) if columns[2] is not None else None
        if times is None or (self._wants_tokens and counts is None):
            return False
        if self._wants_class and kinds is None:
            return False
        if not self._trace.sort and (times[0] < self._last or np.any(np.diff(times) < 0)):
            return False
        self._last = float(times[-1])
        self._times.frombytes(times.tobytes())
        if counts is not None:
            self._tokens.frombytes(counts.astype(np.int32).tobytes())
        self._kinds.extend(kinds or ())
        return True

    def _add_one(self, lines: Lines, number: int, text: str) -> None:
        try:
            fields = lines.one(number, text)
            if fields is None:
                return
            seconds = self._clock.one(fields[0])
            count = token_count(fields[1]) if self._wants_tokens else None
        except BadLineError as problem:
            self._refuse(number, problem)
            return
        if seconds < self._last and not self._trace.sort:
            raise InputError(
                f"{self._trace.path}:{number}: its time is {self._last - seconds:g} s before that of the request above; "
                "set arrivals.sort: true to order the requests by time first"
            )
        kind = self._kind(number, fields[2]) if self._wants_class else None
        self._last = seconds
        self._times.append(seconds)
        if count is not None:
            self._tokens.append(count)
        if kind is not None:
            self._kinds.append(kind)

    def _refuse(self, number: int, problem: BadLineError) -> None:
        if self._trace.on_bad_line == "refuse":
            raise InputError(f"{self._trace.path}:{number}: {problem}; mend it, or set arrivals.on_bad_line: skip")
        self._skipped += 1
        if len(self._bad) < SHOWN:
            self._bad.append(f"line {number}: {problem}")

    def _kind(self, number: int, value: Any) -> int:
        name = value.strip() if isinstance(value, str) else str(value)
        if name not in self._class_of:
            raise InputError(
                f"{self._trace.path}:{number}: {self._trace.columns.kind} is {show(name)}, which is neither a class of "
                f"the scenario nor a key of arrivals.classes; {nearest(name, self._class_of)}"
            )
        return self._class_of[name]

    def _kinds_of(self, values: list[Any]) -> list[int] | None:
        if set(map(type, values)) != {str}:
            return None
        numbers = [self._class_of.get(value, -1) for value in values]
        return numbers if min(numbers) >= 0 else None

    def done(self, limit: int) -> TraceRows:
        if not self._times:
            raise InputError(f"{self._trace.path}: no request in it ({self._skipped} lines could not be read)")
        times = np.frombuffer(self._times, dtype=np.float64)
        tokens = np.frombuffer(self._tokens, dtype=np.int32) if self._wants_tokens else None
        kinds = np.frombuffer(self._kinds, dtype=np.int16) if self._wants_class else None
        kept = np.argsort(times, kind="stable")[:limit] if self._trace.sort else slice(limit)
        times, at_end = times[kept], times.size <= limit
        return TraceRows(
            path=self._trace.path,
            times_s=times - times[0],
            tokens=None if tokens is None else tokens[kept],
            class_of=None if kinds is None else kinds[kept],
            skipped=self._skipped,
            bad=tuple(self._bad),
            at_end=at_end,
        )
