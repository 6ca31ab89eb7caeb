"""The variants that `--vary KEY=V1,V2,…` makes of scenarios: the product of all values, the first of each first.

Enters: scenarios by name or path, `--vary` and `--set` texts. Leaves: `Named` variants: what tells each apart, and the
scenario with its settings. A key is a path as in `--set`, or its last part where only one path ends so. A key that all
signals (or classes, or lock domains) have is one path: it is set for all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiles.errors import InputError, nearest
from scenarios import loader
from scenarios.schema import Scenario

MOST = 1000
NAMED = ("signals", "classes", "lock_domains")  # sections whose keys are the user's names
PLURALS = {"providers": "provider", "artifacts": "artifact", "models": "model"}  # of what each signal has one of


@dataclass(frozen=True)
class Named:
    """`name`: scenario and settings, as far as they differ between variants. `settings`: --vary key -> value."""

    name: str
    source: str
    settings: Mapping[str, str]
    overrides: tuple[str, ...]
    scenario: Scenario


def variants(sources: Sequence[str], varied: Sequence[str], overrides: Sequence[str]) -> list[Named]:
    """All variants: for each scenario the product of all values. Raises InputError."""
    axes = [values_of(text) for text in varied]
    keys = [key for key, _ in axes]
    if len(set(keys)) < len(keys):
        raise InputError(f"--vary {next(k for k in keys if keys.count(k) > 1)}: given twice; list all values in one")
    count = len(sources)
    for _, values in axes:
        count *= len(values)
    if count > MOST:
        raise InputError(f"--vary: {count} variants, at most {MOST} in one run")
    return list(_all(sources, axes, tuple(overrides)))


def _all(sources: Sequence[str], axes: Sequence[tuple[str, list[str]]], overrides: tuple[str, ...]) -> Iterator[Named]:
    short = names(sources)
    for name, source in zip(short, sources, strict=True):
        plain = loader.load(source, overrides)
        paths = {key: paths_of(key, plain) for key, _ in axes}
        for chosen in itertools.product(*(values for _, values in axes)):
            settings = {key: value for (key, _), value in zip(axes, chosen, strict=True)}
            sets = [f"{path}={value}" for key, value in settings.items() for path in paths[key]]
            said = " ".join(f"{'.'.join(key.split('.')[-2:])}={value}" for key, value in settings.items())
            called = " ".join(part for part in (name if len(sources) > 1 or not said else "", said) if part)
            scenario = loader.load(source, (*overrides, *sets)) if sets else plain
            yield Named(called, source, settings, (*overrides, *sets), scenario)


def names(given: Sequence[str]) -> list[str]:
    """The last part of each path where these tell them apart, else the paths as given."""
    short = [Path(name).stem if Path(name).suffix in {".yaml", ".yml"} else Path(name).name or name for name in given]
    return short if len(set(short)) == len(short) else list(given)


def paths_of(key: str, scenario: Scenario) -> list[str]:
    """The paths that a key of `--vary` stands for in this scenario. Raises InputError."""
    if "." in key or key in Scenario.model_fields:
        return [key]
    key = PLURALS.get(key, key)
    found: dict[str, list[str]] = {}
    for parts in _paths(scenario.model_dump(mode="json", by_alias=True)):
        if parts[-1] == key:
            general = ".".join("*" if k == 1 and parts[0] in NAMED else part for k, part in enumerate(parts))
            found.setdefault(general, []).append(".".join(parts))
    if not found:
        ends = {parts[-1] for parts in _paths(scenario.model_dump(mode="json", by_alias=True))}
        raise InputError(f"--vary {key}: scenario {scenario.name} has no such key; {nearest(key, sorted(ends))}")
    if len(found) > 1:
        raise InputError(
            f"--vary {key}: scenario {scenario.name} has several such keys; give one in full: {', '.join(found)} "
            "(a name in place of *)"
        )
    return next(iter(found.values()))


def _paths(data: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all keys, those that hold further keys included; keys below a list have none."""
    for key, value in data.items():
        if len(before) != 0 or key not in NAMED:
            yield (*before, key)
        if isinstance(value, dict):
            yield from _paths(value, (*before, key))


def values_of(text: str, flag: str = "--vary") -> tuple[str, list[str]]:
    """`key=1,2,4` or `key=1..8` as key and values; commas inside brackets belong to the value. Raises InputError."""
    key, equals, listed = text.partition("=")
    span = re.fullmatch(r"\s*(\d+)\.\.(\d+)\s*", listed)
    if not equals or not key.strip() or not listed.strip():
        raise InputError(f"{flag} {text!r}: expected key=value,value,… or key=a..b, as in signals.intent.sessions=1..8")
    if span:
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + MOST:
            raise InputError(f"{flag} {text!r}: a..b counts up from a to b, at most {MOST} values")
        return key.strip(), [str(k) for k in range(first, last + 1)]
    values, depth = [""], 0
    for letter in listed:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            values.append("")
        else:
            values[-1] += letter
    values = [value.strip() for value in values]
    if not all(values) or depth:
        raise InputError(f"{flag} {text!r}: an empty value or an open bracket; values are separated by commas")
    if len(set(values)) != len(values) or len(values) > MOST:
        raise InputError(f"{flag} {text!r}: expected different values, at most {MOST}")
    return key.strip(), values
