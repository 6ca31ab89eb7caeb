"""The router's own configuration, format v0.3, as far as a scenario needs it.

Enters: a YAML file. Leaves: the routing profiles that a request can reach, and the model catalog. Another version of the
format, or a file that is something else (a Helm values file, a scenario), is an InputError that says so by name. Keys that
do not bear on which models run are not looked at. Format: vllm-project/semantic-router, src/semantic-router/pkg/config,
read at commit 3d48f8c.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiles.document import nearest, read_text
from profiles.errors import InputError
from profiles.tree import parse_yaml

VERSIONS = ("v0.3",)
TOP_LEVEL = ("version", "listeners", "providers", "routing", "entrypoints", "recipes", "global")
DEFAULT = "default"
MAX_BYTES = 4 * 1024 * 1024

Node = Mapping[str, Any]


@dataclass(frozen=True)
class Routing:
    """One routing profile: its signal rules, projections and decisions, as in the file."""

    name: str
    signals: Node
    projections: Node
    decisions: tuple[Node, ...]


@dataclass(frozen=True)
class RouterFile:
    path: Path
    version: str
    profiles: tuple[Routing, ...]  # those that a request can reach
    unreachable: tuple[str, ...]
    overrides: Node  # `global`, empty where the file is silent

    def setting(self, *keys: str) -> Any:
        """What `global` says at this path; None where it is silent."""
        return lookup(self.overrides, *keys)


def lookup(node: Any, *keys: str) -> Any:
    """The value at a path of keys, None where there is none."""
    for key in keys:
        if not isinstance(node, Mapping) or key not in node:
            return None
        node = node[key]
    return node


def load(path: Path) -> RouterFile:
    """Read the file. Raises InputError."""
    data = parse_yaml(read_text(path, MAX_BYTES), str(path)).data
    _check_version(path, data)
    overrides = _mapping(path, data, "global")
    default = _routing(path, DEFAULT, _mapping(path, data, "routing"))
    named = [
        _routing(path, str(recipe.get("name")), _mapping(path, recipe, "routing")) for recipe in _items(data, "recipes")
    ]
    known = [default, *named] if DEFAULT not in {recipe.name for recipe in named} else named
    reachable = _reachable(path, data, overrides, known)
    with_rules = [profile for profile in known if profile.decisions]
    return RouterFile(
        path=path,
        version=str(data["version"]),
        profiles=tuple(profile for profile in with_rules if profile.name in reachable),
        unreachable=tuple(profile.name for profile in with_rules if profile.name not in reachable),
        overrides=overrides,
    )


def _check_version(path: Path, data: Any) -> None:
    if not isinstance(data, dict) or not ({"routing", "recipes", "global"} & set(data)):
        found = ", ".join(map(str, data)) if isinstance(data, dict) else type(data).__name__
        raise InputError(
            f"{path}: is not a configuration of the router: it has none of routing, recipes, global (found {found}); of "
            "a Helm values file take the part under `config`"
        )
    version = data.get("version")
    if version not in VERSIONS:
        said = "says no version" if version is None else f"has version {version!r}"
        raise InputError(f"{path}: {said}; this simcap reads the router's format {', '.join(VERSIONS)} and no other")
    for key in data:
        if key not in TOP_LEVEL:
            raise InputError(
                f"{path}: unknown key {key!r} at the top of a {version} file; {nearest(str(key), TOP_LEVEL)}"
            )


def _routing(path: Path, name: str, routing: Node) -> Routing:
    return Routing(
        name=name,
        signals=_mapping(path, routing, "signals"),
        projections=_mapping(path, routing, "projections"),
        decisions=tuple(_items(routing, "decisions")),
    )


def _reachable(path: Path, data: Node, overrides: Node, known: list[Routing]) -> set[str]:
    """The default profile through the router's automatic model names, unless these are set to none; others by entry point."""
    names = lookup(overrides, "router", "auto_model_names")
    found = set() if names == [] else {DEFAULT}
    valid = [profile.name for profile in known]
    for entry in _items(data, "entrypoints"):
        recipe = str(entry.get("recipe"))
        if recipe not in valid:
            raise InputError(f"{path}: entrypoints names recipe {recipe!r}; {nearest(recipe, valid)}")
        found.add(recipe)
    return found


def _mapping(path: Path, node: Node, key: str) -> Node:
    value = node.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: {key}: expected a mapping of keys to values")
    return value


def _items(node: Node, key: str) -> list[Node]:
    value = node.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
