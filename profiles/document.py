"""Read YAML and JSON files into validated models, with errors that a person can act on.

Enters: a path, a pydantic model, `key.path=value` overrides. Leaves: the model. Every failure is an `InputError` that
names file, line, key, value and, where one is near, the valid name that was probably meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from profiles.errors import InputError, nearest
from profiles.explain import explain_all, problem_at
from profiles.tree import Tree, parse_json, parse_yaml, set_value

__all__ = ["Strict", "exists", "line_in", "load_json", "load_yaml", "nearest", "problem_at", "read_text"]

MAX_BYTES = 64 * 1024 * 1024  # the largest profile we can imagine (full matrix, five runs) is far below 10 MB
MAX_YAML_BYTES = 4 * 1024 * 1024  # scenarios are written by hand

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """Base of every file model: frozen, finite numbers only, and an unknown key is an error with the nearest valid key."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        for key, value in data.items():
            if key not in fields:
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown key {key}; {hint}",
                    {"key": repr(key), "hint": nearest(str(key), fields), "name": key},
                )
            if _holds_bool(value) and not _takes_bool(fields[key].annotation):
                raise problem_at(
                    [key], f"expected no true or false here (found {value!r}); yes, no, on, off are such too"
                )
        return data


def _holds_bool(value: Any) -> bool:
    return isinstance(value, bool) or (
        isinstance(value, list | tuple) and any(isinstance(item, bool) for item in value)
    )


def _takes_bool(annotation: Any) -> bool:
    """Pydantic would read true as the number 1; a field takes it only where its annotation says bool."""
    return annotation is bool or any(_takes_bool(part) for part in get_args(annotation))


def exists(path: Path) -> bool:
    """Whether something is there; a path that cannot even be asked about (too long, not allowed) is an InputError."""
    try:
        return path.exists()
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)[:200]}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """The file's text (UTF-8, at most `limit` bytes); InputError if it cannot be read."""
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise InputError(f"{path}: is a directory, not a file")
        if not path.is_file():
            raise InputError(f"{path}: is a device or a pipe, not a file")
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
    tree = parse_yaml(read_text(path, MAX_YAML_BYTES), str(path))
    data = tree.data
    for override in overrides:
        data = set_value(data, override)
    return _validate(model, Tree(data, tree.text, tree.label), overrides)


def load_json(path: Path, model: type[Model]) -> Model:
    """Read a JSON file of ours and validate it as `model`."""
    return _validate(model, parse_json(read_text(path), str(path)), ())


def line_in(path: Path, key: Sequence[str | int]) -> str:
    """`file:line` of a key in a YAML file that was read before, for an error found later."""
    return parse_yaml(read_text(path, MAX_YAML_BYTES), str(path)).where(key)


def _validate(model: type[Model], tree: Tree, overrides: Sequence[str]) -> Model:
    _check_schema(model, tree)
    try:
        return model.model_validate(tree.data)
    except ValidationError as error:
        raise InputError(explain_all(error.errors(), tree, overrides)) from None


def _check_schema(model: type[BaseModel], tree: Tree) -> None:
    """Say first, and by name, when a file is of another kind or of a newer version than this simcap reads."""
    field = model.model_fields.get("schema_version")
    if field is None:
        return
    expected = str(get_args(field.annotation)[0])  # Literal["simcap.<kind>/<version>"]
    found = tree.data.get("schema")
    if found == expected:
        return
    where = tree.where(["schema"])
    if found is None:
        raise InputError(f"{where}: key 'schema' is missing; this file should say: schema: {expected}")
    kind, _, version = str(found).partition("/")
    if kind == expected.partition("/")[0] and version.isdecimal() and int(version) > int(expected.partition("/")[2]):
        raise InputError(
            f"{where}: schema {found} is newer than {expected}, the newest that this simcap reads; upgrade simcap"
        )
    raise InputError(f"{where}: schema is {found!r}, expected {expected!r}")
