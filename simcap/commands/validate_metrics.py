"""`simcap validate metrics`: two dumps of a running router's /metrics against the prediction at its own load.

Leaves: a table or the record as JSON on stdout, the record beside the profile; exit code 4 where a prediction lies outside.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import InputError

if TYPE_CHECKING:
    from simcap.validate.record import Estimate, Validation


def metrics(
    before: Annotated[Path, typer.Option(help="The router's /metrics, as text.")],
    after: Annotated[Path, typer.Option(help="The same, some minutes later.")],
    scenario: Annotated[str, typer.Option(help="Name of a shipped scenario, or a path.")],
    profile: Annotated[str | None, typer.Option(help="Name or path; goes before the scenario's own.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Between the dumps, where they have no time stamps.")] = None,
    rps: Annotated[float | None, typer.Option(help="Requests a second, where the dumps do not tell.")] = None,
    signal: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TYPE", help="The router's type of a signal. Repeatable.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same prediction.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the record here and not beside the profile.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record instead of the table.")] = False,
) -> None:
    """Check a prediction against the latency histograms of a running router."""
    from profiles import store
    from scenarios import loader
    from simcap.commands.run import _profile_for, _progress
    from simcap.validate import exposition, record
    from simcap.validate import metrics as checking

    given = tuple(overrides or ())
    named = dict(_pair(text) for text in signal or ())
    wanted = loader.load(scenario, given)
    known, profile_name = _profile_for(wanted, profile)
    first, second = exposition.read(before), exposition.read(after)
    apart = exposition.seconds_between(first, second, _positive("--seconds", seconds))
    found = exposition.between(first, second)
    observed = checking.match(wanted, found, named)
    rate = _positive("--rps", rps)
    with _progress(wanted.name, shown=not as_json) as progress:
        compared = checking.compare(scenario, given, known, observed, apart, seed=seed, rps=rate, progress=progress)
    path = store.locate(profile_name)
    unused = sorted(set(found) - {one.signal_type for one in observed.values()})
    line = ["--before", str(before), "--after", str(after), "--scenario", scenario, "--profile", profile_name]
    line += [*(["--seconds", f"{seconds:g}"] if seconds else []), *(["--rps", f"{rps:g}"] if rps else [])]
    line += [word for text in signal or () for word in ("--signal", text)]
    line += [word for text in given for word in ("--set", text)]
    command = shlex.join(["simcap", "validate", "metrics", *line, "--seed", str(seed)])
    made = checking.validation(compared, wanted.name, known, path, command, unused)
    if out is not None:
        store.write_whole(out, record.dumps(made).encode())
    written = out or record.write(made, path)
    if as_json:
        typer.echo(record.dumps(made), nl=False)
    else:
        _show(made)
        typer.echo(f"record: {written}")
    if made.verdict == "attention":
        raise typer.Exit(4)


def _pair(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not (name and equals and kind):
        raise InputError(f"--signal {text}: expected NAME=TYPE, as in --signal intent=domain")
    return name, kind


def _positive(flag: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise InputError(f"{flag} {value:g}: expected a number above 0")
    return value


def _show(made: Validation) -> None:
    from simcap import screen

    for where in dict.fromkeys(row.where for row in made.rows):
        typer.echo(where)
        screen.print_table(
            ("figure", "measured ms", "predicted ms", "verdict"),
            [
                (row.figure, _told(row.measured), _told(row.predicted), _verdict(row.remark, row.error))
                for row in made.rows
                if row.where == where
            ],
            right=("measured ms", "predicted ms"),
        )
    for note in made.notes:
        screen.print_wrapped(f"- {note}")
    screen.print_wrapped(made.summary)


def _verdict(remark: str, error: float | None) -> str:
    return remark if error is None else f"error {error:+.1%}"


def _told(estimate: Estimate | None) -> str:
    """A range as `5 – 10`, a value with its interval as `7.2 (7.1 – 7.3)`; endless where requests fail."""
    if estimate is None:
        return "endless"
    ms = [None if end is None else f"{end * 1000:.4g}" for end in (estimate.value, estimate.lo, estimate.hi)]
    if ms[0] is None:
        return f"{ms[1]} – {ms[2] or '∞'}"
    return ms[0] if ms[1] is None else f"{ms[0]} ({ms[1]} – {ms[2]})"
