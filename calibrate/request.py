"""What a person asked for, from the first check to the written profile.

Enters: a `Request`. Leaves: a `Finished` calibration, its profile saved whole or not at all. Wrong input and missing
hardware or runtime are errors before anything is measured; cells that failed or fell back are findings of a run that
went on, unless the request is strict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from calibrate.artifacts import Artifact, OwnModel, from_file, from_zoo
from calibrate.assemble import Run, failures, profile_of
from calibrate.bench import Bench
from calibrate.beside import Cpu, measure_beside
from calibrate.checks import check
from calibrate.custom_ops import try_library
from calibrate.drift import GATES
from calibrate.environments import interpreters
from calibrate.gpus import Search, device_of, memory_of
from calibrate.journal import Journal
from calibrate.launch import Launch
from calibrate.machine import Machine, machine, simcap_version
from calibrate.plan import Library, PlannedCell, cells_of
from calibrate.precision import options_of, with_precisions
from calibrate.provider_options import Known, ask
from calibrate.results import RuntimeRecord
from calibrate.run import Progress, Rules, Runner
from calibrate.runtimes import probe
from calibrate.stability import Drift, drift_of
from calibrate.strict import insist
from profiles import store
from profiles.entry import ProviderName
from profiles.errors import FindingError, MeasurementError
from profiles.schema import Profile

Launcher = Callable[[Path | None], Launch]
"""From an interpreter (None: our own) to what starts workers in it."""


@dataclass(frozen=True)
class Request:
    """The matrix and how to measure it.

    models: names of the zoo; own: the user's files; out: where the profile goes; gpu: device of the catalog, found by
    `search` (None for `cpu`); runtimes: interpreters that the person chose; options: by provider; gates: least values;
    widths: how many inferences at once, besides one alone (none: not measured); artifacts: of each model of the zoo;
    libraries: of custom operators, by provider; precisions: that providers convert each artifact to, besides as it is.
    """

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
    gpu: str = "cpu"
    search: Search | None = None
    runtimes: Mapping[ProviderName, Path] = field(default_factory=dict)
    options: Mapping[ProviderName, Mapping[str, str]] = field(default_factory=dict)
    gates: Mapping[str, float] = field(default_factory=lambda: dict(GATES))
    strict: bool = False
    widths: Sequence[int] = ()
    artifacts: Sequence[str] = ("fp32",)
    libraries: Mapping[ProviderName, Library] = field(default_factory=dict)
    precisions: Sequence[str] = ()


@dataclass(frozen=True)
class Finished:
    """resumed: visits that an interrupted run had left and that were not measured again."""

    profile: Profile
    failures: tuple[str, ...]
    drift: Drift | None
    resumed: int


@dataclass(frozen=True)
class _Set:
    """Launchers, versions and options, by provider."""

    launches: Mapping[ProviderName, Launch]
    runtimes: Mapping[ProviderName, RuntimeRecord]
    known: Mapping[ProviderName, Known]


def carry_out(request: Request, launcher: Launcher, report: Callable[[Progress], None]) -> Finished:
    """Measure, resuming what an interrupted run of the same request left, and save the profile."""
    providers, name = check(request)
    runtimes = _set_up(request, providers, launcher)
    as_they_are = _artifacts(request, runtimes.launches, report)
    artifacts, notes = with_precisions(as_they_are, request.precisions, runtimes.known)
    options = {p: k.options for p, k in runtimes.known.items()}
    cells = cells_of(artifacts, providers, request.tokens, request.batches, request.threads, options, request.libraries)
    by_name = {(a.model, a.artifact): a for a in artifacts}
    if request.strict:
        insist(cells, by_name, runtimes.launches, request.rules.cell_limit_s, request.seed)
    here, version = machine(), simcap_version()
    journal = Journal(request.out, _identity(request, cells, runtimes, here, version))
    resumed = len(journal.visits)

    def say(doing: str) -> None:
        report(Progress(len(cells), len(cells), doing, None))

    bench = Bench(by_name, runtimes.launches, journal, request.rules.cell_limit_s, request.seed, say)
    runner = Runner(cells, request.rules, bench, report, memory_of(request.search))
    runner.run()
    notes += measure_beside(request, cells, bench, Cpu.of(request, launcher))
    drift = drift_of(runner.sentinel.label, journal.visits)
    run = Run(
        cells=cells,
        artifacts=by_name,
        visits=journal.visits,
        rules=request.rules,
        machine=here,
        runtimes=runtimes.runtimes,
        known=runtimes.known,
        gates=request.gates,
        device=device_of(request.gpu, here, request.search),
        drift=drift,
        simcap=version,
        extra_notes=notes,
    )
    profile = profile_of(run, name, datetime.now(UTC).isoformat(timespec="seconds"))
    told = failures(run)
    if not profile.entries or (request.strict and any(e.ownership and e.ownership.fell_back for e in profile.entries)):
        journal.remove()
        kind = FindingError if profile.entries else MeasurementError
        raise kind(f"{'--strict' if profile.entries else 'no cell could be measured'}:\n" + "\n".join(told))
    store.save(profile, request.out)
    journal.remove()
    return Finished(profile, tuple(told), drift, resumed)


def _set_up(request: Request, providers: list[ProviderName], launcher: Launcher) -> _Set:
    """Find each provider's runtime and ask it what it has and knows, before anything is built."""
    pythons = interpreters(providers, request.cache, dict(request.runtimes))
    launches = {p: launcher(python) for p, python in pythons.items()}
    runtimes = {p: probe(launch, p) for p, launch in launches.items()}
    for provider, library in request.libraries.items():
        try_library(provider, library, launches[provider])
    known = {
        p: ask(p, launch, request.threads, request.options.get(p, {}), options_of(p, request.precisions))
        for p, launch in launches.items()
    }
    return _Set(launches, runtimes, known)


def _identity(
    request: Request, cells: Sequence[PlannedCell], runtimes: _Set, here: Machine, version: str
) -> dict[str, object]:
    return {
        "cells": sorted(c.key for c in cells),
        "rules": request.rules.identity(),
        "seed": request.seed,
        "widths": sorted(request.widths),
        "runtimes": {p: r.model_dump(mode="json") for p, r in runtimes.runtimes.items()},
        "machine": [here.cpu, here.cores, here.kernel],
        "simcap": version,
    }


def _artifacts(
    request: Request, launches: Mapping[ProviderName, Launch], report: Callable[[Progress], None]
) -> list[Artifact]:
    """The files. A file of the user's is looked at with the library of custom operators, where there is one."""
    found: list[Artifact] = []
    total = len(request.models) * len(request.artifacts) + len(request.own)
    for own in request.own:
        report(Progress(len(found), total, f"looking at {own.path.name}", request.rules.budget_s))
        for provider, library in request.libraries.items():
            found.append(from_file(own, launches[provider], provider, library.path))
            break
        else:
            found.append(from_file(own, next(iter(launches.values()))))
    for name, artifact in product(request.models, request.artifacts):
        report(Progress(len(found), total, f"building {name} {artifact}", request.rules.budget_s))
        found.append(from_zoo(name, request.cache, request.seed, artifact))
    return found
