"""`simcap calibrate --scenario S`: from what a person asked for to the profile that was measured in place.

Enters: an `InPlaceRequest`. Leaves: a `Profile`, saved whole or not at all. Wrong input and a missing runtime are errors
before anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calibrate.artifacts import Artifact, OwnModel, from_file, from_zoo
from calibrate.checks import profile_name
from calibrate.environments import interpreters
from calibrate.gpus import device_of
from calibrate.in_place import InPlace, measure, profile_of
from calibrate.launch import Launch
from calibrate.live import Host, Hosted, check_playable
from calibrate.machine import machine, simcap_version
from calibrate.model_zoo.cache import cache_directory
from calibrate.results import RuntimeRecord
from calibrate.runtimes import probe
from calibrate.scheduling import measure as scheduling_of
from profiles import store
from profiles.entry import ProviderName
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.schema import Scenario
from scenarios.threads import most_threads
from scenarios.workload import FromTrace

GRID = 7  # token counts, geometric between the shortest and the longest text


@dataclass(frozen=True)
class InPlaceRequest:
    """own: the user's files, for models that the zoo does not have. threads: of each session. tokens: none takes GRID
    counts over what the scenario draws. budget_s: seconds of traffic in all.
    """

    scenario: Scenario
    own: Sequence[OwnModel]
    tokens: Sequence[int]
    threads: int
    budget_s: float
    seed: int
    out: Path
    cache: Path = field(default_factory=lambda: cache_directory(None))
    runtimes: Mapping[ProviderName, Path] = field(default_factory=dict)
    options: Mapping[ProviderName, Mapping[str, str]] = field(default_factory=dict)


def carry_out(
    request: InPlaceRequest, launcher: Callable[[Path | None], Launch], say: Callable[[str], None]
) -> Profile:
    """Measure and save."""
    scenario, name = request.scenario, profile_name(request.out)
    check_playable(scenario)
    tokens = list(request.tokens) or token_grid(scenario)
    launch, runtime = runtime_of(scenario, request.cache, request.runtimes, launcher)
    here = machine()
    hosted = hosted_of(
        scenario,
        request.own,
        request.cache,
        request.seed,
        launch,
        dict.fromkeys(scenario.signals, request.threads),
        request.options,
    )
    host = Host(
        scenario,
        hosted,
        launch,
        sentinel=(hosted[next(iter(scenario.signals))], min(tokens)),
        width=max(here.cores // request.threads, 1),
        seed=request.seed,
    )
    wanted = InPlace(tokens, request.budget_s / 2, request.seed)
    at_once = most_threads(scenario, dict.fromkeys(scenario.signals, request.threads))
    shared = at_once > here.cores
    if shared and request.threads > 1:
        raise InputError(
            f"--threads {request.threads}: {at_once} threads can run at once on {here.cores} cores, and what each inference's own "
            "work is cannot be told apart then; give --threads 1, or let fewer through at once (lock_domains.*.width, sessions)"
        )
    plays = measure(scenario, host, wanted, max(min(at_once, here.cores) // request.threads, 1), say)
    scheduling = None
    if shared:
        say("how the system deals out cores among more threads")
        first = host.session(next(iter(scenario.signals)))
        scheduling = scheduling_of(first | {"tokens": max(tokens), "batch": 1}, here.cores, launch)
    profile = profile_of(
        scenario,
        hosted,
        plays,
        name=name,
        machine=here,
        device=device_of("cpu", here, None).model_copy(update={"scheduling": scheduling}),
        runtime=runtime,
        simcap=simcap_version(),
        gap_over_service=wanted.gap_over_service,
        shared=shared,
    )
    store.save(profile, request.out)
    return profile


def runtime_of(
    scenario: Scenario,
    cache: Path,
    chosen: Mapping[ProviderName, Path],
    launcher: Callable[[Path | None], Launch],
) -> tuple[Launch, RuntimeRecord]:
    """The one runtime that hosts all signals: two builds of ONNX Runtime do not fit into one process."""
    providers = {signal.provider for signal in scenario.signals.values()}
    if len(providers) > 1:
        raise InputError(
            f"signals of {', '.join(sorted(providers))} cannot be hosted together: each has a runtime of its own"
        )
    provider = providers.pop()
    launch = launcher(interpreters([provider], cache, dict(chosen))[provider])
    return launch, probe(launch, provider)


def hosted_of(
    scenario: Scenario,
    own: Sequence[OwnModel],
    cache: Path,
    seed: int,
    launch: Launch,
    threads: Mapping[str, int],
    options: Mapping[ProviderName, Mapping[str, str]],
) -> dict[str, Hosted]:
    """The file behind each signal: the user's where it is named, else the zoo's. threads: by signal."""
    files: dict[tuple[str, str], Artifact] = {}
    mine = {o.model: o for o in own}
    for signal in scenario.signals.values():
        key = signal.model, signal.artifact
        if key not in files:
            found = mine.get(signal.model)
            files[key] = from_file(found, launch) if found else from_zoo(signal.model, cache, seed, signal.artifact)
    return {
        name: Hosted(files[s.model, s.artifact], threads[name], options.get(s.provider, {}))
        for name, s in scenario.signals.items()
    }


def token_grid(scenario: Scenario) -> list[int]:
    """GRID token counts, geometric over what one inference of the scenario can see; the ends are in it."""
    laws = [kind.tokens for kind in scenario.classes.values()]
    if any(isinstance(law, FromTrace) for law in laws):
        raise InputError("--tokens: lengths come from a trace; say which token counts to measure")
    los, his = zip(
        *(
            signal.processed_range(*law.support)
            for signal in scenario.signals.values()
            for law in laws
            if not isinstance(law, FromTrace)
        ),
        strict=True,
    )
    return sorted({round(t) for t in np.geomspace(min(los), max(his), GRID).tolist()})
