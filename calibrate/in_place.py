"""Calibrate a scenario's models in their place and cadence: all sessions loaded, whole requests, through its own pool.

A cell measured alone in a process of its own is too fast for a node where other models take turns on the same caches, and
inferences spaced one by one are too cold for a node where a request brings several at once. So here requests that need every signal,
their token counts drawn from a grid in random order, are played by the live host: `tight`, by one client more than inferences
run at full speed, so that no core idles; `paced`, as Poisson arrivals that keep the cores busy for 1 / (1 + `gap_over_service`)
of the time. Random order also spreads the machine's drift over all cells alike. Enters: scenario, host, token counts,
seconds of traffic. Leaves: a `Profile` with both surfaces, and the sentinel's times, by which a later run knows whether the
machine is as fast as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from calibrate.fit import figure, law
from calibrate.live import Host, Hosted, Load, Played
from calibrate.machine import Machine
from calibrate.results import RuntimeRecord
from profiles.entry import Cell, Entry, OccupancyPoint, Provider, Surface
from profiles.schema import Device, Profile, Sentinel
from profiles.schema import Host as HostModel
from scenarios.schema import Scenario

Cadence = Literal["tight", "paced"]

PILOT = 40  # requests, only to learn how many come a second
LEAST_SAMPLES = 7  # a cell, whatever the budget; six give the median an interval, and warm-up may take one
WARM_UP = 0.05  # share of a play that is left out at its start
LIMIT = 4.0  # a play is given up after so many times its expected length, and a minute


@dataclass(frozen=True)
class InPlace:
    """What is measured and how long. seconds: of traffic, for each cadence."""

    tokens: Sequence[int]
    seconds: float
    seed: int
    gap_over_service: float = 1.5


def measure(
    scenario: Scenario, host: Host, wanted: InPlace, parallel: int, say: Callable[[str], None]
) -> dict[Cadence, Played]:
    """Play both cadences. parallel: inferences that run at full speed at once."""
    rng = np.random.default_rng([wanted.seed, 11])
    signals, counts = len(scenario.signals), np.array(wanted.tokens, dtype=np.int64)

    def load(n: int, rate: float | None = None) -> Load:
        """Every token count equally often, in random order."""
        tokens = np.repeat(rng.permutation(counts[np.arange(n) % counts.size])[:, None], signals, axis=1)
        needed = np.ones((n, signals), dtype=bool)
        if rate is None:
            return Load(needed, tokens, np.zeros(n), parallel + 1)
        return Load(needed, tokens, np.cumsum(rng.exponential(1 / rate, n)))

    say("how long a request takes")
    pilot = host.play(load(max(PILOT, counts.size)), 120.0)
    rate = pilot.answered.size / float(pilot.answered.max() - pilot.arrived.min())
    plays: dict[Cadence, Played] = {}
    for cadence in ("tight", "paced"):
        own = None if cadence == "tight" else rate / (1 + wanted.gap_over_service)
        n = max(int(wanted.seconds * (own or rate)), LEAST_SAMPLES * counts.size)
        say(f"{n} requests, {cadence}")
        plays[cadence] = host.play(load(n, own), LIMIT * wanted.seconds + 60)
    return plays


def own_seconds(played: Played, *, shared: bool) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(n, S) seconds of each inference's own work: end - start; where more threads than cores can run, and a session has one
    thread, its CPU time, since end - start holds the waiting for a core then.
    """
    return np.asarray(played.cpu_s if shared else played.ended - played.started)


def profile_of(
    scenario: Scenario,
    hosted: Mapping[str, Hosted],
    plays: Mapping[Cadence, Played],
    *,
    name: str,
    machine: Machine,
    device: Device,
    runtime: RuntimeRecord,
    simcap: str,
    gap_over_service: float,
    shared: bool,
) -> Profile:
    """The profile of what was played. Signals that share a model share its samples."""
    models: dict[tuple[str, str, str], list[int]] = {}
    for s, signal in enumerate(scenario.signals.values()):
        models.setdefault((signal.model, signal.artifact, signal.provider), []).append(s)
    return Profile(
        schema="simcap.profile/1",
        name=name,
        description=f"Measured in place on {machine.cpu}: all sessions of scenario {scenario.name} loaded, requests in random order.",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        device=device,
        host=HostModel(cpu=machine.cpu, cores=machine.cores, memory_bytes=machine.memory_bytes, os=machine.os),
        software={
            "simcap": simcap,
            "kernel": machine.kernel,
            "python": runtime.python,
            "numpy": runtime.numpy,
            "onnxruntime": runtime.onnxruntime,
        },
        sentinel=_sentinel(hosted[next(iter(scenario.signals))], plays),
        notes=(
            "token ids are random; weights of models from the zoo are random (time and memory do not depend on either)",
            f"measured in place: {scenario.name}; paced: Poisson arrivals that keep the cores busy for {1 / (1 + gap_over_service):.0%}",
            _drift(plays),
        ),
        entries=tuple(_entry(scenario, hosted, plays, rows, machine.cores, shared=shared) for rows in models.values()),
    )


def _entry(
    scenario: Scenario,
    hosted: Mapping[str, Hosted],
    plays: Mapping[Cadence, Played],
    rows: Sequence[int],
    cores: int,
    *,
    shared: bool,
) -> Entry:
    name = list(scenario.signals)[rows[0]]
    signal, behind = scenario.signals[name], hosted[name]
    service, paced = (_surface(cadence, plays[cadence], rows, shared=shared) for cadence in ("tight", "paced"))
    share = behind.threads / cores
    return Entry(
        model=signal.model,
        artifact=signal.artifact,
        provider=Provider(name=signal.provider, options=dict(behind.options), threads=behind.threads),
        task=behind.artifact.task,
        digest=behind.artifact.digest,
        service=service,
        paced_service=paced,
        occupancy=tuple(
            OccupancyPoint(
                tokens=cell.tokens,
                value=share,
                origin="modeled",
                doubt=f"threads / cores = {behind.threads} / {cores}; service times were measured with every core at work",
            )
            for cell in service.cells
        ),
    )


def _surface(cadence: Cadence, played: Played, rows: Sequence[int], *, shared: bool) -> Surface:
    seconds, tokens = own_seconds(played, shared=shared), played.load.tokens
    skip = int(WARM_UP * len(seconds))
    cells = []
    for t in np.unique(tokens).tolist():
        found = np.concatenate(
            [seconds[skip:, s][played.load.needed[skip:, s] & (tokens[skip:, s] == t)] for s in rows]
        )
        if found.size >= 2:
            cells.append(Cell(tokens=t, **law(found.tolist())))
    return Surface(cadence=cadence, cells=tuple(cells))


def _sentinel(hosted: Hosted, plays: Mapping[Cadence, Played]) -> Sentinel:
    looks = [look for played in plays.values() for look in played.record.sentinels]
    during = {cadence: figure([ns / 1e9 for ns in played.record.pulses]) for cadence, played in plays.items()}
    return Sentinel(
        model=hosted.artifact.model,
        artifact=hosted.artifact.artifact,
        tokens=int(min(played.load.tokens.min() for played in plays.values())),
        threads=hosted.threads,
        alone_s=figure([ns / 1e9 for look in looks for ns in look.alone]),
        together_s=figure([ns / 1e9 for look in looks for ns in look.together]),
        tight_s=during["tight"],
        paced_s=during["paced"],
    )


def _drift(plays: Mapping[Cadence, Played]) -> str:
    medians = [float(np.median(look.alone)) / 1e6 for played in plays.values() for look in played.record.sentinels]
    spread = (max(medians) - min(medians)) / float(np.median(medians))
    return f"sentinel: medians {', '.join(f'{m:.3g}' for m in medians)} ms in order, spread {spread:.1%}"
