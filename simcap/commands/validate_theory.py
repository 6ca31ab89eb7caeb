"""`simcap validate theory`: exact values and invariants as a table.

Leaves: the table or the record as JSON on stdout; exit code 4 where a check fails.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simcap.validate.theory import Table


def theory(
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of a minute; wider intervals.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Another seed is another trial.")] = 1,
    simpy: Annotated[bool, typer.Option("--simpy", help="Check the reference engine only; slower.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the record to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record instead of the table.")] = False,
) -> None:
    """Check the simulation against exact results of queueing theory and its own invariants."""
    from profiles.store import write_whole
    from simcap.commands.run import _progress
    from simcap.validate import record
    from simcap.validate.theory import check, validation

    flags = [*(["--quick"] if quick else []), "--seed", str(seed), *(["--simpy"] if simpy else [])]
    command = shlex.join(["simcap", "validate", "theory", *flags])
    with _progress("theory", shown=not as_json) as progress:
        table = check(seed=seed, quick=quick, engine="simpy" if simpy else "auto", progress=progress)
    made = validation(table, command)
    if out is not None:
        write_whole(out, record.dumps(made).encode())
    if as_json:
        typer.echo(record.dumps(made), nl=False)
    else:
        _show(table)
    if made.verdict == "attention":
        raise typer.Exit(4)


def _show(table: Table) -> None:
    from simcap import screen
    from simcap.validate.theory import chance, summary

    columns = ("node", "figure", "exact", "simulated", "± 99 %", "verdict")
    screen.print_table(
        columns,
        [
            (one.case, one.figure, f"{one.exact:.4g}", f"{one.mean:.4g}", f"{one.half / one.exact:.1%}", one.verdict)
            for one in table.figures
        ],
        right=columns[2:5],
    )
    screen.print_table(
        ("invariant", "", "random nodes", "broken", "verdict"),
        [
            (str(i.number), i.name, str(i.nodes), str(i.broken), f"BROKEN: {i.example}" if i.broken else "ok")
            for i in table.invariants
        ],
        right=("invariant", "random nodes", "broken"),
    )
    if table.effort < 1:
        screen.print_wrapped(
            f"{table.effort:.0%} of the full requests were simulated; intervals are wider than they can be"
        )
    screen.print_wrapped(chance(table))
    screen.print_wrapped(summary(table))
