"""`simcap study make|check`: a run with everything it was made from, and the proof that it gives the same bytes.

Enters: a run directory, or a study. Leaves: the study directory; on `check` exit code 4 when other bytes come out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcap.screen import Json, print_json

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Bundle a run with its inputs, or run a bundle again and compare.",
)


@app.command()
def make(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A directory that simcap run wrote.")],
    out: Annotated[Path, typer.Option("--out", help="Directory to write.")],
    as_json: Json = False,
) -> None:
    """Bundle a run: inputs, results, digests and versions."""
    from simcap.fleet_sim import study

    names = study.make(run, out)
    if as_json:
        print_json({"study": str(out), "files": list(names)})
        return
    typer.echo(f"{out}: {len(names)} files; check it anywhere with: simcap study check {out}")


@app.command()
def check(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A directory that simcap study make wrote.")],
    as_json: Json = False,
) -> None:
    """Run a study again and compare the results byte for byte."""
    from simcap.commands.run import _progress
    from simcap.fleet_sim import study as studies

    with _progress(f"study {study.name}", shown=not as_json) as progress:
        same = studies.check(study, progress)
    if as_json:
        print_json({"study": str(study), "same": list(same)})
        return
    typer.echo(f"{study}: the same bytes ({', '.join(same)})")
