"""Read YAML and JSON files into validated models, with errors that a person can act on.

Enters: a path (or text), a pydantic model, `key.path=value` overrides. Leaves: the model. Every failure is an
`InputError` that names file, line, key, value and, where one is near, the valid name that was probably meant.
Hostile files are bounded before anything is built: bytes, nesting, and the size of the tree with its aliases expanded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from profiles.errors import InputError, nearest

__all__ = ["Strict", "load_json", "load_yaml", "nearest", "read_text"]

MAX_BYTES = 64 * 1024 * 1024  # the largest profile we can imagine (full matrix, five runs) is far below 10 MB
MAX_YAML_BYTES = 4 * 1024 * 1024  # scenarios are written by hand
MAX_NODES = 200_000  # after alias expansion; ten "lol" levels of ten would be 10^10
MAX_DEPTH = 64

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """Base of every file model: frozen, finite numbers only, and an unknown key is an error with the nearest valid key."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            valid = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in valid:
                    raise PydanticCustomError(
                        "unknown_key",
                        "unknown key {key}; {hint}",
                        {"key": repr(key), "hint": nearest(str(key), valid), "name": key},
                    )
        return data


@dataclass(frozen=True)
class _Tree:
    """A parsed YAML file: plain data beside the node tree that knows the line of each key."""

    data: Any
    root: yaml.Node | None
    label: str

    def line_of(self, loc: Sequence[str | int]) -> int | None:
        """Line (1-based) of the deepest part of `loc` that stands in the file; union tags in `loc` are passed over."""
        node, line = self.root, None
        for part in loc:
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(part):
                        node, line = value, key.start_mark.line + 1
                        break
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
        return line


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """The file's text (UTF-8, at most `limit` bytes); InputError if it cannot be read."""
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise InputError(f"{path}: is a directory, not a file")
        if size > limit:
            raise InputError(f"{path}: {size} bytes is more than the {limit} that such a file may have")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}: {error.reason})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def load_yaml(path: Path, model: type[Model], overrides: Sequence[str] = ()) -> Model:
    """Read a YAML file of ours, apply `key.path=value` overrides, validate it as `model`."""
    tree = _parse_yaml(read_text(path, MAX_YAML_BYTES), str(path))
    data = tree.data
    for override in overrides:
        data = _override(data, override)
    return _validate(model, data, tree, overrides)


def load_json(path: Path, model: type[Model]) -> Model:
    """Read a JSON file of ours and validate it as `model`."""
    text = read_text(path)
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_pairs)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except _BadJsonError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested deeper than JSON of ours can be") from None
    return _validate(model, data, _Tree(data, None, str(path)), ())


class _BadJsonError(ValueError):
    pass


def _refuse_constant(name: str) -> float:
    raise _BadJsonError(f"{name} is not a number that a profile can hold; write null or leave the key out")


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _BadJsonError(f"key {key!r} stands twice in one object; keep one")
        result[key] = value
    return result


def _parse_yaml(text: str, label: str) -> _Tree:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            raise InputError(f"{label}: the file is empty")
        _bound(root, label)
        data = yaml.load(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{label}{where}: not YAML: {error.problem or error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{label}: not YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{label}: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # e.g. an impossible date
        raise InputError(f"{label}: a value that YAML cannot read: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"{label}:1: expected a mapping of keys to values, found {_show(data)}")
    return _Tree(data, root, label)


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
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in seen and name != "<<":
                    raise InputError(f"{label}:{key.start_mark.line + 1}: key {name!r} stands twice; keep one")
                seen.add(name)
                total += size(key, depth + 1) + size(value, depth + 1)
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


def _override(data: dict[str, Any], override: str) -> dict[str, Any]:
    """A copy of `data` with one `key.path=value` set; a path part that is a number indexes a list."""
    path, equals, text = override.partition("=")
    parts = path.split(".")
    if not equals or not all(parts):
        raise InputError(f"--set {override!r}: expected key=value, as in measurement.replications=10")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"--set {override!r}: the value {text!r} is not YAML") from None

    def put(node: Any, rest: Sequence[str], done: str) -> Any:
        head = rest[0]
        if isinstance(node, list):
            if not head.isdigit() or int(head) >= len(node):
                raise InputError(
                    f"--set {override!r}: {done} is a list of {len(node)}; {head!r} is not one of its places"
                )
            items = list(node)
            items[int(head)] = value if len(rest) == 1 else put(items[int(head)], rest[1:], f"{done}.{head}")
            return items
        if not isinstance(node, dict):
            raise InputError(f"--set {override!r}: {done} is {_show(node)} and has no key {head!r}")
        inner = value if len(rest) == 1 else put(node.get(head, {}), rest[1:], f"{done}.{head}" if done else head)
        return {**node, head: inner}

    result: dict[str, Any] = put(data, parts, "")
    return result


def _validate(model: type[Model], data: Any, tree: _Tree, overrides: Sequence[str]) -> Model:
    if isinstance(data, dict):
        _check_schema(model, data, tree)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors()
        lines = [_explain(problem, tree, overrides) for problem in problems[:5]]
        if len(problems) > 5:
            lines.append(f"{tree.label}: and {len(problems) - 5} more problems")
        raise InputError("\n".join(lines)) from None


def _check_schema(model: type[BaseModel], data: dict[str, Any], tree: _Tree) -> None:
    """Say first, and by name, when a file is of another kind or of a newer version than this simcap reads."""
    field = model.model_fields.get("schema_version")
    if field is None:
        return
    expected = str(field.annotation.__args__[0])  # type: ignore[union-attr]  # Literal["simcap.<kind>/<version>"]
    found = data.get("schema")
    if found == expected:
        return
    line = tree.line_of(["schema"])
    where = f"{tree.label}:{line}" if line else tree.label
    if found is None:
        raise InputError(f"{where}: key 'schema' is missing; the first line of this file should be: schema: {expected}")
    kind, _, version = str(found).partition("/")
    if kind == expected.partition("/")[0] and version.isdigit() and int(version) > int(expected.partition("/")[2]):
        raise InputError(
            f"{where}: schema {found} is newer than {expected}, the newest that this simcap reads; upgrade simcap"
        )
    raise InputError(f"{where}: schema is {found!r}, expected {expected!r}")


def _explain(problem: ErrorDetails, tree: _Tree, overrides: Sequence[str]) -> str:
    loc: list[str | int] = list(problem["loc"])
    if problem["type"] == "unknown_key":
        loc.append(problem["ctx"]["name"])
    shown = [part for part in loc if _in_document(part, loc, tree.data)]
    key = ".".join(str(part) for part in shown) or "(top level)"
    from_set = next((o for o in overrides if o.partition("=")[0] == key), None)
    line = tree.line_of(shown)
    where = f"--set {from_set}" if from_set else f"{tree.label}:{line}" if line else tree.label
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if problem["type"] in {"unknown_key", "missing"}:
        text = message if problem["type"] == "unknown_key" else "this key is required and is missing"
        return f"{where}: {key}: {text}"
    return f"{where}: {key}: {message[0].lower() + message[1:]} (found {_show(problem['input'])})"


def _in_document(part: str | int, loc: Sequence[str | int], data: Any) -> bool:
    """False for the parts of a pydantic location that name a union member and not a key of the file."""
    node = data
    for step in loc:
        present = (isinstance(node, dict) and step in node) or (
            isinstance(node, list) and isinstance(step, int) and step < len(node)
        )
        if step is part:
            return present or step is loc[-1]
        if present:
            node = node[step]
    return True


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping with " + (", ".join(repr(k) for k in list(value)[:4]) or "no keys")
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
