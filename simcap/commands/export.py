"""`simcap export fleet-sim|fleet-sim-hardware`: what simcap knows, in the terms of another tool.

Enters: a run directory, a profile or names of the hardware catalog, and prices with their source. Leaves: a directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from simcap.screen import Json, print_json

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Write profiles, curves and hardware for fleet-sim.",
)

Out = Annotated[Path, typer.Option("--out", help="Directory to write.")]
Source = Annotated[str, typer.Option("--cost-source", metavar="TEXT", help="Where the price is from.")]


@app.command("fleet-sim")
def fleet_sim(
    source: Annotated[str, typer.Argument(metavar="RUN_OR_PROFILE", help="Run directory, or a profile (name, path).")],
    out: Out,
    cost_per_hour: Annotated[float, typer.Option(metavar="USD", help="One hour of one GPU.")],
    cost_source: Source,
    as_json: Json = False,
) -> None:
    """A run as router nodes, or a profile as sessions: objects, constants, curve, fleet and workload for fleet-sim."""
    from simcap.commands.run import _progress
    from simcap.fleet_sim import export

    price = export.Price(cost_per_hour, cost_source)
    with _progress(f"export {source}", shown=not as_json) as progress:
        names = export.export(source, out, price, progress)
    _say(out, names, as_json)


@app.command("fleet-sim-hardware")
def fleet_sim_hardware(
    out: Out,
    cost_per_hour: Annotated[list[str], typer.Option(metavar="GPU=USD", help="mi300x=2.59; one for each GPU wanted.")],
    cost_source: Source,
    as_json: Json = False,
) -> None:
    """GPUs of the catalog as fleet-sim hardware, for LLM pools beside the router."""
    from simcap.fleet_sim import hardware

    names = hardware.export(cost_per_hour, cost_source, out)
    _say(out, names, as_json)


def _say(out: Path, names: Iterable[str], as_json: bool) -> None:
    if as_json:
        print_json({"directory": str(out), "files": list(names)})
    else:
        typer.echo(f"{out}: {', '.join(names)}")
