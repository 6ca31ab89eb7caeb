"""Lines of a trace as fields: CSV with a header, or JSON Lines, in one of the known formats or by the user's columns.

Enters: lines of text with their numbers. Leaves: [timestamp, tokens, class] of a line, or these columns for many lines
at once, with None for what is not wanted. `many` is many times faster than `one`; it gives the same or None, which
means: look at the lines one by one.
"""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from typing import Any

from profiles.errors import InputError, nearest
from scenarios.arrivals import Trace
from scenarios.trace_fields import BadLineError

FORMATS = (("TIMESTAMP", "ContextTokens"), ("timestamp", "num_prefill_tokens"), ("timestamp", "prompt_tokens"))


class Lines(ABC):
    """Lines of one container format as [timestamp, tokens, class], with None for what is not wanted."""

    def __init__(self, trace: Trace, tokens: bool) -> None:
        self._trace, self._tokens = trace, tokens

    @abstractmethod
    def one(self, number: int, text: str) -> list[Any] | None:
        """The fields of one line, None for a header; BadLineError if it is broken."""

    @abstractmethod
    def many(self, texts: list[str]) -> list[list[Any] | None] | None:
        """The fields of many lines, by column; None if any of them needs a closer look."""


class CsvLines(Lines):
    _places: list[int | None] | None = None
    _width = 0

    def one(self, number: int, text: str) -> list[Any] | None:
        cells = text.split(",") if '"' not in text else _quoted(text)
        if self._places is None:
            names = [name.strip() for name in cells]
            wanted = _columns(self._trace, names, number, tokens=self._tokens)
            self._places, self._width = [None if name is None else names.index(name) for name in wanted], len(names)
            return None
        if len(cells) != self._width:
            raise BadLineError(f"{len(cells)} fields where the header has {self._width}: a cut or broken line")
        return [None if place is None else cells[place] for place in self._places]

    def many(self, texts: list[str]) -> list[list[Any] | None] | None:
        if self._places is None or any('"' in text for text in texts):
            return None
        cells = [text.split(",") for text in texts]
        if set(map(len, cells)) != {self._width}:
            return None
        return [None if place is None else [row[place] for row in cells] for place in self._places]


def _quoted(text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error:
        raise BadLineError("a quote that is not closed on its line") from None


class JsonLines(Lines):
    _names: list[str | None] | None = None

    def one(self, number: int, text: str) -> list[Any] | None:
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            raise BadLineError("not JSON: a cut or broken line") from None
        if not isinstance(record, dict):
            raise BadLineError("not a JSON object")
        if self._names is None:
            self._names = _columns(self._trace, list(record), number, tokens=self._tokens)
        try:
            return [None if name is None else record[name] for name in self._names]
        except KeyError as key:
            raise BadLineError(f"no key {key}; found {', '.join(record) or 'none'}") from None

    def many(self, texts: list[str]) -> list[list[Any] | None] | None:
        if self._names is None:
            return None
        try:
            records = [json.loads(text) for text in texts]
            return [None if name is None else [record[name] for record in records] for name in self._names]
        except (ValueError, RecursionError, KeyError, TypeError, IndexError):
            return None


def _columns(trace: Trace, found: list[str], number: int, *, tokens: bool) -> list[str | None]:
    """Names of the timestamp, tokens and class columns: as mapped, else those of a known format."""
    given, where = trace.columns, f"{trace.path}:{number}"
    fitting = [pair for pair in FORMATS if set(pair) <= set(found)]
    if given.timestamp is None or (tokens and given.tokens is None):
        hint = "or name yours with arrivals.columns: {timestamp: …, tokens: …}"
        if not fitting:
            formats = "; ".join(", ".join(pair) for pair in FORMATS)
            raise InputError(f"{where}: columns are {', '.join(found)}; known formats have {formats}; {hint}")
        if len(fitting) > 1:
            raise InputError(f"{where}: columns {', '.join(found)} fit more than one known format; {hint}")
    when, length = fitting[0] if fitting else (None, None)
    wanted = [given.timestamp or when, (given.tokens or length) if tokens else None, given.kind]
    for name in wanted:
        if name is not None and name not in found:
            raise InputError(f"{where}: no column {name!r} (arrivals.columns); {nearest(name, found)}")
        if name is not None and found.count(name) > 1:
            raise InputError(f"{where}: column {name!r} stands twice in the header")
    return wanted
