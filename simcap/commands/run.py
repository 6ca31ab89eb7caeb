"""`simcap run`: replay a scenario on a profile and say how much load keeps the promise.

Enters: a scenario and a profile by name or path, a seed. Leaves: the run directory (`simcap.rundir`) and, on stdout, the
curve as a table or the result as JSON. Errors are raised for `simcap.cli` to print.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from profiles.errors import FindingError, InputError, SimcapError

if TYPE_CHECKING:
    from profiles.schema import Profile
    from scenarios.schema import Scenario
    from scenarios.traces import TraceRows
    from sim.engine import Choice
    from sim.result import Result
    from simcap.rundir import Command, Run, Table
    from simcap.trace import TraceFile

INTERRUPTED = 5  # as in simcap.cli

Progress = Callable[[int, int], None]


class Engine(Enum):
    """What runs the node; `auto` takes compiled code where it covers the scenario and is worth its start."""

    auto = "auto"
    simpy = "simpy"
    compiled = "compiled"


class Uncertainty(Enum):
    """What intervals cover: the simulation, or calibration as well."""

    full = "full"
    simulation = "simulation"


def run(
    scenario: Annotated[str, typer.Argument(help="Name of a shipped scenario, or a path.")],
    profile: Annotated[str | None, typer.Option(help="Name or path; goes before the scenario's own.")] = None,
    out: Annotated[Path | None, typer.Option(help="[default: runs/SCENARIO-PROFILE-seedN]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bytes.")] = 1,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Repeatable.")] = None,
    cost_per_hour: Annotated[float | None, typer.Option(metavar="USD", help="Of the node, for fleet-sim.")] = None,
    requests_parquet: Annotated[bool, typer.Option("--requests-parquet", help="Also write every request.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json instead of the table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the capacity sentence only.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="No report.html and no plots.")] = False,
    engine: Annotated[Engine, typer.Option(help="Same figures; compiled is faster, simpy does all.")] = Engine.auto,
    uncertainty: Annotated[
        Uncertainty, typer.Option(help="What intervals cover: simulation, or calibration as well.")
    ] = Uncertainty.full,
    traced: Annotated[bool, typer.Option("--trace", help="Also write trace.json, for Perfetto's viewer.")] = False,
    trace_requests: Annotated[int, typer.Option(min=1, help="How many requests --trace tells.")] = 100,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at most.  [default: one a core]")] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Dask cluster instead.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a stale profile; see profiles age.")] = False,
    vary: Annotated[
        list[str] | None, typer.Option("--vary", metavar="KEY=V1,V2,…", help="Compare all values. Repeatable.")
    ] = None,
) -> None:
    """Replay SCENARIO: how much load keeps the promise, and what breaks first."""
    from scenarios import loader
    from simcap import rundir

    given = tuple(overrides or ())
    if vary:
        _only_compared(
            {
                "--cost-per-hour": cost_per_hour,
                "--requests-parquet": requests_parquet,
                "--quiet": quiet,
                "--trace": traced,
                "--strict": strict,
            },
            engine,
        )
        _compare(
            scenario,
            tuple(vary),
            given,
            profile,
            seed,
            out,
            page=not no_report,
            workers=workers,
            dask=dask,
            as_json=as_json,
        )
        return
    wanted = loader.load(scenario, given)
    known, profile_name = _profile_for(wanted, profile)
    wanted = wanted.model_copy(update={"profile": profile_name})
    trace = loader.read_trace(wanted)  # once: it can have millions of rows
    loader.bind(wanted, known, trace=trace)
    aged = age_note(known, strict=strict)
    asked = (scenario, profile_name, seed, given, _cost(cost_per_hour), requests_parquet, not no_report)
    command = rundir.Command(*asked, uncertainty=uncertainty.value, trace=trace_requests if traced else None)
    target = out or rundir.default_target(wanted.name, known.name, command)
    rundir.check_target(target, rundir.identity(wanted.name, known.name, command))
    chosen = _engine_for(wanted, known, seed, engine, trace)
    journal = target.with_name(f".{target.name}.finished")
    how = {"trace": trace, "engine": chosen.engine, "workers": workers or _cores(), "dask": dask, "journal": journal}
    how["uncertainty"] = uncertainty.value
    with _stoppable(journal), _progress(wanted.name, shown=not (quiet or as_json)) as progress:
        result, records = _simulate(wanted, known, seed, progress, keep_records=requests_parquet, **how)
    files = (loader.locate(scenario), _profile_file(profile_name))
    steps = _trace(wanted, known, result, command, trace) if traced else None
    done = rundir.Run(command, wanted, *files, result, records, (chosen.engine, chosen.why), steps)
    try:
        notes = rundir.write(done, target)
    except OSError as error:  # a full disk
        from simcap.comparing import unwritten

        raise SimcapError(unwritten(target, error)) from None
    shutil.rmtree(journal, ignore_errors=True)
    _say(done, target, [*notes, *aged], as_json=as_json, quiet=quiet)


def _only_compared(flags: dict[str, Any], engine: Engine) -> None:
    """InputError for flags of a single run beside --vary."""
    given = [flag for flag, value in flags.items() if value not in {None, False}]
    if engine is not Engine.auto:
        given.append("--engine")
    if given:
        raise InputError(f"{given[0]} does not go with --vary, which compares variants; leave one of them out")


def _compare(
    scenario: str, vary: tuple[str, ...], overrides: tuple[str, ...], profile: str | None, seed: int, out: Path | None,
    *, page: bool, workers: int | None, dask: str | None, as_json: bool
) -> None:  # fmt: skip
    """`simcap run --vary`: as `simcap compare SCENARIO --vary`, into a directory of its own."""
    from scenarios import loader
    from simcap import comparing
    from simcap.commands.compare import run_variants

    ask = comparing.Ask((scenario,), vary, overrides, profile, seed, page)
    if out is None:
        out = ask.default_target(_profile_for(loader.load(scenario, overrides), profile)[0].name)
    comparing.check_out(out)
    run_variants(ask, out, workers=workers, dask=dask, as_json=as_json)


def _profile_for(scenario: Scenario, flag: str | None) -> tuple[Profile, str]:
    from profiles import store

    name = flag or scenario.profile
    if name is None:
        raise InputError(
            f"scenario {scenario.name} names no profile and --profile is not given; "
            f"shipped profiles: {', '.join(store.shipped_names()) or '(none)'}"
        )
    return store.load(name), name


def _trace(scenario: Scenario, profile: Profile, result: Result, command: Command, rows: TraceRows | None) -> TraceFile:
    """The first replication with the profile as stated, at the highest load that passed (or the lowest tried)."""
    from sim.engine import run_once
    from simcap.trace import trace_of

    load = result.capacity.lo if result.capacity.lo is not None else result.points[0].load
    records = run_once(scenario, profile, command.seed, load, 0, rows)
    about: dict[str, str | int | float] = {
        "scenario": scenario.name,
        "profile": profile.name,
        "load": load,
        "load_kind": result.capacity.load_kind,
    }
    return trace_of(records, tuple(scenario.classes), command.trace or 1, {**about, "seed": command.seed})


def age_note(profile: Profile, *, strict: bool) -> list[str]:
    """What to say of a profile that was measured on another machine or another state of this one; FindingError if `strict`."""
    from profiles.schema import origins

    if "measured" not in origins(profile):
        return []
    from calibrate.age import age_of

    age = age_of(profile)
    if strict and age.word == "stale":
        raise FindingError(age.sentence(profile.name))
    return [age.sentence(profile.name)] if age.word in {"stale", "elsewhere"} else []


def _profile_file(name: str) -> Path:
    from profiles import store

    return store.locate(name)


def _cost(cost_per_hour: float | None) -> float | None:
    if cost_per_hour is not None and not 0 <= cost_per_hour < float("inf"):
        raise InputError(f"--cost-per-hour {cost_per_hour}: expected USD an hour, zero or more")
    return cost_per_hour


def _engine_for(scenario: Scenario, profile: Profile, seed: int, asked: Engine, trace: TraceRows | None) -> Choice:
    from sim import replicate

    return replicate.engine_for(scenario, profile, seed, asked.value, trace)


def _cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _simulate(
    scenario: Scenario, profile: Profile, seed: int, progress: Progress | None, *, keep_records: bool, **how: Any
) -> tuple[Result, Sequence[tuple[float, int, Table]]]:
    """`how`: trace, engine, workers, dask and journal of `replicate.run`, which change no figure, and uncertainty."""
    from sim import replicate

    return replicate.run(scenario, profile, seed, progress=progress, keep_records=keep_records, **how)


@contextmanager
def _stoppable(journal: Path | None) -> Iterator[None]:
    """Ctrl-C ends the command with what is finished kept, and says so."""
    try:
        yield
    except KeyboardInterrupt:
        from sim.journal import kept

        if journal is None or not (parts := kept(journal)):
            raise
        typer.echo(f"interrupted: {parts} finished parts are kept; the same command goes on from them", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _progress(what: str, *, shown: bool) -> Iterator[Progress | None]:
    """A bar with the time left on stderr, where stderr is a terminal; otherwise nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _say(run: Run, target: Path, notes: list[str], *, as_json: bool, quiet: bool) -> None:
    from rich.console import Console

    from simcap import rundir, table
    from simcap.report import words

    if as_json:
        typer.echo(rundir.result_json(run.result).decode(), nl=False)
        return
    result = run.result
    console = Console(highlight=False, markup=False, emoji=False)
    if quiet:
        console.print(result.capacity.sentence)
        return
    console.print(table.curve_table(result))
    console.print(table.legend(result))
    console.print()
    console.print(result.capacity.sentence, style="bold")
    console.print(words.origins_line(result))
    for line in words.uncertainty_lines(result.uncertainty):
        console.print(line)
    for note in notes if run.command.report else (*result.notes, *notes):
        console.print(f"note: {note}")
    if run.command.report:
        said = f" ({len(result.notes)} notes there to read before you rely on it)" if result.notes else ""
        console.print(f"report: {target / 'report.html'}{said}", soft_wrap=True)
    else:
        console.print(f"results: {target}", soft_wrap=True)
