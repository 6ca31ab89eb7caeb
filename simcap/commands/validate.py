"""`simcap validate …`: predictions against theory, published figures, a live run, a router's metrics.

One module a subcommand, `simcap.commands.validate_<name>`, registered below. Leaves: a table or JSON on stdout, a
validation record beside the profile, and exit code 4 where a check misses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from simcap.commands.validate_live import live
from simcap.commands.validate_metrics import metrics
from simcap.commands.validate_published import published
from simcap.commands.validate_theory import theory

if TYPE_CHECKING:
    from simcap.validate.record import Validation

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check simcap against theory, published figures, this machine or a router.",
)

app.command()(theory)
app.command()(published)
app.command()(metrics)
app.command()(live)


@app.command()
def show(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of a shipped profile, or a path.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
) -> None:
    """Say which validations apply to a profile, newest first."""
    from profiles import store
    from simcap import screen
    from simcap.validate import record

    path = store.locate(profile)
    store.load(profile)
    found = record.look(path)
    if as_json:
        screen.print_json([one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found.applying])
        return
    for one in found.applying:
        screen.print_wrapped(line(one))
    if not found.applying:
        screen.print_wrapped("no validation applies to this profile")
    if found.outdated:
        screen.print_wrapped(f"{found.outdated} beside it are of an earlier state of the profile and do not apply")
    for reason in found.unreadable:
        screen.print_wrapped(f"not read: {reason}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the validation record."""
    from profiles.json_schema import dumps
    from simcap.validate.record import Validation

    typer.echo(dumps(Validation), nl=False)


def line(one: Validation) -> str:
    """A record in one line."""
    scenario = f", scenario {one.scenario}" if one.scenario else ""
    return f"{one.kind}, {one.date:%Y-%m-%d}{scenario}: {one.verdict}. {one.summary}"
