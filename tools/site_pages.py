"""Pages of the site that are made from the code: command line, file formats, error messages.

Enters: this checkout. Leaves: Markdown. Nothing is kept in the repository, so nothing goes stale.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from profiles.errors import SimcapError

ROOT = Path(__file__).parents[1]
PACKAGES = ("profiles", "scenarios", "sim", "calibrate", "simcap")
SCHEMAS = ROOT / "docs" / "reference" / "schema"
UNNAMED = "…"  # stands for what a message fills in


def command_line() -> str:
    """Every command with its own help text, as a terminal of 80 columns shows it."""
    from simcap.cli import app

    parts = ["# Command line", "", "What `--help` prints, command by command.", ""]
    for name, text in _helps(typer.main.get_command(app), "simcap"):
        parts += [f"## `{name}`", "", "```text", text.strip(), "```", ""]
    return "\n".join(parts)


def _helps(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    context = command.context_class(command, info_name=name.split()[-1], parent=parent, terminal_width=80)
    yield name, command.get_help(context)
    if hasattr(command, "list_commands"):
        for below in command.list_commands(context):
            yield from _helps(command.get_command(context, below), f"{name} {below}", context)


def schemas() -> dict[str, str]:
    """File name -> page, one for each JSON Schema that is committed."""
    return {file.name.split(".")[0] + "-file.md": _schema_page(file) for file in sorted(SCHEMAS.glob("*.schema.json"))}


def _schema_page(file: Path) -> str:
    schema = json.loads(file.read_text())
    kind = file.name.split(".")[0]
    parts = [
        f"# The {kind} file",
        "",
        f"Made from [{file.name}](schema/{file.name}), which programs can check with.",
        "",
    ]
    parts += _object(schema)
    for name, part in sorted(schema.get("$defs", {}).items()):
        parts += [f"## {_title(name)}", "", *_object(part)]
    return "\n".join(parts)


def _object(part: dict[str, Any]) -> list[str]:
    lines = [_plain(part.get("description", "")), ""]
    if not (keys := part.get("properties")):
        return [*lines, f"One of: {_kind(part)}", ""]
    needed = part.get("required", ())
    lines += ["| key | type | default | |", "|---|---|---|---|"]
    for key, value in keys.items():
        default = "required" if key in needed else _default(value)
        lines.append(f"| `{key}` | {_kind(value)} | {default} | {_plain(value.get('description', ''))} |")
    return [*lines, ""]


def _default(value: dict[str, Any]) -> str:
    """A default as JSON; of an object only that there is one, since its own table has the rest."""
    given = value.get("default", UNNAMED)
    return "" if given == UNNAMED else "its own" if isinstance(given, dict) and given else f"`{json.dumps(given)}`"


def _kind(value: dict[str, Any]) -> str:
    """The type of a value in words, with its limits; links lead to the parts below."""
    if "$ref" in value:
        name = _title(value["$ref"].rsplit("/", 1)[1])
        return f"[{name}](#{name.lower()})"
    if choices := value.get("anyOf") or value.get("oneOf"):
        return " or ".join(_kind(choice) for choice in choices)
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " or ".join(f"`{choice}`" for choice in value["enum"])
    kind = value.get("type", "any value")
    if kind == "array" and isinstance(items := value.get("items"), dict):
        return f"list of {_kind(items)}"
    inner = next(iter(value.get("patternProperties", {}).values()), value.get("additionalProperties"))
    if kind == "object" and isinstance(inner, dict):
        return f"names to {_kind(inner)}"
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    return " ".join([str(kind), *(f"{sign} {value[name]}" for name, sign in bounds.items() if name in value)])


def _title(name: str) -> str:
    """`scenarios__node__Choice` -> `Choice-of-node`: two parts have this name."""
    module, _, own = name.rpartition("__")
    return f"{own}-of-{module.rsplit('__', 1)[-1]}" if module else own


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def error_classes() -> frozenset[str]:
    """Names of the errors of ours, wherever they are defined."""
    found, todo = set(), [SimcapError]
    for module in sorted(_modules()):
        if not module.startswith("calibrate.worker") and not module.endswith("__main__"):
            importlib.import_module(module)
    while todo:
        kind = todo.pop()
        found.add(kind.__name__)
        todo += kind.__subclasses__()
    return frozenset(found)


def messages() -> dict[str, list[str]]:
    """Module -> its messages in order of appearance; what they fill in is shown as an ellipsis."""
    kinds, found = error_classes(), {}
    for module, file in sorted(_modules().items()):
        calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call) and node.args]
        texts = [_text(call.args[0]) for call in calls if isinstance(call.func, ast.Name) and call.func.id in kinds]
        if said := [text for text in dict.fromkeys(texts) if text.strip(f"{UNNAMED}: \n")]:
            found[module] = said
    return found


def _modules() -> dict[str, Path]:
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(_text(value) for value in values)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
    return UNNAMED


def section_of(module: str, prefixes: list[str]) -> str | None:
    """The longest of the prefixes that `module` stands under."""
    fitting = [prefix for prefix in prefixes if module == prefix or module.startswith(f"{prefix}.")]
    return max(fitting, key=len, default=None)
