"""One entry of the profile from the visits to its cells.

Enters: cells of one model, artifact and provider; visits; rules. Leaves: an `Entry` in which every number is `measured`
with its count, except the occupancy of a CPU kind, which is `modeled` as threads / cores. Cells that the provider did not
run are in no surface; outputs that a gate rejects leave the entry without service times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from calibrate.artifacts import Artifact
from calibrate.compiling import PER_SHAPE, PROOFS, proof_of
from calibrate.concurrency import occupancy_of, points_of
from calibrate.drift import rejected
from calibrate.effects import effects_of
from calibrate.fit import figure, law, memory_fit, pooled
from calibrate.ownership import ownership_of, verdict_of
from calibrate.plan import PlannedCell
from calibrate.results import AccuracyRecord, CompileRecord, FirstRunRecord, LoadedRecord, MemoryRecord, Visit
from calibrate.run import CadenceName, Rules
from profiles.entry import (
    PROVIDER_DEVICE,
    Accuracy,
    Cell,
    Compile,
    CompileCell,
    Entry,
    Memory,
    MemoryCell,
    OccupancyPoint,
    Provider,
    Surface,
    TokenizerCost,
)
from profiles.interference import Interference
from profiles.quantity import Figure
from profiles.quantity import Law as LawModel

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class Evidence:
    """What all entries are made from. cores: of the machine; gates: by name; tokenizers: by model file."""

    visits: Sequence[Visit]
    rules: Rules
    cores: int
    gates: Mapping[str, float]
    tokenizers: Mapping[Path, TokenizerCost] = field(default_factory=dict)
    interference: Sequence[Interference] = ()

    def good(self, cell: PlannedCell) -> list[Visit]:
        """The successful visits of a cell to its latency and memory; none when another provider ran its nodes."""
        verdict = verdict_of(cell, self.visits)
        if verdict is not None and verdict.word == "fell_back":
            return []
        return [v for v in self.visits if v.cell == cell.key and v.role == "cell" and v.outcome.status == "done"]

    def records(self, cell: PlannedCell, kind: type[RecordT]) -> list[RecordT]:
        return [r for v in self.good(cell) for r in v.outcome.records if isinstance(r, kind)]

    def beside(self, cell: PlannedCell, kind: type[RecordT]) -> list[RecordT]:
        """Records of the cell's compile and drift visits."""
        roles = {"compile", "drift"}
        visits = [v for v in self.visits if v.cell == cell.key and v.role in roles and v.outcome.status == "done"]
        return [r for v in visits for r in v.outcome.records if isinstance(r, kind)]


def entry_of(cells: Sequence[PlannedCell], file: Artifact, evidence: Evidence) -> Entry:
    """The entry; parts that were not measured are absent."""
    first = cells[0]
    cpu_kind = PROVIDER_DEVICE[first.provider] == "cpu"
    loads = [ns / 1e9 for c in cells for r in evidence.records(c, LoadedRecord) for ns in r.ns]
    measured = [c for c in cells if evidence.good(c)]
    accuracy = _accuracy(cells, file, evidence)
    usable = accuracy is None or accuracy.rejected is None
    return Entry(
        model=file.model,
        artifact=file.artifact,
        provider=Provider(
            name=first.provider,
            options=dict(first.options),
            threads=first.threads if cpu_kind else None,
            custom_ops=first.library.label if first.library else None,
        ),
        task=file.task,
        digest=file.digest,
        load=LawModel(**law(loads)) if len(loads) >= 2 else None,
        compile=_compile(cells, evidence),
        first_run=tuple(_first_runs(cells, evidence)),
        service=_surface(cells, "tight", evidence) if usable else None,
        paced_service=_surface(cells, "paced", evidence) if usable else None,
        occupancy=_measured_occupancy(cells, evidence)
        or (tuple(_occupancy(measured, evidence.cores)) if cpu_kind else ()),
        concurrency=tuple(p for c in cells for p in points_of(c, evidence.visits)) or None,
        memory=_memory(cells, evidence),
        accuracy=accuracy,
        ownership=ownership_of(cells, evidence.visits),
        effects=tuple(effects_of(first.provider, cells, evidence.visits)) or None,
        tokenizer=evidence.tokenizers.get(file.path),
    )


def _first_runs(cells: Sequence[PlannedCell], evidence: Evidence) -> list[Cell]:
    found = {c: [ns / 1e9 for r in evidence.records(c, FirstRunRecord) for ns in r.ns] for c in cells}
    return [Cell(tokens=c.tokens, batch=c.batch, **law(seconds)) for c, seconds in found.items() if len(seconds) >= 2]


def _surface(cells: Sequence[PlannedCell], cadence: CadenceName, evidence: Evidence) -> Surface | None:
    found = {c: pooled(evidence.good(c), c.key, cadence) for c in cells}
    measured = tuple(
        Cell(tokens=c.tokens, batch=c.batch, **law(seconds, evidence.rules.target))
        for c, seconds in found.items()
        if len(seconds) >= 2
    )
    return Surface(cadence=cadence, cells=measured) if measured else None


def _occupancy(cells: Sequence[PlannedCell], cores: int) -> list[OccupancyPoint]:
    """Threads / cores, at each token count measured."""
    return [
        OccupancyPoint(
            tokens=tokens,
            value=cells[0].threads / cores,
            origin="modeled",
            doubt=f"threads / cores = {cells[0].threads} / {cores}; not measured under concurrency",
        )
        for tokens in sorted({c.tokens for c in cells})
    ]


def _measured_occupancy(cells: Sequence[PlannedCell], evidence: Evidence) -> tuple[OccupancyPoint, ...]:
    """From several at once, where that was measured; one batch size only, since the curve is over tokens."""
    batch = min(c.batch for c in cells)
    points = []
    for cell in sorted((c for c in cells if c.batch == batch), key=lambda c: c.tokens):
        found = occupancy_of(cell, evidence.visits)
        if found is None:
            continue
        doubt = f"fitted to {found.widths} widths by the sharing law; largest error of a slowdown {found.residual:.1%}"
        if found.serialises:
            doubt += f"; {found.serialises}"
        doubt += _beside_others(cell, evidence.interference)
        points.append(
            OccupancyPoint(tokens=cell.tokens, value=found.value, origin="measured", n=found.widths, doubt=doubt)
        )
    return tuple(points)


def _beside_others(cell: PlannedCell, interference: Sequence[Interference]) -> str:
    """How far the law errs where this model ran beside others, as a further part of the doubt."""
    mine = [
        one.residual
        for one in interference
        if one.provider == cell.provider
        and any((m.model, m.artifact, m.tokens) == (cell.model, cell.artifact, cell.tokens) for m in one.members)
    ]
    return f"; beside other models the law errs by up to {max(mine):.1%}" if mine else ""


def _compile(cells: Sequence[PlannedCell], evidence: Evidence) -> Compile | None:
    """Cold and warm times. Where each shape compiles, the first run belongs to it; otherwise making the session is it."""
    provider = cells[0].provider
    if provider not in PER_SHAPE:
        return None
    per_shape = PER_SHAPE[provider]
    points: list[CompileCell] = []
    proofs = []
    for cell in cells:
        records = evidence.beside(cell, CompileRecord)
        cold, warm = records[0::2], records[1::2]
        for word, found in (("cold", cold), ("warm", warm)):
            seconds = [(r.create_ns + (r.first_run_ns if per_shape else 0)) / 1e9 for r in found]
            if len(seconds) >= 2:
                points.append(CompileCell(tokens=cell.tokens, batch=cell.batch, cache=word, **law(seconds)))
        proofs += [proof_of(r) for r in warm]
    if not points:
        return None
    worst = max(proofs, key=lambda p: list(PROOFS).index(p))
    proof = f"{PROOFS[worst]} ({proofs.count(worst)} of {len(proofs)} times)"
    doubt = None if worst == "used" else PROOFS[worst]
    marked = [p.model_copy(update={"doubt": doubt}) if p.cache == "warm" and doubt else p for p in points]
    return Compile(per_shape=per_shape, cells=tuple(marked), cache=worst, proof=proof)


def _memory(cells: Sequence[PlannedCell], evidence: Evidence) -> Memory | None:
    """Above the idle process. Peak and steady are of one session that has run one shape only."""
    found = [(c, r) for c in cells for r in evidence.records(c, MemoryRecord)]
    if not found:
        return None
    sampled = "sampled every millisecond; a shorter peak is missed"
    if any(r.device for _, r in found):
        sampled += "; bytes in use on the whole device, so other users of it count too"
    shapes = tuple(
        MemoryCell(
            tokens=c.tokens,
            batch=c.batch,
            peak_bytes=figure([r.peak_bytes - r.idle_bytes], sampled if r.how == "sampled" else None),
            steady_bytes=figure([r.steady_bytes - r.idle_bytes]),
        )
        for c, r in found
    )
    loading = max(r.load_peak_bytes - r.idle_bytes for _, r in found)
    held = [r.loaded_bytes - r.idle_bytes for _, r in found]
    weights = figure(held, f"held after loading; while it loads up to {loading} bytes are used")
    fits = []
    for batch in sorted({s.batch for s in shapes}):
        points = {s.tokens: s.peak_bytes.value for s in shapes if s.batch == batch}
        fits.append(memory_fit(batch, points, weights.value))
    return Memory(weights_bytes=weights, cells=shapes, fits=tuple(f for f in fits if f is not None) or None)


def _accuracy(cells: Sequence[PlannedCell], file: Artifact, evidence: Evidence) -> Accuracy | None:
    """The worst comparison among the cells: a rejected one first, then the largest difference."""
    records = [r for c in cells for r in evidence.beside(c, AccuracyRecord)]
    if not records:
        return None
    judged = [(rejected(r, file.task, evidence.gates), r) for r in records]
    why, worst = max(judged, key=lambda item: (item[0] is not None, item[1].max_abs or 0.0))
    return Accuracy(
        reference=worst.reference,
        inputs=worst.inputs,
        max_abs_difference=_of(worst.max_abs, worst.inputs),
        mean_abs_difference=_of(worst.mean_abs, worst.inputs),
        cosine=_of(worst.cosine, worst.inputs),
        label_agreement=_of(worst.label_agreement, worst.inputs),
        non_finite_outputs=worst.non_finite,
        rejected=why,
    )


def _of(value: float | None, n: int) -> Figure | None:
    return None if value is None else Figure(value=value, origin="measured", n=n)
