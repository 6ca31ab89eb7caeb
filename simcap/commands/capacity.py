"""`simcap capacity`: search for the highest load that keeps the SLO, or for the least of something that a load needs.

Enters: a scenario and a profile by name or path, a seed, the SLO, how precise. Leaves: the sentence, the loads that were
tried and the origins on stdout, or `simcap.capacity/1` as JSON; with `--out` a directory with `capacity.json`, the
resolved scenario and a manifest. Exit code 4 when there is no answer as asked: indeterminate or unreachable.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import InputError
from simcap.commands.run import Uncertainty

if TYPE_CHECKING:
    from profiles.schema import Profile
    from scenarios.schema import Scenario
    from sim.search_result import CapacitySearch, SearchPoint
    from sim.search_runs import Options, Progress

NO_ANSWER = 4
SLO_TEXT = re.compile(r"p(?P<percent>\d+(?:\.\d+)?)\s*=\s*(?P<time>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)")
SLO_FORM = "expected pNN=TIME with the unit ms or s, as in p99=250ms or p99.9=1.5s"
AT_UNITS = {"rps": ("rps",), "clients": ("clients",), "burst_size": ("burst_size",), "rate_scale": ("x", "rate_scale")}


def capacity(
    scenario: Annotated[str, typer.Argument(help="Name of a shipped scenario, or a path.")],
    profile: Annotated[str | None, typer.Option(help="Name or path; goes before the scenario's own.")] = None,
    slo: Annotated[str | None, typer.Option(metavar="pNN=TIME", help="p99=250ms: 99 % within 250 ms.")] = None,
    attainment: Annotated[float | None, typer.Option(metavar="SHARE", help="Share of requests in time: 0.99.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same answer.")] = 1,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Repeatable.")] = None,
    precision: Annotated[float, typer.Option(help="Half width of the 95 % interval, relative.")] = 0.03,
    max_effort: Annotated[int, typer.Option(metavar="REQUESTS", help="Simulated at most, all together.")] = 5_000_000,
    over: Annotated[str | None, typer.Option(metavar="KEY=V1,V2,…", help="Search this key (a..b counts up).")] = None,
    at: Annotated[str | None, typer.Option(metavar="LOAD", help="The load for --over: 40 or 40rps.")] = None,
    uncertainty: Annotated[
        Uncertainty, typer.Option(help="What the interval covers: simulation, or calibration as well.")
    ] = Uncertainty.full,
    as_json: Annotated[bool, typer.Option("--json", help="Print simcap.capacity/1 instead of text.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write a directory with capacity.json.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at most.  [default: one a core]")] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Dask cluster instead.")] = None,
) -> None:
    """Find the highest load that keeps the SLO, or (--over, --at) the least that a load needs."""
    from profiles import store
    from scenarios import loader
    from sim import search_runs
    from simcap.capacity_files import Target
    from simcap.commands.run import _cores, _profile_for, _progress

    options = search_runs.Options(
        _precision(precision), _effort(max_effort), uncertainty.value, workers or _cores(), dask
    )
    given = (*(overrides or ()), *slo_overrides(slo, attainment))
    wanted = loader.load(scenario, given)
    known, profile_name = _profile_for(wanted, profile)
    wanted = wanted.model_copy(update={"profile": profile_name})
    search = _search_over(over, at, lambda override: loader.load(scenario, (*given, override)), wanted)
    asked = {"precision": precision, "max_effort": max_effort, "over": over, "at": at}
    if uncertainty is not Uncertainty.full:
        asked["uncertainty"] = uncertainty.value
    again = command_line(scenario, profile_name, seed, given, asked)
    files = (loader.locate(scenario), store.locate(profile_name))
    target = Target(out, wanted, known.name, seed, given, again, asked, files) if out is not None else None
    with _progress(wanted.name, shown=not as_json) as progress:
        result = search(known, seed, options, progress)
    if target is not None:
        target.write(result)
    _say(result, out, as_json=as_json)
    if result.outcome in {"indeterminate", "unreachable"}:
        raise typer.Exit(NO_ANSWER)


def _search_over(
    over: str | None, at: str | None, load_with: Callable[[str], Scenario], wanted: Scenario
) -> Callable[[Profile, int, Options, Progress | None], CapacitySearch]:
    """The search that the flags ask for: over load, or over the values of a key at one load. Raises InputError."""
    from sim import search_over, search_runs
    from simcap.variants import values_of

    if over is None and at is None:
        return partial(search_runs.capacity, wanted)
    if over is None or at is None:
        raise InputError("--over and --at go together: --over signals.intent.sessions=1,2,4 --at 40rps")
    key, values = values_of(over, "--over")
    variants = [(value, load_with(f"{key}={value}")) for value in values]
    return partial(search_over.smallest, key, variants, load_at(at, wanted))


def slo_overrides(slo: str | None, attainment: float | None) -> list[str]:
    """The scenario overrides that `--slo` and `--attainment` stand for. Raises InputError."""
    if attainment is not None and not 0 < attainment < 1:
        raise InputError(f"--attainment {attainment:g}: expected a share between 0 and 1, as in 0.99")
    if slo is None:
        return [] if attainment is None else [f"slo.attainment={attainment!r}"]
    match = SLO_TEXT.fullmatch(slo.strip())
    if match is None:
        raise InputError(f"--slo {slo!r}: {SLO_FORM}")
    share = float(f"{float(match['percent']) / 100:.12g}")
    milliseconds = float(match["time"]) * (1000 if match["unit"] == "s" else 1)
    if not 0 < share < 1:
        raise InputError(f"--slo {slo!r}: p{match['percent']} is no percentile between p0 and p100; {SLO_FORM}")
    if milliseconds <= 0:
        raise InputError(f"--slo {slo!r}: the time must be above 0; {SLO_FORM}")
    if attainment is not None and abs(attainment - share) > 1e-9:
        raise InputError(
            f"--attainment {attainment:g} contradicts --slo {slo!r}, which asks for {share:g}; give one of them, or equal ones"
        )
    return [f"slo.latency_ms={milliseconds!r}", f"slo.attainment={share!r}"]


def command_line(
    scenario: str, profile: str, seed: int, overrides: Sequence[str], asked: Mapping[str, float | str | None]
) -> str:
    """The command that gives the same answer again, quoted for a shell; the SLO stands among the overrides."""
    parts = ["simcap", "capacity", scenario, "--profile", profile, "--seed", str(seed)]
    for override in overrides:
        parts += ["--set", override]
    for flag, value in asked.items():
        if value is not None:
            parts += [f"--{flag.replace('_', '-')}", str(value)]
    return shlex.join(parts)


def load_at(text: str, scenario: Scenario) -> float:
    """`40` or `40rps` as a load of the scenario's kind. Raises InputError."""
    kind = scenario.load.kind
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z_]*)\s*", text)
    if match is None or not float(match[1]):
        raise InputError(f"--at {text!r}: expected a load above 0, as in 40 or 40{AT_UNITS[kind][0]}")
    if match[2] and match[2] not in AT_UNITS[kind]:
        raise InputError(
            f"--at {text!r}: the load of scenario {scenario.name} is {kind}; write {match[1]}{AT_UNITS[kind][0]}"
        )
    load = float(match[1])
    if kind in {"clients", "burst_size"} and load != int(load):
        raise InputError(f"--at {text!r}: {kind} is a whole number")
    return load


def _precision(precision: float) -> float:
    if not 0.001 <= precision <= 0.5:
        raise InputError(f"--precision {precision:g}: expected a relative half width from 0.001 to 0.5, as in 0.03")
    return precision


def _effort(max_effort: int) -> int:
    if max_effort < 1000:
        raise InputError(f"--max-effort {max_effort}: expected a number of requests, at least 1000")
    return max_effort


def _say(result: CapacitySearch, out: Path | None, *, as_json: bool) -> None:
    from rich.console import Console

    from simcap.report import words

    if as_json:
        typer.echo(result.model_dump_json(by_alias=True, indent=1))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(result.sentence, style="bold")
    console.print()
    console.print(_table(result))
    if result.precision_reached is not None:
        reached = f"±{100 * result.precision_reached:.2g} % of capacity reached, "
    else:
        reached = ""
    console.print(f"{reached}{result.requests_simulated:,} requests simulated; intervals are 95 %")
    for line in words.uncertainty_lines(result.uncertainty):
        console.print(line)
    counts = ", ".join(f"{result.profile_origins.get(origin, 0)} {origin}" for origin in words.ORIGINS)
    console.print(f"profile {result.profile}: {counts}")
    for note in result.notes:
        console.print(f"note: {note}")
    if out is not None:
        console.print(f"results: {out / 'capacity.json'}", soft_wrap=True)


def _table(result: CapacitySearch) -> object:
    """The loads or values tried, for a terminal of 80 columns."""
    from rich.table import Table
    from rich.text import Text

    from sim.search_result import figure
    from simcap.report import words
    from simcap.table import VERDICT_STYLES, VERDICT_WORDS

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    late = f"p{100 * result.slo.attainment:.6g}\nms"
    rows: list[tuple[str, SearchPoint]] = [(figure(point.load), point) for point in result.points]
    if result.over is not None:
        rows = [(tried.value, tried.point) for tried in result.over.tried]
        table.add_column(result.over.key.rpartition(".")[2], overflow="fold", max_width=16)
    else:
        table.add_column(f"load\n{result.load_kind}", justify="right")
    for heading in ("runs ×\nrequests", "within\nSLO %", late):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fullest", overflow="fold")
    table.add_column("\nverdict", no_wrap=True)
    for name, point in rows:
        used = point.utilisation[point.bottleneck].mean or 0.0
        table.add_row(
            name,
            f"{point.replications} × {point.requests}",
            words.percent_interval(point.slo_attainment),
            words.ABSENT if point.slo_percentile_s is None else words.short(1000 * point.slo_percentile_s),
            Text(f"{words.resource(point.bottleneck)} {100 * used:.0f} %"),
            Text(VERDICT_WORDS[point.verdict], style=VERDICT_STYLES[point.verdict]),
        )
    return table
