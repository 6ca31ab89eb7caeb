"""`simcap whatif`: what each thing that could be changed about a node is worth.

Enters: a scenario and a profile by name or path. Leaves: on stdout a ranked table, or `simcap.whatif/1` with `--json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scenarios.schema import Scenario
    from simcap.whatif.study import WhatIf


def whatif(
    scenario: Annotated[str, typer.Argument(help="Name of a shipped scenario, or a path.")],
    profile: Annotated[str | None, typer.Option(help="Name or path; goes before the scenario's own.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bytes.")] = 1,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Repeatable.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at most.  [default: one a core]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print simcap.whatif/1 instead of the table.")] = False,
) -> None:
    """Change one thing of SCENARIO at a time: what each change is worth, and whose it is to make."""
    from functools import partial

    from scenarios import loader
    from simcap.commands.run import _cores, _profile_for, _progress
    from simcap.whatif import study

    given = tuple(overrides or ())
    known, _ = _profile_for(loader.load(scenario, given), profile)
    with _progress(scenario, shown=not as_json) as progress:
        found = study.what_if(partial(_loaded, scenario, given), known, seed, workers or _cores(), progress)
    _say(found, as_json=as_json)


def _loaded(scenario: str, given: tuple[str, ...], more: Sequence[str]) -> Scenario:
    from scenarios import loader

    return loader.load(scenario, (*given, *more))


def _say(found: WhatIf, *, as_json: bool) -> None:
    import json

    from rich.console import Console

    from simcap.whatif import said

    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json", by_alias=True), indent=1, allow_nan=False))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(said.headline(found), style="bold")
    console.print()
    console.print(said.table(found))
    console.print(said.legend(found))
    for change in found.changes:
        if change.why is not None:
            console.print(f"not told: {change.title}: {change.why}")
