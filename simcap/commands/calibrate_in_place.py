"""`simcap calibrate --scenario S`: measure a scenario's models together, through its own pool.

Enters: the flags that this way of measuring has. Leaves: the profile file, its table on stdout, what is being done on stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from profiles.errors import InputError

if TYPE_CHECKING:
    from calibrate.artifacts import OwnModel


TAKEN = {"scenario", "gpu", "model", "tokens", "runtime", "threads", "budget", "out", "cache", "seed", "plan"}


def refuse_others(ctx: typer.Context) -> None:
    """InputError for flags that say what the scenario says, so that none is dropped in silence."""
    given = [n for n in ctx.params if n not in TAKEN and (s := ctx.get_parameter_source(n)) and s.name != "DEFAULT"]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"--scenario says which models are measured and how; leave out {flags}")


def in_place(
    scenario: str,
    gpu: str,
    own: Sequence[OwnModel],
    budget_s: float,
    out: Path,
    cache: Path | None,
    seed: int,
    runtime: Sequence[str],
    *,
    tokens: Sequence[int],
    threads: int | None,
) -> None:
    """Measure and print."""
    from calibrate.environments import parse_runtime
    from calibrate.in_place_request import InPlaceRequest, carry_out
    from calibrate.launch import WorkerLauncher
    from calibrate.machine import available_cores
    from calibrate.model_zoo.cache import cache_directory
    from scenarios import loader
    from simcap.calibrated import rows_of
    from simcap.screen import print_table, print_wrapped

    if gpu != "cpu":
        raise InputError(f"--scenario measures in place on --gpu cpu only, found --gpu {gpu}")
    request = InPlaceRequest(
        scenario=loader.load(scenario),
        own=own,
        tokens=tokens,
        threads=threads or available_cores(),
        budget_s=budget_s,
        seed=seed,
        out=out,
        cache=cache_directory(cache),
        runtimes=dict(parse_runtime(argument) for argument in runtime),
    )
    profile = carry_out(request, WorkerLauncher, lambda doing: typer.echo(doing, err=True))
    columns = ("tokens", "batch", "cadence", "p50 ms", "95 % of p50", "p95 ms", "p99 ms", "n")
    for entry in profile.entries:
        typer.echo(entry.key)
        print_table(columns, rows_of(entry), right=[c for c in columns if c != "cadence"])
    print_wrapped(profile.notes[-1])
    typer.echo(f"profile: {out}")
