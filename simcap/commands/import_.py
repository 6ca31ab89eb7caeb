"""`simcap import fleet-sim|router`: files of other tools as scenarios.

Enters: a fleet-sim workload, trace or fleet file, or a configuration of the router; a base scenario for what the file does
not say. Leaves: a scenario file that validates, and on stdout what to know about it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import InputError
from simcap.screen import Json

if TYPE_CHECKING:
    from scenarios.schema import Scenario

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Turn a fleet-sim file or a router configuration into a scenario.",
)

Out = Annotated[Path, typer.Option("--out", help="Scenario file to write.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Changes the base. Repeatable.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


@app.command("fleet-sim")
def fleet_sim(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CDF, trace (CSV, JSONL) or fleet file.")],
    out: Out,
    base: Annotated[str, typer.Option(metavar="SCENARIO", help="Says node, signals, stages and SLO.")],
    rps: Annotated[str | None, typer.Option(metavar="R1,R2,…", help="Load points for a CDF or a fleet.")] = None,
    rate_scale: Annotated[
        str | None, typer.Option(metavar="S1,S2,…", help="For a trace: its own rate times this.")
    ] = None,
    prompt_share: Annotated[float, typer.Option(help="Share of a length that is the prompt, as in fleet-sim.")] = 0.8,
    min_tokens: Annotated[int, typer.Option(min=1, help="Shortest prompt of a CDF.")] = 1,
    like: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Take the signals of this class of the base.")
    ] = None,
    overrides: Overrides = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Lengths and arrivals of fleet-sim as the traffic of a scenario."""
    from scenarios import loader
    from simcap.fleet_sim import read

    _free(out, force)
    trace = read.kind_of(file) == "trace"
    if trace and rps is not None:
        raise InputError("--rps: a trace has its own rate; --rate-scale 2 replays it twice as fast")
    if not trace and rate_scale is not None:
        raise InputError("--rate-scale: only a trace has a rate of its own; give --rps")
    if not 0 < prompt_share <= 1:
        raise InputError(f"--prompt-share {prompt_share:g}: expected a share above 0 and at most 1")
    rates = _numbers("--rate-scale", rate_scale) if trace else _numbers("--rps", rps)
    wanted = read.Wanted(loader.load(base, overrides or ()), rates, prompt_share, min_tokens, like)
    found = read.read(file, wanted, out)
    head = [f"Traffic from {file.name} (fleet-sim {found.kind}), the rest from scenario {wanted.base.name}."]
    _write(out, head, found.scenario)
    _say(out, found.notes, as_json)


def _free(out: Path, force: bool) -> None:
    if out.is_dir() or (out.exists() and not force):
        raise InputError(f"--out {out}: exists; choose another name, or --force to replace a file")


def _numbers(flag: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{flag} {text}: expected numbers with commas between them, as in 5,10,20") from None


def _write(out: Path, head: list[str], scenario: Scenario) -> None:
    from profiles.store import write_whole
    from simcap.rundir import scenario_yaml

    text = "".join(f"# {line}\n" for line in head) + scenario_yaml(scenario)
    write_whole(out, text.encode())


def _say(out: Path, notes: tuple[str, ...], as_json: bool) -> None:
    """Where the scenario is, what to know, and whether its profile can answer it as it stands."""
    from profiles import store
    from scenarios import loader
    from simcap import screen

    scenario = loader.load(str(out))
    told = list(notes)
    if scenario.profile is not None:
        try:
            loader.bind(scenario, store.load(scenario.profile))
        except InputError as error:
            told.append(f"it does not run on profile {scenario.profile} yet: {error}")
    if as_json:
        screen.print_json({"scenario": str(out), "notes": told})
        return
    typer.echo(f"{out}")
    for note in told:
        screen.print_wrapped(f"note: {note}")


@app.command("router")
def router(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The router's own configuration (YAML, v0.3).")],
    out: Out,
    base: Annotated[str, typer.Option(metavar="SCENARIO", help="Says node, router CPU, requests, load and SLO.")],
    profile: Annotated[str, typer.Option(metavar="PROFILE", help="Name or path; has the models' service times.")],
    recipe: Annotated[
        str | None, typer.Option(help="One of its recipes. [default: all that a request can reach]")
    ] = None,
    gpu_provider: Annotated[str | None, typer.Option(metavar="NAME", help="For models with use_cpu: false.")] = None,
    artifact: Annotated[str | None, typer.Option(help="Where the profile has several of a model.")] = None,
    stand_in: Annotated[
        list[str] | None, typer.Option(metavar="MODEL=OTHER", help="OTHER of the profile is used for MODEL.")
    ] = None,
    overrides: Overrides = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """The learned signals that a router configuration uses, as a scenario; what it does not say is marked."""
    from profiles import store
    from profiles.store import write_whole
    from scenarios import loader
    from simcap import screen
    from simcap.router_config import document, scenario

    _free(out, force)
    choices = scenario.Choices(profile, recipe, gpu_provider, artifact, _pairs(stand_in or []))
    made = scenario.scenario_of(document.load(config), loader.load(base, overrides or ()), store.load(profile), choices)
    write_whole(out, made.text.encode())
    loader.load(str(out))
    if as_json:
        found = {
            "signals": list(made.found.inferences),
            "heuristics": {kind: list(names) for kind, names in sorted(made.found.heuristics.items())},
            "elsewhere": list(made.found.elsewhere),
        }
        screen.print_json({"scenario": str(out), **found, "missing": list(made.missing)})
        return
    typer.echo(f"{out}")
    screen.print_wrapped(f"learned signals: {', '.join(made.found.inferences)}")
    heuristics = ", ".join(f"{kind} ({len(names)})" for kind, names in sorted(made.found.heuristics.items()))
    screen.print_wrapped(f"heuristics, router CPU only: {heuristics or 'none'}")
    for text in made.found.elsewhere:
        screen.print_wrapped(f"not in the router: {text}")
    for text in made.missing:
        screen.print_wrapped(f"the file does not say: {text}")


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = dict(text.partition("=")[::2] for text in given)
    if not all(key and value for key, value in pairs.items()):
        raise InputError(
            f"--stand-in {' '.join(given)}: expected MODEL=OTHER, as in mmbert32k-modality=mmbert32k-intent"
        )
    return pairs
