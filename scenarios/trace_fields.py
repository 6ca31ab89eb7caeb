"""One field of a trace line at a time, or a whole column at once: timestamps, token counts.

A function for one field says exactly what is wrong with it. Its twin for a column is many times faster and gives the
same values or None, which means: look at the lines one by one. Tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_TOKENS = 10_000_000


class BadLineError(Exception):
    """One line cannot be used; the reader decides what that means."""


class Clock:
    """A timestamp as seconds since the first one: all numbers (in `unit_s`) or all ISO date-times (UTC if no zone).

    The first stamp that can be read says which. Date-times are read to the microsecond.
    """

    def __init__(self, unit_s: float) -> None:
        self._unit_s = unit_s
        self._first: float | datetime | None = None

    def one(self, stamp: Any) -> float:
        if self._first is None:
            try:
                self._first = _number(stamp)
            except BadLineError:
                self._first = _date_time(stamp)
        if isinstance(self._first, float):
            return (_number(stamp) - self._first) * self._unit_s
        return (_date_time(stamp) - self._first).total_seconds()

    def many(self, stamps: Sequence[Any]) -> NDArray[np.float64] | None:
        kinds = set(map(type, stamps))
        if self._first is None or not (kinds == {str} or kinds <= {int, float}):
            return None
        try:
            if isinstance(self._first, float):
                seconds = (np.array(list(map(float, stamps))) - self._first) * self._unit_s
            else:
                times = list(map(datetime.fromisoformat, stamps))
                first = self._first if times[0].tzinfo else self._first.astimezone(UTC).replace(tzinfo=None)
                seconds = np.array([(time - first).total_seconds() for time in times])
        except (TypeError, ValueError, OverflowError):
            return None
        return seconds if np.isfinite(seconds).all() else None


def _number(stamp: Any) -> float:
    try:
        value = float(stamp)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value) or isinstance(stamp, bool):
        raise BadLineError(f"timestamp {show(stamp)} is not a number")
    return value


def _date_time(stamp: Any) -> datetime:
    try:
        value = datetime.fromisoformat(stamp.strip())
    except (AttributeError, ValueError):
        raise BadLineError(f"timestamp {show(stamp)} is neither a number nor a date and time") from None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def token_count(value: Any) -> int:
    """A whole number of tokens; 12.0 is 12, as table programs write a column with gaps."""
    try:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else _whole(value)
    except ValueError:
        number = _whole(value)
    if not 1 <= number <= MAX_TOKENS:
        raise BadLineError(f"{show(value)} tokens; a request has 1 to {MAX_TOKENS}")
    return number


def _whole(value: Any) -> int:
    try:
        number = float(value) if isinstance(value, float | str) else math.nan
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise BadLineError(f"token count {show(value)} is not a whole number")
    return int(number)


def token_counts(values: Sequence[Any]) -> NDArray[np.int64] | None:
    kinds = set(map(type, values))
    if kinds not in ({str}, {int}):
        return None
    try:
        counts = np.array(list(map(int, values)), dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return counts if counts.min() >= 1 and counts.max() <= MAX_TOKENS else None


def show(value: Any) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
