"""`simcap compare`: what changed between runs, and whether the change is more than chance.

Enters: run directories that `simcap run` wrote, or scenarios by name or path, never both; for scenarios what to vary.
Leaves: on stdout a sentence and tables for each later one against the first, or `simcap.comparison/1` with `--json`; with
`--out` also comparison.json, compare.html and its plots.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import InputError

if TYPE_CHECKING:
    from sim.result import Result
    from simcap.comparing import Ask
    from simcap.comparison import Comparison

FEW = 1  # later variants whose every figure is printed; of more the page and comparison.json have them


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Run directories, or scenarios.")],
    vary: Annotated[
        list[str] | None, typer.Option("--vary", metavar="KEY=V1,V2,…", help="For scenarios: all values. Repeatable.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="For scenarios: goes before their own.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For scenarios.  [default: 1]")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="For scenarios: set in all. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print simcap.comparison/1 instead of tables.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write comparison.json and compare.html here.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="No compare.html and no plots.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at most.  [default: one a core]")] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Dask cluster instead.")] = None,
) -> None:
    """Compare each later RUN with the first: changes with 95 % intervals, and which are more than chance."""
    if len(runs) < 2 and not vary:
        raise InputError("compare needs two runs or more: simcap compare runs/a runs/b; or one scenario and --vary")
    are_runs = [Path(run).is_dir() for run in runs]
    if any(are_runs) and not all(are_runs):
        raise InputError(
            f"{runs[are_runs.index(True)]} is a directory and {runs[are_runs.index(False)]} is not: "
            "give run directories only, or scenarios only"
        )
    from simcap import comparing

    comparing.check_out(out)
    if all(are_runs):
        if profile is not None or seed is not None or overrides or vary or workers or dask:
            raise InputError(
                "--vary, --profile, --seed, --set, --workers and --dask are for scenarios; finished runs are compared as they are"
            )
        comparison = _finished(runs)
        if out is not None:
            comparing.write(comparison, out, page=not no_report)
        say(comparison, out, as_json=as_json, page=not no_report)
        return
    given = comparing.Ask(
        tuple(runs), tuple(vary or ()), tuple(overrides or ()), profile, 1 if seed is None else seed, not no_report
    )
    run_variants(given, out, workers=workers, dask=dask, as_json=as_json)


def run_variants(ask: Ask, out: Path | None, *, workers: int | None, dask: str | None, as_json: bool) -> None:
    """Scenarios, run here with common random numbers, and compared replication by replication."""
    from simcap import comparing
    from simcap.commands.run import _cores, _profile_for, _progress, _stoppable

    asked = comparing.prepared(ask, _profile_for)
    bar = _progress(f"{len(asked)} variants", shown=not as_json)
    with _stoppable(None if out is None else comparing.journal_of(out)):
        comparison = comparing.answered(ask, asked, workers=workers or _cores(), dask=dask, out=out, progress=bar)
    say(comparison, out, as_json=as_json, page=ask.page)


def _finished(runs: list[str]) -> Comparison:
    """Finished runs, unpaired: result.json holds intervals, not replications."""
    from simcap import compare as comparing
    from simcap.variants import names

    results = [_read(Path(run)) for run in runs]
    found = comparing.of_results(names(runs), results)
    notes = [
        f"{run} promises {r.slo.attainment:.6g} of requests within {1000 * r.slo.latency_s:g} ms, {runs[0]} "
        f"{results[0].slo.attainment:.6g} within {1000 * results[0].slo.latency_s:g} ms: each is held to its own."
        for run, r in zip(runs[1:], results[1:], strict=True)
        if r.slo != results[0].slo
    ]
    if len({(r.seed, r.profile) for r in results}) == 1:
        again = " ".join(str(Path(run) / "scenario.resolved.yaml") for run in runs)
        notes.append(
            "These runs share random numbers, so the unpaired intervals are as a rule wider than need be. "
            f"Paired, by running them again: simcap compare {again} --seed {results[0].seed}"
        )
    return found.model_copy(update={"notes": tuple(notes)})


def _read(directory: Path) -> Result:
    from pydantic import ValidationError

    from sim.result import Result

    path = directory / "result.json"
    if not path.is_file():
        raise InputError(f"{directory}: holds no result.json; give a directory that simcap run wrote")
    try:
        return Result.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(f"{path}: is no simcap.result/1 ({where}: {first['msg']})") from None


def say(comparison: Comparison, out: Path | None, *, as_json: bool, page: bool) -> None:
    """The verdict on each variant; every figure where there are few."""
    from rich.console import Console

    from simcap import comparing
    from simcap.report import comparison as said

    if as_json:
        typer.echo(comparing.text(comparison), nl=False)
        return
    console = Console(highlight=False, markup=False, emoji=False)
    for other in comparison.others if len(comparison.others) <= FEW else ():
        console.print(said.headline(comparison, other), style="bold")
        console.print(said.table(other))
        console.print()
    console.print(said.verdicts(comparison))
    console.print(said.legend(comparison))
    for note in comparison.notes:
        console.print(f"note: {note}")
    if out is not None:
        console.print(
            f"{'report' if page else 'results'}: {out / (comparing.PAGE if page else comparing.FILE)}", soft_wrap=True
        )
