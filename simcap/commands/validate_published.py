"""`simcap validate published`: published figures against the profile, cell by cell.

Leaves: a table or the record as JSON on stdout, the record beside the profile; exit code 4 above the bar.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simcap.validate.published import Cell
    from simcap.validate.record import Validation


def published(
    profile: Annotated[str, typer.Option(help="Name of a shipped profile, or a path.")] = "mi300x-published",
    data: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Your figures instead of the shipped ones.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same figures.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the record here and not beside the profile.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record instead of the table.")] = False,
) -> None:
    """Check the profile against published experiments: every cell, fitted ones and outliers named."""
    from profiles import store
    from simcap.commands.run import _progress
    from simcap.validate import published as checking
    from simcap.validate import published_rows, record

    path, known = store.locate(profile), store.load(profile)
    rows = published_rows.shipped() if data is None else published_rows.read(data)
    flags = ["--profile", profile, *(["--data", str(data)] if data else []), "--seed", str(seed)]
    with _progress("published", shown=not as_json) as progress:
        cells, cannot = checking.compare(rows, known, seed, progress)
    made = checking.validation(cells, cannot, known, path, shlex.join(["simcap", "validate", "published", *flags]))
    if out is not None:
        store.write_whole(out, record.dumps(made).encode())
    written = out or record.write(made, path)
    if as_json:
        typer.echo(record.dumps(made), nl=False)
    else:
        _show(cells, made)
        typer.echo(f"record: {written}")
    if made.verdict == "attention":
        raise typer.Exit(4)


def _show(cells: list[Cell], made: Validation) -> None:
    from simcap import screen

    for experiment in dict.fromkeys(cell.row.experiment for cell in cells):
        mine = [cell for cell in cells if cell.row.experiment == experiment]
        typer.echo(experiment)
        screen.print_table(
            ("file", "tokens", "C", "figure", "published", "simulated", "error", "role"),
            [_cells(cell) for cell in mine],
            right=("tokens", "C", "published", "simulated", "error"),
        )
    typer.echo("C: requests at once. Latencies in ms, rates in requests/s.")
    for note in made.notes:
        screen.print_wrapped(f"- {note}")
    screen.print_wrapped(made.summary)


def _cells(cell: Cell) -> tuple[str, ...]:
    row, scale = cell.row, 1 if cell.row.figure == "throughput" else 1000
    what = row.artifact if row.models == 3 else f"{row.model.removeprefix('mmbert32k-')} {row.artifact}"
    simulated = "fails" if cell.simulated.mean is None else f"{cell.simulated.mean * scale:.4g}"
    error = "" if cell.simulated.mean is None else f"{cell.error:+.1%}"
    return (
        what,
        str(row.tokens),
        str(row.concurrency),
        "rate" if row.figure == "throughput" else row.figure,
        f"{row.value * scale:g}",
        simulated,
        error,
        cell.remark,
    )
