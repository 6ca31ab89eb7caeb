"""Merge repeated runs: profiles of one machine, one software and the same artifacts become one.

Enters: profiles, each measured by one run or merged before. Leaves: one profile. Laws and figures are pooled by
`calibrate.pooling`; of drift, node ownership and compile caches the worst is kept; a cell that its provider did not run in
one of the runs is in no surface, and outputs that a gate rejected in one of them leave the entry without service times. A
cell that only some runs have is kept with those. Refused, naming the first key that differs: other device, host, software,
provider options, task or digest; the same run twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, TypeVar

from calibrate.compiling import PROOFS
from calibrate.fit import memory_fit
from calibrate.pooling import agreed, joined, pool_figures, pool_laws
from calibrate.tokenizing import router_of
from profiles import store
from profiles.entry import (
    Accuracy,
    Cell,
    Compile,
    ConcurrencyPoint,
    Entry,
    FellBackCell,
    Memory,
    MemoryCell,
    OptionEffect,
    Ownership,
    Surface,
    TokenizerCost,
)
from profiles.errors import InputError
from profiles.interference import Interference
from profiles.schema import Host, Profile, Scheduling, Sentinel

T = TypeVar("T")
Shape = tuple[int, int]
MEMORY_TOLERANCE = 0.01
"""The kernel's count of a machine's memory moves a little from boot to boot."""


def merge(profiles: Sequence[Profile], name: str) -> Profile:
    """The merged profile, called `name`; InputError for fewer than two, or when they are not runs of the same thing."""
    if len(profiles) < 2:
        raise InputError("profiles merge: name at least two profiles")
    first = profiles[0]
    runs = [run for profile in profiles for run in runs_of(profile)]
    for run in runs:
        if runs.count(run) > 1:
            raise InputError(f"the run {run} stands in the list twice; a run counts once")
    for other in profiles[1:]:
        _same_machine(first, other)
    entries = tuple(_entry(g) for g in _grouped((e for p in profiles for e in p.entries), lambda e: e.key))
    together = _grouped((i for p in profiles for i in p.interference or ()), _who)
    return Profile(
        schema="simcap.profile/1",
        name=name,
        description=f"{len(runs)} runs merged, measured on {first.host.cpu if first.host else first.device.name}.",
        created=max(p.created for p in profiles),
        runs=tuple(runs),
        device=first.device.model_copy(update={"scheduling": _scheduling([p.device.scheduling for p in profiles])}),
        host=first.host,
        software=first.software,
        router=router_of({e.model: e.tokenizer for e in entries if e.tokenizer}),
        sentinel=_sentinel([p.sentinel for p in profiles]),
        notes=tuple(dict.fromkeys(note for p in profiles for note in p.notes)),
        entries=entries,
        interference=tuple(_interference(group) for group in together) or None,
    )


def _scheduling(found: Sequence[Scheduling | None]) -> Scheduling | None:
    """Its times pooled over the runs that measured them."""
    measured = [one for one in found if one is not None]
    if not measured:
        return None
    return Scheduling(
        slice_s=pool_figures([one.slice_s for one in measured], "device.scheduling.slice_s"),
        pull_s=pool_figures([one.pull_s for one in measured], "device.scheduling.pull_s"),
    )


def _sentinel(found: Sequence[Sentinel | None]) -> Sentinel | None:
    """Its times pooled; none where a run has none, since the others would not speak for it."""
    looks = [one for one in found if one is not None]
    if len(looks) < len(found):
        return None
    for key in ("model", "artifact", "tokens", "threads"):
        agreed([getattr(one, key) for one in looks], f"sentinel.{key}")
    times = ("alone_s", "together_s", "tight_s", "paced_s")
    pooled = {key: pool_figures([getattr(one, key) for one in looks], f"sentinel.{key}") for key in times}
    return looks[0].model_copy(update=pooled)


def runs_of(profile: Profile) -> tuple[str, ...]:
    """Start and digest of each run behind a profile."""
    if profile.runs is not None:
        return profile.runs
    return (f"{profile.created} {hashlib.sha256(store.dumps(profile).encode()).hexdigest()[:12]}",)


def _same_machine(a: Profile, b: Profile) -> None:
    for profile in (a, b):
        if profile.sources or (profile.router and profile.router.per_token_s.origin != "measured"):
            raise InputError(f"{profile.name} holds published or assumed figures; only measured runs merge")
    for key in type(a.device).model_fields:
        if key not in {"memory_bytes", "scheduling"}:
            agreed([getattr(a.device, key), getattr(b.device, key)], f"device.{key}")
    memory = [p.device.memory_bytes.value if p.device.memory_bytes else None for p in (a, b)]
    _close(memory, "device.memory_bytes")
    if a.host is None or b.host is None:
        agreed([a.host, b.host], "host")
    else:
        for key in Host.model_fields:
            if key != "memory_bytes":
                agreed([getattr(a.host, key), getattr(b.host, key)], f"host.{key}")
        _close([a.host.memory_bytes, b.host.memory_bytes], "host.memory_bytes")
    for key in dict.fromkeys([*a.software, *b.software]):
        agreed([a.software.get(key), b.software.get(key)], f"software.{key}")


def _close(values: Sequence[float | None], what: str) -> None:
    x, y = values
    if x is None or y is None or abs(x - y) > MEMORY_TOLERANCE * max(x, y):
        agreed(values, what)


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of one key together, in order of first appearance."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def _entry(entries: Sequence[Entry]) -> Entry:
    first = entries[0]
    for key in ("provider", "task", "digest"):
        agreed([getattr(e, key) for e in entries], f"{first.key}: {key}")
    loads = [e.load for e in entries if e.load]
    accuracy = _worst_accuracy([e.accuracy for e in entries if e.accuracy])
    ownership = _worst_ownership([e.ownership for e in entries if e.ownership])
    usable = accuracy is None or accuracy.rejected is None
    lost = {(c.tokens, c.batch) for c in ownership.fell_back} if ownership else set()
    occupancy = _grouped((p for e in entries for p in e.occupancy), lambda p: p.tokens)
    together = _grouped(
        (p for e in entries for p in e.concurrency or ()), lambda p: (p.tokens, p.batch, p.how, p.width)
    )
    return Entry(
        model=first.model,
        artifact=first.artifact,
        provider=first.provider,
        task=first.task,
        digest=first.digest,
        load=pool_laws(loads, f"{first.key}: load") if loads else None,
        compile=_compile(first.key, [e.compile for e in entries if e.compile]),
        first_run=_cells(first.key, "first run", [c for e in entries for c in e.first_run], lost),
        service=_surface(first.key, [e.service for e in entries if e.service], lost) if usable else None,
        paced_service=_surface(first.key, [e.paced_service for e in entries if e.paced_service], lost)
        if usable
        else None,
        occupancy=tuple(pool_figures(g, f"{first.key}: occupancy at {g[0].tokens} tokens") for g in occupancy),
        concurrency=tuple(_concurrency(first.key, g) for g in together) or None,
        memory=_memory(first.key, [e.memory for e in entries if e.memory]),
        accuracy=accuracy,
        ownership=ownership,
        effects=_effects([x for e in entries for x in e.effects or ()]) or None,
        tokenizer=_tokenizer(first.key, [e.tokenizer for e in entries if e.tokenizer]),
    )


def _cells(key: str, kind: str, cells: Sequence[Cell], lost: set[Shape]) -> tuple[Cell, ...]:
    kept = (c for c in cells if (c.tokens, c.batch) not in lost)
    groups = _grouped(kept, lambda c: (c.tokens, c.batch))
    return tuple(pool_laws(g, f"{key}: {kind} at {g[0].tokens} tokens, batch {g[0].batch}") for g in groups)


def _surface(key: str, surfaces: Sequence[Surface], lost: set[Shape]) -> Surface | None:
    if not surfaces:
        return None
    cadence = agreed([s.cadence for s in surfaces], f"{key}: cadence")
    cells = _cells(key, f"{cadence} service", [c for s in surfaces for c in s.cells], lost)
    return Surface(cadence=cadence, cells=cells) if cells else None


def _compile(key: str, compiles: Sequence[Compile]) -> Compile | None:
    if not compiles:
        return None
    groups = _grouped((c for one in compiles for c in one.cells), lambda c: (c.tokens, c.batch, c.cache))
    words = [c.cache for c in compiles if c.cache is not None]
    return Compile(
        per_shape=agreed([c.per_shape for c in compiles], f"{key}: compile.per_shape"),
        cells=tuple(pool_laws(g, f"{key}: {g[0].cache} compile at {g[0].tokens} tokens") for g in groups),
        cache=max(words, key=list(PROOFS).index) if words else None,
        proof=joined(c.proof for c in compiles),
    )


def _concurrency(key: str, points: Sequence[ConcurrencyPoint]) -> ConcurrencyPoint:
    """Rate and median pooled; the slowdown is the runs' mean, weighted as the median is."""
    what = f"{key}: {points[0].width} {points[0].how} at {points[0].tokens} tokens"
    counts = [p.median_s.n or 1 for p in points]
    fields = {
        "rate_per_s": pool_figures([p.rate_per_s for p in points], what),
        "median_s": pool_figures([p.median_s for p in points], what),
        "slowdown": sum(n * p.slowdown for n, p in zip(counts, points, strict=True)) / sum(counts),
    }
    return points[0].model_copy(update=fields)


def _who(one: Interference) -> Hashable:
    return one.provider, tuple((m.model, m.artifact, m.tokens, m.batch) for m in one.members)


def _interference(runs: Sequence[Interference]) -> Interference:
    """The run in which the sharing law erred most, as of drift the worst is kept."""
    return max(runs, key=lambda one: one.residual)


def _effects(found: Sequence[OptionEffect]) -> tuple[OptionEffect, ...]:
    """Each option once; where runs saw different things, what one of them saw."""
    order = ["outputs", "latency", "none"]
    return tuple(min(g, key=lambda e: order.index(e.seen)) for g in _grouped(found, lambda e: (e.name, e.value)))


def _tokenizer(key: str, costs: Sequence[TokenizerCost]) -> TokenizerCost | None:
    if not costs:
        return None
    what = f"{key}: tokenizer"
    groups = _grouped((c for one in costs for c in one.cells), lambda c: c.tokens)
    return TokenizerCost(
        digest=agreed([c.digest for c in costs], f"{what}: digest"),
        base_s=pool_figures([c.base_s for c in costs], what),
        per_token_s=pool_figures([c.per_token_s for c in costs], what),
        cells=tuple(pool_laws(g, f"{what} at {g[0].tokens} tokens") for g in groups),
        largest_residual=max(c.largest_residual for c in costs),
    )


def _memory(key: str, memories: Sequence[Memory]) -> Memory | None:
    """Figures pooled, and the fit made again from them."""
    if not memories:
        return None
    held = [m.weights_bytes for m in memories if m.weights_bytes]
    weights = pool_figures(held, f"{key}: memory.weights_bytes") if held else None
    groups = _grouped((c for m in memories for c in m.cells), lambda c: (c.tokens, c.batch))
    cells = tuple(_memory_cell(key, group) for group in groups)
    fits = []
    for batch in sorted({c.batch for c in cells}):
        points = {c.tokens: c.peak_bytes.value for c in cells if c.batch == batch}
        fits.append(memory_fit(batch, points, weights.value) if weights else None)
    return Memory(weights_bytes=weights, cells=cells, fits=tuple(f for f in fits if f is not None) or None)


def _memory_cell(key: str, cells: Sequence[MemoryCell]) -> MemoryCell:
    what = f"{key}: memory at {cells[0].tokens} tokens"
    steady = [c.steady_bytes for c in cells if c.steady_bytes]
    fields = {
        "peak_bytes": pool_figures([c.peak_bytes for c in cells], what),
        "steady_bytes": pool_figures(steady, what) if steady else None,
    }
    return cells[0].model_copy(update=fields)


def _worst_accuracy(found: Sequence[Accuracy]) -> Accuracy | None:
    """A rejected one first, then the largest difference."""

    def badness(a: Accuracy) -> tuple[bool, float]:
        return a.rejected is not None, a.max_abs_difference.value if a.max_abs_difference else 0.0

    return max(found, key=badness) if found else None


def _worst_ownership(found: Sequence[Ownership]) -> Ownership | None:
    """The worst verdict, with every cell that the provider did not run in some run."""
    if not found:
        return None
    order: list[Literal["owned", "partial", "fell_back"]] = ["owned", "partial", "fell_back"]
    worst = max(found, key=lambda o: order.index(o.verdict))
    groups: list[list[FellBackCell]] = _grouped((c for o in found for c in o.fell_back), lambda c: (c.tokens, c.batch))
    return worst.model_copy(update={"fell_back": tuple(g[0] for g in groups)})
