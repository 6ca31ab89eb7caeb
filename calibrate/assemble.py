"""From visits to a `Profile`.

Enters: cells, the journal's visits, machine, runtime, rules. Leaves: a profile in which every number is `measured`
with its count, except the occupancy, which is `modeled` as threads / cores. A cell whose nodes another provider ran
never enters the surface of the provider that was asked for; a cell that failed is left out and named in the notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from calibrate.artifacts import Artifact
from calibrate.fit import figure, law, pooled
from calibrate.machine import Machine
from calibrate.plan import PlannedCell
from calibrate.results import FirstRunRecord, LoadedRecord, MemoryRecord, OwnershipRecord, RuntimeRecord, Visit
from calibrate.run import CadenceName, Rules
from calibrate.runtimes import EXECUTION_PROVIDERS
from calibrate.stability import Drift
from profiles.schema import (
    Cell,
    Device,
    Entry,
    Figure,
    Host,
    Law,
    Memory,
    MemoryCell,
    OccupancyPoint,
    Ownership,
    Profile,
    Provider,
    Surface,
)


@dataclass(frozen=True)
class Run:
    """Everything a finished run knows."""

    cells: Sequence[PlannedCell]
    artifacts: Mapping[tuple[str, str], Artifact]
    visits: Sequence[Visit]
    rules: Rules
    machine: Machine
    runtime: RuntimeRecord
    drift: Drift | None
    simcap: str


def profile_of(run: Run, name: str, created: str) -> Profile:
    """The profile of a run. Entries without a single measured cell are left out; `failures` names why."""
    m = run.machine
    entries = [_entry(run, *key) for key in dict.fromkeys((c.model, c.artifact, c.provider) for c in run.cells)]
    kept = tuple(e for e in entries if e.service or e.paced_service or e.ownership)
    measured = {c.key for c in run.cells if _visits(run, c)}
    return Profile(
        schema="simcap.profile/1",
        name=name,
        description=f"Measured on {m.cpu} with {run.cells[0].threads} threads; {len(measured)} of {len(run.cells)} cells.",
        created=created,
        device=Device(
            catalog="cpu",
            kind="cpu",
            name=m.cpu,
            memory_bytes=Figure(value=m.memory_bytes, origin="measured", n=1),
            cores=m.cores,
        ),
        host=Host(cpu=m.cpu, cores=m.cores, memory_bytes=m.memory_bytes, os=m.os),
        software={
            "simcap": run.simcap,
            "python": run.runtime.python,
            "onnxruntime": run.runtime.onnxruntime,
            "numpy": run.runtime.numpy,
            "kernel": m.kernel,
        },
        notes=tuple(_notes(run)),
        entries=kept,
    )


def failures(run: Run) -> list[str]:
    """One sentence for each visit that brought nothing and each cell that another provider ran."""
    by_key = {c.key: c for c in run.cells}
    told = [
        f"{by_key[v.cell].label}: {v.outcome.status.replace('_', ' ')}: {v.outcome.reason}"
        for v in run.visits
        if v.outcome.status != "done" and v.cell in by_key
    ]
    for cell in run.cells:
        ran = _ownership(run, cell)
        if ran is not None and ran[0] == "fell_back":
            told.append(f"{cell.label}: fell back: its nodes ran on {', '.join(ran[1].nodes) or 'nothing'}")
    return told


def _notes(run: Run) -> list[str]:
    rules, m = run.rules, run.machine
    notes = [
        "token ids are random; weights of models from the zoo are random (time and memory do not depend on either)",
        f"sampling ended when the median's 95 % interval was narrower than {rules.target:.0%} with {rules.enough} samples, or with the budget",
    ]
    if "paced" in rules.cadences:
        notes.append(f"paced: exponential idle gaps, mean {rules.gap_over_service:g} times the service time")
    if m.quota_cores is not None:
        notes.append(f"a control group limits this machine to {m.quota_cores:g} cores")
    if run.drift is not None:
        notes.append(run.drift.told())
    return [*notes, *(f"not measured: {failure}" for failure in failures(run))]


def _visits(run: Run, cell: PlannedCell) -> list[Visit]:
    """The successful visits of a cell; none when another provider ran its nodes."""
    ran = _ownership(run, cell)
    if ran is not None and ran[0] == "fell_back":
        return []
    return [v for v in run.visits if v.cell == cell.key and v.role == "cell" and v.outcome.status == "done"]


def _ownership(run: Run, cell: PlannedCell) -> tuple[Literal["owned", "partial", "fell_back"], OwnershipRecord] | None:
    """The verdict on a cell, and the record behind it."""
    asked = EXECUTION_PROVIDERS[cell.provider]
    for visit in run.visits:
        for record in visit.outcome.records:
            if visit.cell == cell.key and isinstance(record, OwnershipRecord):
                own, total = record.nodes.get(asked, 0), sum(record.nodes.values())
                return ("fell_back" if own == 0 else "owned" if own == total else "partial"), record
    return None


def _entry(run: Run, model: str, artifact: str, provider: str) -> Entry:
    cells = [c for c in run.cells if (c.model, c.artifact, c.provider) == (model, artifact, provider)]
    file = run.artifacts[model, artifact]
    first = cells[0]
    loads = [ns / 1e9 for c in cells for r in _records(run, c, LoadedRecord) for ns in r.ns]
    measured = [c for c in cells if _visits(run, c)]
    return Entry(
        model=model,
        artifact=artifact,
        provider=Provider(name=first.provider, threads=first.threads),
        task=file.task,
        digest=file.digest,
        load=Law(**law(loads)) if len(loads) >= 2 else None,
        first_run=tuple(_first_runs(run, cells)),
        service=_surface(run, cells, "tight"),
        paced_service=_surface(run, cells, "paced"),
        occupancy=tuple(_occupancy(run, measured)),
        memory=_memory(run, cells),
        ownership=_worst_ownership(run, cells),
    )


def _records(run: Run, cell: PlannedCell, kind: type[Any]) -> list[Any]:
    return [r for v in _visits(run, cell) for r in v.outcome.records if isinstance(r, kind)]


def _first_runs(run: Run, cells: Sequence[PlannedCell]) -> list[Cell]:
    found = {c: [ns / 1e9 for r in _records(run, c, FirstRunRecord) for ns in r.ns] for c in cells}
    return [Cell(tokens=c.tokens, batch=c.batch, **law(seconds)) for c, seconds in found.items() if len(seconds) >= 2]


def _surface(run: Run, cells: Sequence[PlannedCell], cadence: CadenceName) -> Surface | None:
    found = {c: pooled(_visits(run, c), c.key, cadence) for c in cells}
    measured = tuple(
        Cell(tokens=c.tokens, batch=c.batch, **law(seconds, run.rules.target))
        for c, seconds in found.items()
        if len(seconds) >= 2
    )
    return Surface(cadence=cadence, cells=measured) if measured else None


def _occupancy(run: Run, cells: Sequence[PlannedCell]) -> list[OccupancyPoint]:
    """Threads / cores, at each token count measured."""
    cores = run.machine.cores
    return [
        OccupancyPoint(
            tokens=tokens,
            value=cells[0].threads / cores,
            origin="modeled",
            doubt=f"threads / cores = {cells[0].threads} / {cores}; not measured under concurrency",
        )
        for tokens in sorted({c.tokens for c in cells})
    ]


def _memory(run: Run, cells: Sequence[PlannedCell]) -> Memory | None:
    """Above the idle process. Peak and steady are of one session that has run one shape only."""
    found = [(c, r) for c in cells for r in _records(run, c, MemoryRecord)]
    if not found:
        return None
    shapes = tuple(
        MemoryCell(
            tokens=c.tokens,
            batch=c.batch,
            peak_bytes=figure(
                [r.peak_bytes - r.idle_bytes],
                "sampled every millisecond; a shorter peak is missed" if r.how == "sampled" else None,
            ),
            steady_bytes=figure([r.steady_bytes - r.idle_bytes]),
        )
        for c, r in found
    )
    loading = max(r.load_peak_bytes - r.idle_bytes for _, r in found)
    weights = figure(
        [r.loaded_bytes - r.idle_bytes for _, r in found],
        f"held after loading; while it loads up to {loading} bytes are used",
    )
    return Memory(weights_bytes=weights, cells=shapes)


def _worst_ownership(run: Run, cells: Sequence[PlannedCell]) -> Ownership | None:
    """The worst verdict among the cells, and among equals the record of the largest shape."""
    order = ("owned", "partial", "fell_back")
    ran = [(c, *found) for c in cells if (found := _ownership(run, c)) is not None]
    if not ran:
        return None
    cell, verdict, record = max(ran, key=lambda item: (order.index(item[1]), item[0].tokens * item[0].batch))
    return Ownership(
        asked=cell.provider,
        session_providers=record.session_providers,
        nodes=record.nodes,
        seconds={provider: ns / 1e9 for provider, ns in record.ns.items()},
        cpu_operators=record.cpu_operators,
        verdict=verdict,
        reason=f"nodes ran on {', '.join(record.nodes)}" if verdict != "owned" else None,
    )
