"""Providers of each model side by side: warm latency, cold start, memory, correctness, ownership, each with its rank.

Enters: a profile. Leaves: `ModelTable`s. A rank is 1 for the best of the model's entries that have the figure; entries
without it have none. Latency is compared at one length, the longest that most entries of the model were calibrated at.
Cold start: loading a session, plus one cold compile where the provider compiles per shape. Nothing is interpolated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profiles.entry import Accuracy, Cell, CompileCell, Entry, MemoryCell
from profiles.quantity import Figure, Law
from profiles.schema import Profile

MOST_LENGTHS = 4


@dataclass(frozen=True)
class Row:
    """One entry of a model. Ranks of what the profile does not say are None."""

    entry: Entry
    warm: dict[int, Cell]
    load: Law | None
    compile: CompileCell | None
    weights: Figure | None
    peak: MemoryCell | None
    accuracy: Accuracy | None
    ranks: dict[str, int | None]


@dataclass(frozen=True)
class ModelTable:
    """`lengths`: token counts shown; ranks compare at `at`."""

    model: str
    lengths: tuple[int, ...]
    at: int
    rows: tuple[Row, ...]


def tables(profile: Profile) -> list[ModelTable]:
    """One table a model."""
    return [
        _table(model, [entry for entry in profile.entries if entry.model == model])
        for model in dict.fromkeys(entry.model for entry in profile.entries)
    ]


def _table(model: str, entries: Sequence[Entry]) -> ModelTable:
    cells = [_cells(entry) for entry in entries]
    counts = Counter(tokens for each in cells for tokens in each)
    at = max(counts, key=lambda tokens: (counts[tokens], tokens)) if counts else 0
    rows = [_row(entry, warm, at) for entry, warm in zip(entries, cells, strict=True)]
    rows = _ranked(rows, at)
    rows.sort(key=lambda row: (row.ranks["warm"] or len(rows) + 1, row.entry.artifact))
    return ModelTable(model, _lengths(sorted(counts), at), at, tuple(rows))


def _lengths(known: Sequence[int], at: int) -> tuple[int, ...]:
    """At most MOST_LENGTHS of the known ones, spread from the shortest to the longest, `at` among them."""
    if len(known) <= MOST_LENGTHS:
        return tuple(known)
    picked = {at, *(known[round(k * (len(known) - 1) / (MOST_LENGTHS - 2))] for k in range(MOST_LENGTHS - 1))}
    return tuple(sorted(picked))


def _cells(entry: Entry) -> dict[int, Cell]:
    surface = entry.service or entry.paced_service
    return {cell.tokens: cell for cell in surface.cells if cell.batch == 1} if surface else {}


def _row(entry: Entry, warm: dict[int, Cell], at: int) -> Row:
    memory, compiled = entry.memory, entry.compile
    cold = [cell for cell in compiled.cells if cell.cache == "cold"] if compiled else []
    shapes = [cell for cell in memory.cells if cell.batch == 1] if memory else []
    return Row(
        entry=entry,
        warm=warm,
        load=entry.load,
        compile=next((cell for cell in cold if cell.tokens == at), cold[-1] if cold else None),
        weights=memory.weights_bytes if memory else None,
        peak=next((cell for cell in shapes if cell.tokens == at), None),
        accuracy=entry.accuracy,
        ranks={},
    )


def _ranked(rows: Sequence[Row], at: int) -> list[Row]:
    """The rows with their ranks."""
    measures: dict[str, Callable[[Row], float | None]] = {
        "warm": lambda row: _median(row.warm.get(at)),
        "cold": cold_start_s,
        "memory": lambda row: row.peak.peak_bytes.value if row.peak else None,
        "drift": drift,
    }
    ranks: dict[str, list[int | None]] = {}
    for name, measure in measures.items():
        values = [measure(row) for row in rows]
        known = sorted(value for value in values if value is not None)
        ranks[name] = [None if value is None else 1 + known.index(value) for value in values]
    return [
        Row(
            row.entry, row.warm, row.load, row.compile, row.weights, row.peak, row.accuracy,
            {name: of[k] for name, of in ranks.items()},
        )
        for k, row in enumerate(rows)
    ]  # fmt: skip


def _median(law: Law | None) -> float | None:
    return None if law is None else float(law.law().ppf(0.5))


def cold_start_s(row: Row) -> float | None:
    """Seconds from nothing to the first program: load, and a cold compile where shapes compile in service."""
    load = _median(row.load)
    if load is None:
        return None
    per_shape = row.entry.compile is not None and row.entry.compile.per_shape
    return load + (_median(row.compile) or 0.0) if per_shape else load


def drift(row: Row) -> float | None:
    """The largest difference of an output from the reference; None where nobody compared."""
    if row.accuracy is None or row.accuracy.max_abs_difference is None:
        return None
    return row.accuracy.max_abs_difference.value


def is_reference(entry: Entry, profile: Profile) -> bool:
    """Whether the drift of other entries of this model was measured against this one."""
    said = f"{entry.artifact} on {entry.provider.name}"
    return any(
        e.accuracy is not None and e.accuracy.reference.startswith(said)
        for e in profile.entries
        if e.model == entry.model
    )
