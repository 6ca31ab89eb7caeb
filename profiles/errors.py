"""The errors that our libraries raise.

Only the command line prints them and exits; `exit_code` says with which status. A message is written for the person
at the terminal: it names the key or thing, the value found, and what would be right.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SimcapError(Exception):
    """Root of every error that simcap raises on purpose."""

    exit_code = 1


class InputError(SimcapError):
    """The user's input is wrong: a file, a key, a value, a flag, a combination."""

    exit_code = 2


class UnavailableError(SimcapError):
    """Hardware or a runtime that the request needs is not here."""

    exit_code = 3


class FindingError(SimcapError):
    """The work was done and its result needs attention: a provider fell back, a prediction missed."""

    exit_code = 4


class MeasurementError(SimcapError):
    """A measurement could not be completed (worker crashed, timed out, or answered with something unreadable)."""

    exit_code = 4


def nearest(name: str, valid: Iterable[str]) -> str:
    """Text that helps after a wrong name: the nearest valid one, then all of them (in their given order)."""
    names = [str(v) for v in valid]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}valid: {', '.join(names) if names else '(none)'}"
