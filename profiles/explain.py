"""What pydantic found wrong, told to the person who wrote the file: file, line, key, value, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

from profiles.errors import nearest
from profiles.tree import Tree, show

MOST = 5  # messages at a time; the rest is counted

PLAIN_WORDS = {
    "model_type": "should be a mapping of keys to values",
    "model_attributes_type": "should be a mapping of keys to values",
    "dict_type": "should be a mapping of keys to values",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "missing": "this key is required and is missing",
    "finite_number": "should be a finite number",
    "int_parsing": "should be a whole number",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "string_type": "should be text",
}


def problem_at(path: Sequence[str | int], message: str) -> PydanticCustomError:
    """To be raised by a validator that compares several keys: the problem lies at `path` below its own model."""
    return PydanticCustomError("at", "{message}", {"message": message, "path": list(path)})


def explain_all(problems: Sequence[ErrorDetails], tree: Tree, overrides: Sequence[str]) -> str:
    """One line a problem, at most MOST of them."""
    lines = list(
        dict.fromkeys(_explain(problem, tree, overrides) for problem in problems if not _echo(problem, problems))
    )
    rest = len(lines) - MOST
    return "\n".join(lines[:MOST] + ([f"{tree.label}: and {rest} more problems"] if rest > 0 else []))


def _echo(problem: ErrorDetails, problems: Sequence[ErrorDetails]) -> bool:
    """Pydantic calls a list too short when all of its items were refused; the refusals say enough."""
    loc = problem["loc"]
    return problem["type"] == "too_short" and any(p["loc"][: len(loc)] == loc and p["loc"] != loc for p in problems)


def _explain(problem: ErrorDetails, tree: Tree, overrides: Sequence[str]) -> str:
    loc: list[str | int] = list(problem["loc"])
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "unknown_key":
        loc.append(context["name"])
    elif kind == "at":
        loc.extend(context["path"])
    path, value = _in_document(loc, tree.data, keep_last=kind == "missing")
    key = ".".join(str(part) for part in path) or "(top level)"
    where = _where(path, key, tree, overrides)
    text = _words(problem)
    found = "" if kind in {"unknown_key", "missing", "at", "union_tag_not_found"} else f" (found {show(value)})"
    return f"{where}: {key}: {text}{found}"


def _where(path: Sequence[str | int], key: str, tree: Tree, overrides: Sequence[str]) -> str:
    """The `--set` that wrote the value, or file and line, with the `--set` that touched what lies below."""
    names = [(override, override.partition("=")[0]) for override in overrides]
    for override, name in reversed(names):
        if key == name or key.startswith(f"{name}."):
            return f"--set {override}"
    for override, name in reversed(names):
        if name.startswith(f"{key}."):
            return f"{tree.where(path)} with --set {override}"
    return tree.where(path)


def _words(problem: ErrorDetails) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in PLAIN_WORDS:
        return PLAIN_WORDS[kind]
    if kind == "literal_error":
        valid = re.findall(r"'([^']*)'", str(context["expected"]))
        return f"not one of the values for this key; {nearest(str(problem['input']), valid)}"
    if kind == "union_tag_invalid":
        valid = re.findall(r"'([^']*)'", str(context["expected_tags"]))
        return f"{str(context['discriminator']).strip(chr(39))} is {context['tag']!r}; {nearest(str(context['tag']), valid)}"
    if kind == "union_tag_not_found":
        return f"key {context['discriminator']} is required here and is missing"
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return message if kind in {"value_error", "unknown_key", "at"} else message[0].lower() + message[1:]


def _in_document(loc: Sequence[str | int], data: Any, *, keep_last: bool) -> tuple[list[str | int], Any]:
    """The parts of a pydantic location that are keys of the file (others name members of a union), and the value there."""
    path: list[str | int] = []
    node = data
    for i, part in enumerate(loc):
        is_key = isinstance(node, dict) and part in node
        is_place = isinstance(node, list) and isinstance(part, int) and part < len(node)
        if is_key or is_place:
            node = node[part]
            path.append(part)
        elif keep_last and i == len(loc) - 1:
            path.append(part)
    return path, node
