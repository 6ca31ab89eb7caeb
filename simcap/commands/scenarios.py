"""`simcap scenarios list|show|schema`: the questions that ship with simcap, and what one of them says in full.

Enters: a scenario by name or path, `--set` overrides. Leaves: tables or the file on stdout, or JSON with --json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from scenarios.schema import Scenario

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="List, show or describe scenarios."
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.command("list")
def list_scenarios(as_json: Json = False) -> None:
    """Name the scenarios that ship with simcap and the question each one asks."""
    from scenarios import loader
    from simcap import screen

    known = {name: loader.load(name) for name in loader.shipped_names()}
    if as_json:
        screen.print_json(
            [
                {"name": name, "question": s.question, "profile": s.profile, "load": _load(s)}
                for name, s in known.items()
            ]
        )
        return
    rows = [(name, s.profile or "(yours: --profile)", s.question) for name, s in known.items()]
    screen.print_table(("name", "profile", "question"), rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a shipped scenario, or a path.")],
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Show a scenario as it will run: every key, defaults and --set included."""
    import yaml

    from scenarios import loader
    from simcap import screen

    scenario = loader.load(name, tuple(overrides or ()))
    data = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    if as_json:
        screen.print_json(data)
        return
    typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100), nl=False)
    typer.echo(f"# with its comments: {loader.locate(name)}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the scenario file."""
    from profiles.json_schema import dumps
    from scenarios.schema import Scenario

    typer.echo(dumps(Scenario), nl=False)


def _load(scenario: Scenario) -> dict[str, list[float]]:
    return {scenario.load.kind: list(scenario.load.points)}
