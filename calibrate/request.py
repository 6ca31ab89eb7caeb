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
from statistics import median

from calibrate.artifacts import Artifact, OwnModel, from_file, from_zoo
from calibrate.assemble import Run, failures, profile_of
from calibrate.checks import check
from calibrate.compiling import measure_compiles, shapes_to_compile
from calibrate.concurrency import measure_concurrency
from calibrate.drift import GATES, Reference, measure_drift
from calibrate.environments import interpreters
from calibrate.fit import pooled
from calibrate.gpus import Search, device_of
from calibrate.journal import Journal
from calibrate.launch import Launch
from calibrate.machine import Machine, machine, simcap_version
from calibrate.ownership import verdict_of
from calibrate.plan import PlannedCell, cells_of
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
    widths: how many inferences at once, besides one alone (none: not measured); artifacts: of each model of the zoo.
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
    artifacts = _artifacts(request, next(iter(runtimes.launches.values())), report)
    options = {p: k.options for p, k in runtimes.known.items()}
    cells = cells_of(artifacts, providers, request.tokens, request.batches, request.threads, options)
    by_name = {(a.model, a.artifact): a for a in artifacts}
    if request.strict:
        insist(cells, by_name, runtimes.launches, request.rules.cell_limit_s, request.seed)
    here, version = machine(), simcap_version()
    journal = Journal(request.out, _identity(request, cells, runtimes, here, version))
    resumed = len(journal.visits)
    runner = Runner(
        cells, by_name, request.rules, request.seed, runtimes.launches, journal, report, _memory_file(request)
    )
    runner.run()
    extra = _beside(request, cells, by_name, runtimes, launcher, journal, report)
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
        extra_notes=extra,
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
    known = {p: ask(p, launch, request.threads, request.options.get(p, {})) for p, launch in launches.items()}
    return _Set(launches, runtimes, known)


def _memory_file(request: Request) -> Path | None:
    """Amdgpu's count of bytes in use; None without a card in sysfs, or with several, whose order providers do not tell."""
    cards = [g for g in request.search.gpus if g.place.startswith("/sys/class/drm")] if request.search else []
    if len(cards) != 1 or cards[0].used_bytes is None:
        return None
    return Path(cards[0].place) / "device" / "mem_info_vram_used"


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


def _beside(
    request: Request,
    cells: Sequence[PlannedCell],
    artifacts: Mapping[tuple[str, str], Artifact],
    runtimes: _Set,
    launcher: Launcher,
    journal: Journal,
    report: Callable[[Progress], None],
) -> list[str]:
    """Compile times, several at once, and drift, of cells that their provider ran; returns notes."""

    def say(doing: str) -> None:
        report(Progress(len(cells), len(cells), doing, 0.0))

    ran = [c for c in cells if (v := verdict_of(c, journal.visits)) is None or v.word != "fell_back"]
    limit, seed = request.rules.cell_limit_s, request.seed
    measure_compiles(shapes_to_compile(ran), artifacts, runtimes.launches, journal, limit, seed, say)
    if request.widths:
        ends = [c for c in _ends(ran) if pooled(journal.visits, c.key, request.rules.cadences[0])]
        alone = {c.key: median(pooled(journal.visits, c.key, request.rules.cadences[0])) for c in ends}
        measure_concurrency(ends, request.widths, alone, artifacts, runtimes.launches, journal, limit, seed, say)
    compared = {key: _compared_with(artifact, request) for key, artifact in artifacts.items()}
    # on the CPU a model is its own reference, unless another artifact of it is
    candidates = [c for c in ran if c.provider != "cpu" or compared[c.model, c.artifact].digest != c.digest]
    if not candidates:
        return []
    python = interpreters(["cpu"], request.cache, dict(request.runtimes))["cpu"]
    reference = launcher(python)
    try:
        version = probe(reference, "cpu").onnxruntime
    except Exception as error:  # any reason not to have a reference is told; drift is then not measured
        return [f"drift was not measured, for want of a CPU reference: {error}"]
    references = {
        key: Reference(artifact, reference, f"{artifact.artifact} on cpu (ONNX Runtime {version})")
        for key, artifact in compared.items()
    }
    measure_drift(_ends(candidates), artifacts, references, runtimes.launches, journal, limit, seed, say)
    return []


def _compared_with(artifact: Artifact, request: Request) -> Artifact:
    """What drift is measured against: the fp32 artifact where the zoo has one, otherwise the user's own file itself."""
    zoo = artifact.model in request.models and artifact.artifact in request.artifacts
    return from_zoo(artifact.model, request.cache, request.seed) if zoo and artifact.artifact != "fp32" else artifact


def _ends(cells: Sequence[PlannedCell]) -> list[PlannedCell]:
    """The shortest and the longest text of each entry, at its smallest batch."""
    chosen: list[PlannedCell] = []
    for entry in dict.fromkeys(c.entry for c in cells):
        own = sorted((c for c in cells if c.entry == entry), key=lambda c: (c.batch, c.tokens))
        own = [c for c in own if c.batch == own[0].batch]
        chosen += dict.fromkeys((own[0], own[-1]))
    return chosen


def _artifacts(request: Request, launch: Launch, report: Callable[[Progress], None]) -> list[Artifact]:
    found: list[Artifact] = []
    total = len(request.models) * len(request.artifacts) + len(request.own)
    for own in request.own:
        report(Progress(len(found), total, f"looking at {own.path.name}", request.rules.budget_s))
        found.append(from_file(own, launch))
    for name, artifact in product(request.models, request.artifacts):
        report(Progress(len(found), total, f"building {name} {artifact}", request.rules.budget_s))
        found.append(from_zoo(name, request.cache, request.seed, artifact))
    return found
