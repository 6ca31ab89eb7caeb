"""What the commands print: pairs, tables and JSON for a terminal of 80 columns or more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program, and nothing else.")]
"""The option of every command that prints results; docs/reference/json-output.md has the shapes."""


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_wrapped(text: str) -> None:
    """A paragraph, broken at the terminal's width."""
    _console().print(text)


def print_pairs(pairs: Mapping[str, str]) -> None:
    """`key  value` lines with the keys in one column, then an empty line."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in pairs.items():
        table.add_row(key, value)
    _console().print(table)
    typer.echo()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """A plain table; cells that do not fit are folded, never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    _console().print(table)
