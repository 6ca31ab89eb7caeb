"""Which signals a routing profile uses: named in the rules of its decisions, or read by the projections these name.

Enters: a `Routing`. Leaves: signal type -> names of its rules, as the router itself decides which models to load: a rule
that is declared and used by no decision costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcap.router_config.document import Routing

Used = dict[str, set[str]]

PROJECTION, KB_METRIC, KB = "projection", "kb_metric", "kb"


def used_by(routing: Routing) -> Used:
    """Signal type -> rule names, projections followed to the signals behind them."""
    used: Used = {}
    for decision in routing.decisions:
        for kind, name in _leaves(decision.get("rules")):
            used.setdefault(kind, set()).add(name)
    for output in sorted(used.pop(PROJECTION, set())):
        for kind, name in _behind(routing, output, set()):
            used.setdefault(kind, set()).add(name)
    return used


def _leaves(node: Any) -> Iterator[tuple[str, str]]:
    """(type, name) of every condition in a tree of rules."""
    if not isinstance(node, Mapping):
        return
    kind, name = node.get("type"), node.get("name")
    if kind and name:
        yield _plain(kind), str(name)
    for condition in node.get("conditions") or ():
        yield from _leaves(condition)


def _behind(routing: Routing, name: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """(type, name) of the signals that feed a projection's output or score; a circle ends where it closes."""
    if name in seen:
        return
    seen.add(name)
    for mapping in _list(routing.projections.get("mappings")):
        if name in {str(output.get("name")) for output in _list(mapping.get("outputs"))}:
            yield from _behind(routing, str(mapping.get("source")), seen)
    for score in _list(routing.projections.get("scores")):
        if str(score.get("name")) == name:
            for source in _list(score.get("inputs")):
                yield from _of_input(routing, source, seen)


def _of_input(routing: Routing, source: Mapping[str, Any], seen: set[str]) -> Iterator[tuple[str, str]]:
    kind = _plain(source.get("type"))
    if kind == PROJECTION:
        yield from _behind(routing, str(source.get("name")), seen)
    elif kind == KB_METRIC:
        yield KB, str(source.get("kb"))
    else:
        yield kind, str(source.get("name"))


def _plain(kind: Any) -> str:
    return str(kind).strip().lower()


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
