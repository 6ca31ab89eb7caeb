"""What a person asked for, from the first check to the written profile.

Enters: a `Request`. Leaves: a `Finished` calibration, its profile saved whole or not at all. Wrong input and missing
hardware or runtime are errors before anything is measured; cells that failed are findings of a run that went on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from calibrate.artifacts import Artifact, OwnModel, from_file, from_zoo
from calibrate.assemble import Run, failures, profile_of
from calibrate.gpus import search
from calibrate.journal import Journal
from calibrate.launch import Launch
from calibrate.machine import ROOT, available_cores, machine, simcap_version
from calibrate.model_zoo.architecture import spec_of
from calibrate.plan import cells_of
from calibrate.run import Progress, Rules, Runner
from calibrate.runtimes import EXECUTION_PROVIDERS, probe
from calibrate.stability import Drift, drift_of
from profiles import store
from profiles.errors import InputError, MeasurementError, UnavailableError, nearest
from profiles.schema import Profile, ProviderName

MEASURED_PROVIDERS: tuple[ProviderName, ...] = ("cpu",)
"""Providers that this version knows how to measure."""


@dataclass(frozen=True)
class Request:
    """The matrix and how to measure it. models: names of the zoo; own: the user's files; out: where the profile goes."""

    models: Sequence[str]
    own: Sequence[OwnModel]
    providers: Sequence[str]
    tokens: Sequence[int]
    batches: Sequence[int]
    threads: int
    rules: Rules
    seed: int
    cache: Path
    out: Path


@dataclass(frozen=True)
class Finished:
    """resumed: visits that an interrupted run had left and that were not measured again."""

    profile: Profile
    failures: tuple[str, ...]
    drift: Drift | None
    resumed: int


def check_device(gpu: str, known: Sequence[str], root: Path = ROOT) -> None:
    """Return for `cpu`; otherwise say what is wrong with the name, or where we looked for the device."""
    if gpu not in known:
        raise InputError(f"--gpu {gpu!r}: no such device in the hardware catalog; {nearest(gpu, known)}")
    if gpu == "cpu":
        return
    found = search(root)
    what = "found a GPU, but this version of simcap measures the cpu provider only" if found.gpus else "found no GPU"
    raise UnavailableError(
        f"cannot measure {gpu} here: {what}\n{found.told()}\nmeasure on a machine with it, or use --gpu cpu here"
    )


def carry_out(request: Request, launch: Launch, report: Callable[[Progress], None]) -> Finished:
    """Measure, resuming what an interrupted run of the same request left, and save the profile."""
    providers = _check(request)
    runtime = next(probe(launch, provider) for provider in providers)
    artifacts = _artifacts(request, launch, report)
    cells = cells_of(artifacts, providers, request.tokens, request.batches, request.threads)
    by_name = {(a.model, a.artifact): a for a in artifacts}
    here, version = machine(), simcap_version()
    identity = {
        "cells": sorted(c.key for c in cells),
        "rules": request.rules.identity(),
        "seed": request.seed,
        "runtime": runtime.model_dump(mode="json"),
        "machine": [here.cpu, here.cores, here.kernel],
        "simcap": version,
    }
    journal = Journal(request.out, identity)
    resumed = len(journal.visits)
    runner = Runner(cells, by_name, request.rules, request.seed, launch, journal, report)
    runner.run()
    drift = drift_of(runner.sentinel.label, journal.visits)
    run = Run(cells, by_name, journal.visits, request.rules, here, runtime, drift, version)
    profile = profile_of(run, profile_name(request.out), datetime.now(UTC).isoformat(timespec="seconds"))
    told = failures(run)
    if not profile.entries:
        journal.remove()
        raise MeasurementError("no cell could be measured:\n" + "\n".join(told))
    store.save(profile, request.out)
    journal.remove()
    return Finished(profile, tuple(told), drift, resumed)


def profile_name(out: Path) -> str:
    """The profile's name, after its file: `node-7.profile.json` is `node-7`."""
    stem = out.name.removesuffix(".json").removesuffix(".profile").lower()
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in stem).lstrip("._-")
    if not name:
        raise InputError(f"--out {out}: the profile is named after this file; it needs a letter or a digit")
    return name


def _check(request: Request) -> list[ProviderName]:
    for name in request.providers:
        if name not in EXECUTION_PROVIDERS:
            raise InputError(f"--providers: no provider {name!r}; {nearest(name, EXECUTION_PROVIDERS)}")
        if name not in MEASURED_PROVIDERS:
            raise UnavailableError(
                f"--providers {name}: this version of simcap measures {', '.join(MEASURED_PROVIDERS)} only"
            )
    if request.threads > available_cores():
        raise InputError(
            f"--threads {request.threads}: this process may use {available_cores()} cores, and more threads than cores "
            "measure the scheduler"
        )
    if request.out.is_dir():
        raise InputError(
            f"--out {request.out}: is a directory; name a file, such as {request.out / 'cpu.profile.json'}"
        )
    profile_name(request.out)
    names = [*request.models, *(o.model for o in request.own)]
    for name in request.models:
        spec_of(name, request.seed)
    if not names:
        raise InputError("nothing to measure: name models with --models or --model")
    pairs = [*((m, "fp32") for m in request.models), *((o.model, o.path.stem) for o in request.own)]
    for pair in pairs:
        if pairs.count(pair) > 1:
            raise InputError(f"model {pair[0]!r} as artifact {pair[1]!r} is asked for twice")
    return [p for p in MEASURED_PROVIDERS if p in request.providers]


def _artifacts(request: Request, launch: Launch, report: Callable[[Progress], None]) -> list[Artifact]:
    found: list[Artifact] = []
    total = len(request.models) + len(request.own)
    for own in request.own:
        report(Progress(len(found), total, f"looking at {own.path.name}", request.rules.budget_s))
        found.append(from_file(own, launch))
    for name in request.models:
        report(Progress(len(found), total, f"building {name}", request.rules.budget_s))
        found.append(from_zoo(name, request.cache, request.seed))
    return found
