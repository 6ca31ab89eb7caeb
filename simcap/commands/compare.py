"""`simcap compare`: what changed between runs, and whether the change is more than chance.

Enters: run directories that `simcap run` wrote, or scenarios by name or path, never both. Leaves: on stdout a sentence and
a table for each later one against the first, or `simcap.comparison/1` with `--json`; with `--out` also `compare.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import InputError

if TYPE_CHECKING:
    from sim.result import Result
    from simcap.compare import Comparison
    from simcap.replications import Sample

FILE = "compare.json"


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Run directories, or scenarios.")],
    profile: Annotated[str | None, typer.Option(help="For scenarios: goes before their own.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For scenarios.  [default: 1]")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="For scenarios: set in all. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print simcap.comparison/1 instead of tables.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write compare.json into this directory.")] = None,
) -> None:
    """Compare each later RUN with the first: changes with 95 % intervals, and which are more than chance."""
    if len(runs) < 2:
        raise InputError("compare needs two runs or more: simcap compare runs/a runs/b")
    are_runs = [Path(run).is_dir() for run in runs]
    if any(are_runs) and not all(are_runs):
        raise InputError(
            f"{runs[are_runs.index(True)]} is a directory and {runs[are_runs.index(False)]} is not: "
            "give run directories only, or scenarios only"
        )
    _check_out(out)
    if all(are_runs):
        if profile is not None or seed is not None or overrides:
            raise InputError("--profile, --seed and --set are for scenarios; finished runs are compared as they are")
        comparison = _finished(runs)
    else:
        comparison = _scenarios(runs, profile, 1 if seed is None else seed, tuple(overrides or ()), shown=not as_json)
    if out is not None:
        _write(comparison, out)
    _say(comparison, out, as_json=as_json)


def _finished(runs: list[str]) -> Comparison:
    """Finished runs, unpaired: result.json holds intervals, not replications."""
    from simcap import compare as comparing

    results = [_read(Path(run)) for run in runs]
    found = comparing.of_results(_names(runs), results)
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


def _scenarios(
    names: list[str], profile: str | None, seed: int, overrides: tuple[str, ...], *, shown: bool
) -> Comparison:
    """Scenarios, run here with common random numbers and compared replication by replication."""
    from scenarios import loader
    from simcap import compare as comparing
    from simcap import replications
    from simcap.commands.run import _profile_for, _progress

    wanted = [loader.load(name, overrides) for name in names]
    known = [_profile_for(scenario, profile)[0] for scenario in wanted]
    samples: list[Sample] = []
    for name, scenario, each in zip(_names(names), wanted, known, strict=True):
        with _progress(name, shown=shown) as progress:
            samples.append(replications.sample(name, scenario, each, seed, progress))
    found = comparing.of_samples(samples)
    others = {s.slo for s in wanted[1:]} - {wanted[0].slo}
    notes = ("The scenarios promise different SLOs: each is held to its own.",) if others else ()
    return found.model_copy(update={"notes": notes})


def _names(given: list[str]) -> list[str]:
    """The last part of each path where these tell them apart, else the paths as given."""
    short = [Path(name).stem if Path(name).suffix in {".yaml", ".yml"} else Path(name).name or name for name in given]
    return short if len(set(short)) == len(short) else list(given)


def _check_out(out: Path | None) -> None:
    if out is None or not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"--out {out}: exists and is not a directory; choose another")
    if any(path.name != FILE for path in out.iterdir()):
        raise InputError(f"--out {out}: holds files that simcap compare did not write; choose another")


def _text(comparison: Comparison) -> str:
    return json.dumps(comparison.model_dump(mode="json", by_alias=True), indent=1, allow_nan=False) + "\n"


def _write(comparison: Comparison, out: Path) -> None:
    """compare.json, whole or not at all."""
    from profiles.store import write_whole

    write_whole(out / FILE, _text(comparison).encode())


def _say(comparison: Comparison, out: Path | None, *, as_json: bool) -> None:
    from rich.console import Console

    from simcap.report import comparison as said

    if as_json:
        typer.echo(_text(comparison), nl=False)
        return
    console = Console(highlight=False, markup=False, emoji=False)
    for other in comparison.others:
        console.print(said.headline(comparison, other), style="bold")
        console.print(said.table(other))
        console.print()
    console.print(said.legend(comparison))
    for note in comparison.notes:
        console.print(f"note: {note}")
    if out is not None:
        console.print(f"results: {out / FILE}", soft_wrap=True)
