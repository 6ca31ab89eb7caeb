"""`simcap strategy`: the provider-strategy document of a profile.

Enters: a profile and scenarios by name or path. Leaves: a directory with `strategy.md`, `strategy.html` and
`strategy.json` (`simcap.strategy/1`), whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from profiles.schema import Profile
    from scenarios.schema import Scenario

USUAL = ("highconc", "longctx", "cpu_small")
"""Workloads asked about when none is named: those of them that the profile covers."""


def strategy(
    profile: Annotated[str, typer.Argument(help="Name of a shipped profile, or a path.")],
    out: Annotated[Path, typer.Option(help="The directory to write.")],
    scenario: Annotated[list[str] | None, typer.Option(help="Workload, name or path. Repeatable.")] = None,
    slo: Annotated[
        str | None, typer.Option(metavar="PXX=TIME", help="As p99=250ms; goes before the scenarios'.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bytes.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print simcap.strategy/1 instead of sentences.")] = False,
) -> None:
    """Write which providers to use on PROFILE's machine, in which order, and what would change that."""
    import json

    from profiles import store
    from simcap.commands.capacity import slo_overrides
    from simcap.documents import folder, html
    from simcap.strategy import document, trials
    from simcap.strategy.model import Strategy

    folder.check(out, "strategy")
    known, file = store.load(profile), store.locate(profile)
    wanted = _workloads(known, tuple(scenario or ()), slo_overrides(slo, None))
    shown = profile if profile in store.shipped_names() else file.name
    slo_flags = "".join(f" --set {override}" for override in slo_overrides(slo, None))
    works = tuple(
        trials.work_out(each, known, seed, lambda what: typer.echo(what, err=True), (f"{name}{slo_flags}", shown))
        for name, each in wanted.items()
    )
    found = Strategy(profile=known.name, seed=seed, workloads=works)
    command = document.command_line(shown, tuple(wanted), slo, seed, out.name)
    text = document.markdown(found, known, file, command)
    page = html.page(text, f"Provider strategy: {known.name}", "provider strategy", {})
    data = json.dumps(found.model_dump(mode="json", by_alias=True), indent=1, allow_nan=False) + "\n"
    folder.write(
        out, "strategy", {"strategy.md": text.encode(), "strategy.html": page.encode(), "strategy.json": data.encode()}
    )
    if as_json:
        typer.echo(data, nl=False)
        return
    for work in works:
        typer.echo(f"{work.scenario}: {' > '.join(work.recommended) or 'no provider keeps the promise'}")
    typer.echo(f"strategy: {out / 'strategy.html'}")


def _workloads(profile: Profile, names: tuple[str, ...], overrides: list[str]) -> dict[str, Scenario]:
    """The scenarios by the name they were asked for with. InputError: none is named and no usual one fits."""
    from profiles.errors import InputError
    from scenarios import loader
    from simcap.strategy.orders import possible

    if names:
        return {name: loader.load(name, overrides) for name in names}
    found = {}
    for name in USUAL:
        scenario = loader.load(name, overrides)
        try:
            lines, _ = possible(scenario, profile)
        except InputError:
            continue
        if lines:
            found[name] = scenario
    if not found:
        raise InputError(
            f"profile {profile.name} covers none of the usual workloads ({', '.join(USUAL)}): name one with --scenario"
        )
    return found
