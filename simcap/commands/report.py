"""`simcap report`: documents made from finished runs. `performance` is the production performance report.

Enters: run directories. Leaves: a directory with `performance.md`, `performance.html`, `performance.json`
(`simcap.performance/1`) and the pictures, whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def report() -> None:
    """Write documents from finished runs."""


@app.command()
def performance(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Directories that simcap run wrote.")],
    out: Annotated[Path, typer.Option(help="The directory to write.")],
    no_whatif: Annotated[bool, typer.Option("--no-whatif", help="Do not simulate proposed changes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print simcap.performance/1 instead of a sentence.")] = False,
) -> None:
    """Write the production performance report of RUNs of one profile."""
    import json
    import shlex

    from simcap.commands.run import _cores
    from simcap.documents import folder, html
    from simcap.performance import document
    from simcap.performance import runs as finished
    from simcap.performance.model import Performance
    from simcap.whatif import study

    folder.check(out, "performance")
    read, profile, file = finished.read(runs)
    what_ifs: dict[str, study.WhatIf] = {}
    for run in [] if no_whatif else read:
        typer.echo(f"{run.result.scenario}: what each change is worth", err=True)
        what_ifs[run.result.scenario] = study.what_if(run.load, profile, run.result.seed, _cores())
    flags = ["--no-whatif"] if no_whatif else []
    folders = [f"runs/{run.name}" for run in runs]
    command = shlex.join(["simcap", "report", "performance", *folders, *flags, "--out", out.name])
    text, pictures = document.markdown(document.Report(read, profile, file, what_ifs, command))
    page = html.page(text, f"Performance: {profile.name}", "performance report", pictures)
    found = Performance(profile=profile.name, runs=tuple(run.result.scenario for run in read), what_ifs=what_ifs)
    data = json.dumps(found.model_dump(mode="json", by_alias=True), indent=1, allow_nan=False) + "\n"
    files = {"performance.md": text.encode(), "performance.html": page.encode(), "performance.json": data.encode()}
    folder.write(out, "performance", files | {name: svg.encode() for name, svg in pictures.items()})
    typer.echo(data if as_json else f"performance: {out / 'performance.html'}\n", nl=False)
