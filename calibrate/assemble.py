"""From visits to a `Profile`, and to the sentences that a person must hear.

Enters: cells, the journal's visits, machine, runtimes, rules. Leaves: a profile (entries by `calibrate.entries`) with
notes on how it was measured, and `failures`: what was not measured, who did not run what, which outputs were rejected, which options did nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from calibrate.artifacts import Artifact
from calibrate.concurrency import occupancy_of
from calibrate.entries import Evidence, entry_of
from calibrate.machine import Machine
from calibrate.ownership import verdict_of
from calibrate.plan import PlannedCell
from calibrate.provider_options import Known
from calibrate.results import RuntimeRecord, Visit
from calibrate.run import Rules
from calibrate.stability import Drift
from calibrate.together import interference_of
from calibrate.tokenizing import beside, cost_of, first_cells, router_of
from profiles.entry import ProviderName, TokenizerCost
from profiles.interference import Interference
from profiles.schema import Device, Host, Profile


@dataclass(frozen=True)
class Run:
    """Everything a finished run knows. runtimes, known: by provider. extra_notes: what else the file should say."""

    cells: Sequence[PlannedCell]
    artifacts: Mapping[tuple[str, str], Artifact]
    visits: Sequence[Visit]
    rules: Rules
    machine: Machine
    runtimes: Mapping[ProviderName, RuntimeRecord]
    known: Mapping[ProviderName, Known]
    gates: Mapping[str, float]
    device: Device
    drift: Drift | None
    simcap: str
    extra_notes: Sequence[str] = ()

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence(
            self.visits, self.rules, self.machine.cores, self.gates, self.tokenizers, tuple(self.interference)
        )

    @cached_property
    def interference(self) -> list[Interference]:
        return interference_of([c for c in self.cells if occupancy_of(c, self.visits)], self.visits)

    @cached_property
    def tokenizers(self) -> dict[Path, TokenizerCost]:
        """By model file: several models may share a tokenizer, which was measured once."""
        measured = {path: cost_of(path, c, self.visits) for c, path in first_cells(self.cells, self.artifacts).items()}
        found = {a.path: measured.get(at) for a in self.artifacts.values() if (at := beside(a.path)) is not None}
        return {path: cost for path, cost in found.items() if cost is not None}


def profile_of(run: Run, name: str, created: str) -> Profile:
    """The profile of a run. Entries of which nothing is known are left out; `failures` names why."""
    m, evidence = run.machine, run.evidence
    entries = []
    for key in dict.fromkeys(c.entry for c in run.cells):
        own = [c for c in run.cells if c.entry == key]
        entries.append(entry_of(own, run.artifacts[key[0], key[1]], evidence))
    kept = tuple(e for e in entries if e.service or e.paced_service or e.ownership or e.accuracy)
    measured = {c.key for c in run.cells if evidence.good(c)}
    return Profile(
        schema="simcap.profile/1",
        name=name,
        description=f"Measured on {m.cpu} with {run.cells[0].threads} threads; {len(measured)} of {len(run.cells)} cells.",
        created=created,
        device=run.device,
        host=Host(cpu=m.cpu, cores=m.cores, memory_bytes=m.memory_bytes, os=m.os),
        software=_software(run),
        router=router_of({e.model: e.tokenizer for e in kept if e.tokenizer is not None}),
        notes=tuple(_notes(run)),
        entries=kept,
        interference=tuple(run.interference) or None,
    )


def _software(run: Run) -> dict[str, str]:
    """Versions; with several providers each one's ONNX Runtime by name."""
    found = {"simcap": run.simcap, "kernel": run.machine.kernel}
    first = next(iter(run.runtimes.values()))
    found |= {"python": first.python, "numpy": first.numpy, "onnxruntime": first.onnxruntime}
    if len(run.runtimes) > 1:
        found |= {f"onnxruntime of {provider}": r.onnxruntime for provider, r in run.runtimes.items()}
    return found


def failures(run: Run) -> list[str]:
    """One sentence for each visit that brought nothing, each entry that fell back, and each that was rejected."""
    by_key = {c.key: c for c in run.cells}
    told = [
        f"{by_key[v.cell].label}{'' if v.role in {'cell', 'sentinel'} else f' ({v.role})'}: "
        f"{v.outcome.status.replace('_', ' ')}: {v.outcome.reason}"
        for v in run.visits
        if v.outcome.status != "done" and v.cell in by_key and not _made_up_for(run, v)
    ]
    told = list(dict.fromkeys(told))  # a cell whose worker died twice is told once
    fell: dict[tuple[str, str], list[PlannedCell]] = {}
    for cell in run.cells:
        verdict = verdict_of(cell, run.visits)
        if verdict is not None and verdict.word == "fell_back":
            fell.setdefault((f"{cell.model} {cell.artifact} on {cell.provider}", verdict.reason or ""), []).append(cell)
    for (label, reason), cells in fell.items():
        shapes = ", ".join(str(c.tokens) if c.batch == 1 else f"{c.tokens}×{c.batch}" for c in cells)
        told.append(f"{label} fell back at {shapes} tokens: {reason}")
    evidence = run.evidence
    for key in dict.fromkeys(c.entry for c in run.cells):
        entry = entry_of([c for c in run.cells if c.entry == key], run.artifacts[key[0], key[1]], evidence)
        if entry.accuracy is not None and entry.accuracy.rejected:
            told.append(f"{entry.key} rejected: {entry.accuracy.rejected}")
        ignored = [e for e in entry.effects or () if e.seen == "none"]
        told += [f"{entry.key}: option {e.name}={e.value}: {e.told}" for e in ignored]
    return told


def _made_up_for(run: Run, lost: Visit) -> bool:
    """Whether a later visit brought what a crashed one did not."""
    later = run.visits[run.visits.index(lost) + 1 :]
    return any((v.cell, v.role, v.outcome.status) == (lost.cell, lost.role, "done") for v in later)


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
    for provider, known in run.known.items():
        notes += known.told(provider)
    again = [v for v in run.visits if v.outcome.status != "done" and _made_up_for(run, v)]
    by_key = {c.key: c for c in run.cells}
    notes += [f"measured again: {by_key[v.cell].label}: {v.outcome.reason}" for v in again if v.cell in by_key]
    return [*notes, *run.extra_notes, *(f"not measured: {failure}" for failure in failures(run))]
