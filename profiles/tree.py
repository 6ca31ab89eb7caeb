"""YAML and JSON text as plain data beside the line of each key, with hostile text bounded first.

Enters: text and the label of the file. Leaves: `Tree`. Refused before anything is built: nesting, aliases that refer to
themselves, trees that grow too large when aliases are expanded, and a key that stands twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from profiles.errors import InputError

MAX_NODES = 200_000  # after alias expansion; ten "lol" levels of ten would be 10^10
MAX_DEPTH = 64

PathParts = Sequence[str | int]


def show(value: Any) -> str:
    """A value in a message: short, and never the whole of a file."""
    if isinstance(value, dict):
        return "a mapping with " + (", ".join(repr(k) for k in list(value)[:4]) or "no keys")
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Tree:
    """Plain data, and the text that it came from."""

    data: Any
    text: str
    label: str

    @cached_property
    def _root(self) -> yaml.Node | None:
        try:
            return yaml.compose(self.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (yaml.YAMLError, RecursionError):  # JSON that is not YAML: its messages go without a line
            return None

    def line_of(self, path: PathParts) -> int | None:
        """Line (1-based) of the deepest part of `path` that stands in the file."""
        node, line = self._root, None
        for part in path:
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(part):
                        node, line = value, key.start_mark.line + 1
                        break
                else:
                    break
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            else:
                break
        return line

    def where(self, path: PathParts) -> str:
        """`file:line`, or the file alone."""
        line = self.line_of(path)
        return f"{self.label}:{line}" if line else self.label


def parse_yaml(text: str, label: str) -> Tree:
    """The tree of a YAML mapping."""
    root = _guarded(lambda: yaml.compose(text, Loader=yaml.SafeLoader), label)
    if root is None:
        raise InputError(f"{label}: the file is empty")
    _guarded(lambda: _bound(root, label), label)
    data = _guarded(lambda: yaml.load(text, Loader=yaml.SafeLoader), label)
    if not isinstance(data, dict):
        raise InputError(f"{label}:1: expected a mapping of keys to values, found {show(data)}")
    return Tree(data, text, label)


def _guarded(step: Callable[[], Any], label: str) -> Any:
    """The step's answer, with every way in which PyYAML fails on bad text turned into one kind of error."""
    try:
        return step()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{label}{line}: not YAML: {_plain(error.problem or str(error))}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{label}: not YAML: {_plain(str(error))}") from None
    except RecursionError:
        raise InputError(f"{label}: nested deeper than {MAX_DEPTH} levels") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # an impossible date, `!!int ""`
        raise InputError(f"{label}: a value that YAML cannot read ({_plain(str(error))})") from None


def _plain(problem: str) -> str:
    """PyYAML's words on one line, with the advice that its commonest complaint lacks."""
    line = " ".join(problem.split())
    return f"{line}; indent with spaces, not with tabs" if r"'\t'" in line else line


def _bound(root: yaml.Node, label: str) -> None:
    """Refuse trees that explode when aliases are expanded, that refer to themselves, or that repeat a key."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node, depth: int) -> int:
        line = node.start_mark.line + 1
        if id(node) in open_nodes:
            raise InputError(f"{label}:{line}: an alias refers to a node that contains it")
        if depth > MAX_DEPTH:
            raise InputError(f"{label}:{line}: nested deeper than {MAX_DEPTH} levels")
        if id(node) in sizes:
            return sizes[id(node)]
        open_nodes.add(id(node))
        total = 1
        if isinstance(node, yaml.MappingNode):
            _unique_keys(node, label)
            total += sum(size(key, depth + 1) + size(value, depth + 1) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            total += sum(size(child, depth + 1) for child in node.value)
        if total > MAX_NODES:
            raise InputError(
                f"{label}:{line}: more than {MAX_NODES} values once its aliases are expanded; write fewer aliases"
            )
        open_nodes.discard(id(node))
        sizes[id(node)] = total
        return total

    size(root, 0)


def _unique_keys(node: yaml.MappingNode, label: str) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        name = str(key.value)
        if name in seen and name != "<<":
            raise InputError(f"{label}:{key.start_mark.line + 1}: key {name!r} stands twice; keep one")
        seen.add(name)


class _BadJsonError(ValueError):
    pass


def parse_json(text: str, label: str) -> Tree:
    """The tree of a JSON text."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_pairs)
    except json.JSONDecodeError as error:
        what = "the file is empty" if not text.strip() else f"not JSON: {error.msg} (column {error.colno})"
        raise InputError(f"{label}:{error.lineno}: {what}") from None
    except _BadJsonError as error:
        raise InputError(f"{label}{_line_of_constant(text)}: {error}") from None
    except RecursionError:
        raise InputError(f"{label}: nested deeper than JSON of ours can be") from None
    except ValueError as error:  # an integer of thousands of digits
        raise InputError(f"{label}: a value that JSON cannot read ({error})") from None
    if not isinstance(data, dict):
        raise InputError(f"{label}:1: expected an object of keys and values, found {show(data)}")
    return Tree(data, text, label)


def _refuse_constant(name: str) -> float:
    raise _BadJsonError(f"{name} is not a number that a file of ours can hold; leave the key out")


def _line_of_constant(text: str) -> str:
    found = re.search(r"[:\[,]\s*(NaN|-?Infinity)\b", text)
    return f":{text.count(chr(10), 0, found.start(1)) + 1}" if found else ""


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _BadJsonError(f"key {key!r} stands twice in one object; keep one")
        result[key] = value
    return result


def set_value(data: dict[str, Any], override: str) -> dict[str, Any]:
    """A copy of `data` with one `key.path=value` set; a path part that is a number indexes a list."""
    path, equals, text = override.partition("=")
    parts = path.split(".")
    if not equals or not all(parts):
        raise InputError(f"--set {override!r}: expected key=value, as in measurement.replications=10")
    value = _guarded(lambda: yaml.safe_load(text), f"--set {override!r}")

    def put(node: Any, rest: Sequence[str], done: str) -> Any:
        head = rest[0]
        if isinstance(node, list):
            if not head.isdecimal() or int(head) >= len(node):
                raise InputError(
                    f"--set {override!r}: {done} is a list of {len(node)}; {head!r} is not one of its places"
                )
            items = list(node)
            items[int(head)] = value if len(rest) == 1 else put(items[int(head)], rest[1:], f"{done}.{head}")
            return items
        if not isinstance(node, dict):
            raise InputError(f"--set {override!r}: {done} is {show(node)} and has no key {head!r}")
        inner = value if len(rest) == 1 else put(node.get(head, {}), rest[1:], f"{done}.{head}" if done else head)
        return {**node, head: inner}

    result: dict[str, Any] = put(data, parts, "")
    return result
