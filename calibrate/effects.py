"""Whether a provider option that a build accepts does anything.

Builds take options that they never apply. So each option that the person asked for is tried on the first model: outputs with
it, without it, and with it again (the last two show how far runs differ by themselves), and latencies in TURNS, each in a fresh
process. It has an effect where outputs differ by more than two equal runs do, or where every turn with it is on the same side of
every turn without and their medians are MARGIN apart: five turns of each fall so by chance once in 126 (2 of 252 orders). Once they
have mixed no later turn can part them, so then measuring ends. Options that act on resources (memory limits, devices, caches)
show elsewhere and are not judged. Enters: cells, the options asked for, a bench. Leaves: `effect` visits; `Effect`s.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from calibrate.bench import Bench
from calibrate.plan import PlannedCell
from calibrate.results import EffectRecord, LatencyRecord, Outcome, Visit
from profiles.entry import OptionEffect, ProviderName

MARGIN = 0.05
TURNS = (True, False, False, True, True, False, False, True, True, False)
"""With the option or without: so that a machine that gets slower or faster steadily favours neither."""
TEXTS = 4
TURN = {"seconds": 0.5, "enough": 100, "at_least": 6, "target": 0.02}
RESOURCES = ("device", "mem_limit", "arena", "cache", "load_compiled", "save_compiled", "model_path", "dump")


def judged(name: str) -> bool:
    """Whether outputs or latency could show this option."""
    return not any(word in name for word in RESOURCES)


def measure_effects(
    cells: Sequence[PlannedCell], asked: Mapping[ProviderName, Mapping[str, str]], bench: Bench
) -> None:
    """One visit an option, on the first cell of its provider that has it; the journal's are not made again."""
    for provider, options in asked.items():
        for name in filter(judged, options):
            cell = cell_with(cells, provider, name, options[name])
            if cell is None or any(r.name == name for r in _records(cell, bench.journal.visits)):
                continue
            bench.say(f"{cell.label}, with and without {name}")
            bench.keep(cell, "effect", partial(_measured, cell, name, bench))


def cell_with(cells: Sequence[PlannedCell], provider: ProviderName, name: str, value: str) -> PlannedCell | None:
    """The cheapest cell that has this option."""
    own = [c for c in cells if c.provider == provider and dict(c.options).get(name) == value]
    return min(own, key=lambda c: (c.tokens * c.batch, c.key), default=None)


def _measured(cell: PlannedCell, name: str, bench: Bench) -> Outcome:
    options = dict(cell.options)
    without = {k: v for k, v in options.items() if k != name}
    wall_s = 0.0
    medians: dict[bool, list[float]] = {True: [], False: []}
    arrays = []
    with tempfile.TemporaryDirectory(prefix="simcap-") as folder:
        for turn, has in enumerate((True, False, True)):
            path = Path(folder) / f"{turn}.npy"
            more = {"provider_options": options if has else without, "inputs": TEXTS, "outputs": str(path)}
            outcome = bench.launch(cell, bench.job("outputs", cell, **more))
            wall_s += outcome.wall_s
            if outcome.status != "done" or outcome.fell_back:
                return outcome
            arrays.append(np.load(path, allow_pickle=False).astype(float))
    for has in TURNS:
        more = {"provider_options": options if has else without, "loads": 1, "tight": TURN}
        outcome = bench.launch(cell, bench.job("cell", cell, **more))
        wall_s += outcome.wall_s
        found = [r for r in outcome.records if isinstance(r, LatencyRecord)]
        if outcome.status != "done" or not found:
            return outcome
        medians[has].append(median(found[0].settled_s))
        if medians[not has] and not apart(medians[True], medians[False]):
            break
    record = EffectRecord(
        kind="effect",
        name=name,
        value=options[name],
        max_abs=_gap(arrays[0], arrays[1]),
        noise=_gap(arrays[0], arrays[2]),
        with_s=tuple(medians[True]),
        without_s=tuple(medians[False]),
    )
    return Outcome(status="done", records=(record,), wall_s=wall_s)


def apart(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether all of one lie on the same side of all of the other."""
    return max(one) < min(other) or min(one) > max(other)


def _gap(a: Any, b: Any) -> float:
    """The largest difference; of other shapes or of what is not finite, the largest number there is."""
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float(np.finfo(float).max)
    return float(np.max(np.abs(a - b), where=np.isfinite(a), initial=0.0))


def effects_of(provider: ProviderName, cells: Sequence[PlannedCell], visits: Sequence[Visit]) -> list[OptionEffect]:
    """What was seen of each option of a provider."""
    own = [c for c in cells if c.provider == provider]
    return [_judged(r) for c in own for r in _records(c, visits)]


def _judged(record: EffectRecord) -> OptionEffect:
    seen: Literal["outputs", "latency", "none"] = "none"
    ratio = median(record.with_s) / median(record.without_s)
    if record.max_abs > record.noise:
        seen = "outputs"
        told = f"outputs differ by up to {record.max_abs:.3g}, two equal runs by {record.noise:.3g}"
    elif apart(record.with_s, record.without_s) and abs(ratio - 1) > MARGIN:
        seen, told = "latency", f"{ratio:.2f} times the latency without it"
    else:
        told = f"accepted, and nothing was seen of it: equal outputs, {ratio:.2f} times the latency (within {MARGIN:.0%}, or by chance)"
    return OptionEffect(name=record.name, value=record.value, seen=seen, told=told)


def _records(cell: PlannedCell, visits: Sequence[Visit]) -> list[EffectRecord]:
    mine = [v for v in visits if v.role == "effect" and v.cell == cell.key]
    return [r for v in mine for r in v.outcome.records if isinstance(r, EffectRecord)]
