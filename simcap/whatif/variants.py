"""The standard variants of a scenario: each removes or relaxes one thing, and says whose thing it is.

Enters: a scenario as it would run, and its profile. Leaves: `Variant`s, only those for things that the scenario has. A
variant is a list of `--set` overrides, so that a reader can run it alone, or a factor on every service time of the profile
(`service_factor`) for what no key of a scenario says. `owner`: who could make it so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from profiles.entry import Entry
from profiles.schema import Profile
from scenarios.loader import entries_of
from scenarios.node import Choice, Signal
from scenarios.schema import Scenario
from scenarios.workload import FromTrace

Owner = Literal["router CPU", "binding lock", "inference engine", "GPU", "memory", "co-tenant", "storage", "whole node"]

FASTER = 0.8
"""Factor on service times of the variant that asks what an inference engine faster by a fifth is worth."""


FEW_SIGNALS = 4
"""Up to so many signals each one's sessions are doubled by themselves; with more, only all of them together."""


@dataclass(frozen=True)
class Variant:
    """One thing changed. `refused`: why it could not be simulated; then it has no overrides."""

    title: str
    owner: Owner
    overrides: tuple[str, ...] = ()
    service_factor: float = 1.0
    refused: str | None = None


def standard(scenario: Scenario, profile: Profile) -> list[Variant]:
    """All of them, in the order of their owners."""
    return [
        *_router(scenario, profile),
        *_locks(scenario),
        *_sessions(scenario),
        *_engine(scenario),
        *_programs(scenario, profile),
        *_providers(scenario),
        *_memory(scenario),
        *_co_tenants(scenario),
        *_hardware(scenario),
    ]


def _router(scenario: Scenario, profile: Profile) -> Iterator[Variant]:
    workers = scenario.node.cpu_workers
    yield Variant("one more router CPU worker", "router CPU", (f"node.cpu_workers={workers + 1}",))
    yield Variant("twice the router CPU workers", "router CPU", (f"node.cpu_workers={2 * workers}",))
    cpu = scenario.router.cpu
    if cpu != "from_profile":
        base, per_token = cpu.base_s, cpu.per_token_s
    elif profile.router is not None:
        base, per_token = profile.router.base_s.value, profile.router.per_token_s.value
    else:
        return
    if base or per_token:
        halved = f"router.cpu={{base_s: {base / 2!r}, per_token_s: {per_token / 2!r}}}"
        yield Variant("router CPU work halved", "router CPU", (halved,))


def _locks(scenario: Scenario) -> Iterator[Variant]:
    held = {
        domain: [name for name, signal in scenario.signals.items() if signal.lock_domain == domain]
        for domain in scenario.lock_domains
    }
    held = {domain: names for domain, names in held.items() if names}
    for domain, names in held.items():
        overrides = tuple(f"signals.{name}.lock_domain=null" for name in names)
        yield Variant(f"without the lock {domain}", "binding lock", overrides)
    if len(held) > 1:
        every = tuple(f"signals.{name}.lock_domain=null" for names in held.values() for name in names)
        yield Variant("without any lock", "binding lock", every)


def _sessions(scenario: Scenario) -> Iterator[Variant]:
    few = scenario.signals.items() if len(scenario.signals) <= FEW_SIGNALS else ()
    for name, signal in few:
        twice = (f"signals.{name}.sessions={2 * signal.sessions}",)
        yield Variant(f"twice the sessions of {name}", "inference engine", twice)
    if len(scenario.signals) > 1:
        every = tuple(f"signals.{name}.sessions={2 * signal.sessions}" for name, signal in scenario.signals.items())
        yield Variant("twice the sessions of every signal", "inference engine", every)


def _engine(scenario: Scenario) -> Iterator[Variant]:
    yield Variant("every inference a fifth faster", "inference engine", service_factor=FASTER)
    for name, signal in scenario.signals.items():
        if signal.batching:
            twice = (f"signals.{name}.batching.max_batch={2 * signal.batching.max_batch}",)
            yield Variant(f"batches of {name} twice as large", "inference engine", twice)


def _programs(scenario: Scenario, profile: Profile) -> Iterator[Variant]:
    """What compiling per shape costs: a map of programs, warm-up before traffic, a warm cache, a bucket."""
    compiled = [(path, signal, choice) for path, signal, choice in _choices(scenario) if choice.compile]
    one = [f"{path}.compile.programs=map" for path, _, choice in compiled if choice.compile.programs == "one"]  # type: ignore[union-attr]  # filtered above
    if one:
        yield Variant("a program for each shape kept by every session", "inference engine", tuple(one))
    shapes = {path: signal.buckets for path, signal, _ in compiled}
    cold = [
        f"{path}.compile.warmup_tokens={list(buckets)}"
        for path, signal, choice in compiled
        if (buckets := shapes[path]) and choice.compile and tuple(choice.compile.warmup_tokens) != buckets
    ]
    if cold:
        yield Variant("every shape compiled before traffic", "inference engine", tuple(cold))
    yield from _warm_cache(scenario, profile)
    for name, signal in scenario.signals.items():
        longest = _longest(scenario, name)
        if signal.compile and not signal.buckets and not signal.windows and longest:
            one_shape = (f"signals.{name}.buckets=[{longest}]",)
            yield Variant(f"texts of {name} padded to one shape", "inference engine", one_shape)


def _warm_cache(scenario: Scenario, profile: Profile) -> Iterator[Variant]:
    entries = entries_of(scenario, profile)
    overrides: list[str] = []
    for name, signal in scenario.signals.items():
        for path, choice in _choices_of(name, signal):
            if choice.compile is None or choice.compile.disk_cache == "warm":
                continue
            if choice.compile.cached_load_s is None and not _has_warm(entries[name][choice.provider, choice.artifact]):
                why = f"nobody measured how long a cached program loads; state it: --set {path}.compile.cached_load_s=…"
                yield Variant("a warm compile cache on disk", "storage", refused=why)
                return
            overrides.append(f"{path}.compile.disk_cache=warm")
    if overrides:
        yield Variant("a warm compile cache on disk", "storage", tuple(overrides))


def _has_warm(entry: Entry) -> bool:
    return entry.compile is not None and any(cell.cache == "warm" for cell in entry.compile.cells)


def _providers(scenario: Scenario) -> Iterator[Variant]:
    """Each signal's second provider first and its first one second; a first one that is off stays off."""
    overrides: list[str] = []
    for name, signal in scenario.signals.items():
        if signal.fallbacks:
            second, keys = signal.fallbacks[0], ("artifact", "provider", "compile", "failure_probability", "available")
            overrides += [f"signals.{name}.{key}={_yaml(getattr(second, key))}" for key in keys]
            overrides += [f"signals.{name}.fallbacks.0.{key}={_yaml(getattr(signal, key))}" for key in keys]
    if overrides:
        yield Variant("the next provider first", "inference engine", tuple(overrides))


def _memory(scenario: Scenario) -> Iterator[Variant]:
    memory = scenario.node.memory
    if memory is None:
        return
    if memory.session_cap is not None:
        yield Variant("no memory cap on a session", "memory", ("node.memory.session_cap=null",))
    if memory.arena.shrink == "never":
        yield Variant("arenas that give back after each run", "memory", ("node.memory.arena.shrink=after_run",))


def _co_tenants(scenario: Scenario) -> Iterator[Variant]:
    for place, tenant in enumerate(scenario.node.co_tenants):
        if tenant.compute:
            yield Variant(f"{tenant.name} takes no compute", "co-tenant", (f"node.co_tenants.{place}.compute=0",))
        if tenant.memory_bytes:
            yield Variant(f"{tenant.name} holds no memory", "co-tenant", (f"node.co_tenants.{place}.memory_bytes=0",))
    if len(scenario.node.co_tenants) > 1:
        yield Variant("no co-tenant", "co-tenant", ("node.co_tenants=[]",))


def _hardware(scenario: Scenario) -> Iterator[Variant]:
    if any(choice.device == "gpu" for _, _, choice in _choices(scenario)):
        gpus = scenario.node.gpus
        yield Variant("one more GPU in the node", "GPU", (f"node.gpus={gpus + 1}",))
    yield Variant("one more router node", "whole node", (f"replicas.count={scenario.replicas.count + 1}",))


def _choices(scenario: Scenario) -> list[tuple[str, Signal, Choice]]:
    return [
        (path, signal, choice)
        for name, signal in scenario.signals.items()
        for path, choice in _choices_of(name, signal)
    ]


def _choices_of(name: str, signal: Signal) -> Iterable[tuple[str, Choice]]:
    """Each step of a provider order, and where it stands in the file."""
    yield f"signals.{name}", signal
    for place, choice in enumerate(signal.fallbacks):
        yield f"signals.{name}.fallbacks.{place}", choice


def _longest(scenario: Scenario, name: str) -> int | None:
    """Tokens of the longest inference of a signal; None where a trace decides."""
    kinds = [kind for kind in scenario.classes.values() if kind.signals == "all" or name in kind.signals]
    if not kinds or any(isinstance(kind.tokens, FromTrace) for kind in kinds):
        return None
    longest = max(kind.tokens.support[1] for kind in kinds)  # type: ignore[union-attr]  # FromTrace has none, and left
    return scenario.signals[name].processed_range(longest, longest)[1]


def _yaml(value: object) -> str:
    """A value as one line of YAML."""
    return json.dumps(value.model_dump(mode="json") if isinstance(value, BaseModel) else value)
