"""`simcap doctor`: one screen that says what this machine can measure, and what is missing for the rest.

Enters: nothing, or providers that the person needs. Leaves: text on stdout. Exit code 3 when something needed is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from profiles.errors import InputError, UnavailableError, nearest
from simcap.screen import Json, print_json

if TYPE_CHECKING:
    from calibrate.doctor import Diagnosis


def doctor(
    need: Annotated[str, typer.Option(metavar="A,B", help="Providers that must load; exit code 3 otherwise.")] = "",
    runtime: Annotated[list[str] | None, typer.Option(metavar="PROVIDER=PYTHON", help="An interpreter to ask.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where runtimes stay. [default: ~/.cache/simcap]")] = None,
    as_json: Json = False,
) -> None:
    """Say which GPUs, versions and runtimes are here, which providers load, and what to do about the others."""
    from calibrate.doctor import diagnose
    from calibrate.environments import parse_runtime
    from calibrate.gpus import search
    from calibrate.launch import WorkerLauncher
    from calibrate.machine import ROOT
    from calibrate.model_zoo.cache import cache_directory
    from calibrate.runtimes import EXECUTION_PROVIDERS

    needed = [word.strip() for word in need.split(",") if word.strip()]
    for name in needed:
        if name not in EXECUTION_PROVIDERS:
            raise InputError(f"--need: no provider {name!r}; {nearest(name, EXECUTION_PROVIDERS)}")
    chosen = dict(parse_runtime(argument) for argument in runtime or [])
    found = diagnose(search(), ROOT, cache_directory(cache), chosen, WorkerLauncher)
    if as_json:
        print_json(_told(found))
    else:
        _say(found)
    if lacking := found.lacking(needed):
        listed = "\n".join(f"{p.provider}: {p.reason}; {p.remedy}" for p in lacking)
        raise UnavailableError(f"needed and not usable here: {', '.join(p.provider for p in lacking)}\n{listed}")


def _told(found: Diagnosis) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "devices": [
            {**asdict(b.first), "devices": len(b.devices), "memory_bytes": b.memory_bytes}
            for b in found.search.boards()
        ],
        "looked": [asdict(look) for look in found.search.looks],
        "rocm": found.rocm,
        "migraphx": found.migraphx,
        "providers": [asdict(p) for p in found.providers],
    }


def _say(found: Diagnosis) -> None:
    from simcap.screen import print_wrapped

    boards = found.search.boards()
    typer.echo("devices" if boards else "devices: no GPU")
    for board in boards:
        print_wrapped(f"  {board.told()}")
    print_wrapped(found.search.told())
    typer.echo(f"ROCm: {found.rocm or 'not in /opt/rocm'}; MIGraphX: {found.migraphx or 'not in /opt/rocm'}")
    typer.echo("providers")
    for p in found.providers:
        print_wrapped(f"  {p.provider}: {p.state} ({p.where}; {p.versions})")
        if p.reason:
            print_wrapped(f"    why: {p.reason}")
            print_wrapped(f"    do:  {p.remedy}")
