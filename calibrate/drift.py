"""Drift: outputs on fixed inputs against the reference's, and the gates that reject.

Reference: the model's fp32 artifact on the CPU provider. Both run the same texts in their own runtimes; outputs travel as
`.npy` files and are compared here. Enters: arrays [texts, ...]. Leaves: largest and mean absolute difference over finite
pairs; the smallest cosine over texts (embeddings); the share of equal labels (classifiers, by token where there are
tokens); how many outputs are not finite. Gates are minima: an embedding below cosine 0.83 is rejected unless another is set,
and outputs that are not finite where the reference's are, always.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.artifacts import Artifact
from calibrate.bench import Bench
from calibrate.launch import Launch
from calibrate.plan import PlannedCell
from calibrate.results import AccuracyRecord, Outcome
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.entry import Task
from profiles.errors import InputError, nearest

INPUTS = 16
GATES: dict[str, float] = {"embedding-cosine": 0.83}
"""Name -> the least value that passes, when nobody sets another."""

GATE_NAMES: dict[str, tuple[Task, str]] = {
    "embedding-cosine": ("embedding", "cosine"),
    "sequence-agreement": ("sequence_classification", "label_agreement"),
    "token-agreement": ("token_classification", "label_agreement"),
}

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Reference:
    """What to compare with. launch: of the runtime that runs it on its CPU provider."""

    artifact: Artifact
    launch: Launch
    label: str


def parse_gates(arguments: Sequence[str]) -> dict[str, float]:
    """`--gate embedding-cosine=0.9`, over the defaults."""
    gates = dict(GATES)
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name not in GATE_NAMES:
            raise InputError(f"--gate {argument!r}: no gate {name!r}; {nearest(name, GATE_NAMES)}")
        try:
            gates[name] = float(value)
        except ValueError:
            raise InputError(f"--gate {argument!r}: expected a number, as in embedding-cosine=0.83") from None
        if not -1 <= gates[name] <= 1:
            raise InputError(f"--gate {argument!r}: expected at most 1 (and at least -1, which lets everything pass)")
    return gates


def compare(ours: Array, reference: Array, task: Task, label: str) -> AccuracyRecord:
    """The record; ValueError when the shapes differ."""
    if ours.shape != reference.shape:
        raise ValueError(f"outputs have shape {ours.shape} and the reference's {reference.shape}")
    mine, theirs = ours.astype(float), reference.astype(float)
    both = np.isfinite(mine) & np.isfinite(theirs)
    gaps = np.abs(mine - theirs)[both]
    classifies = task in {"sequence_classification", "token_classification"}
    return AccuracyRecord(
        kind="accuracy",
        reference=label,
        inputs=len(ours),
        max_abs=float(gaps.max()) if gaps.size else None,
        mean_abs=float(gaps.mean()) if gaps.size else None,
        cosine=_least_cosine(mine, theirs) if task in {"embedding", "multimodal"} else None,  # one score has no angle
        label_agreement=float(np.mean(_labels(mine) == _labels(theirs))) if classifies else None,
        non_finite=int(np.count_nonzero(~np.isfinite(mine) & np.isfinite(theirs))),
    )


def _labels(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The largest score's place; a row that is not finite has the label -1, which agrees with no other."""
    best: NDArray[np.int64] = np.where(np.isfinite(scores).all(axis=-1), scores.argmax(axis=-1), -1)
    return best


def _least_cosine(mine: NDArray[np.float64], theirs: NDArray[np.float64]) -> float | None:
    a, b = (np.nan_to_num(x.reshape(len(x), -1), nan=0.0, posinf=0.0, neginf=0.0) for x in (mine, theirs))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if not np.all(lengths > 0):
        return None
    return float(np.min(np.sum(a * b, axis=1) / lengths))


def rejected(record: AccuracyRecord, task: Task, gates: Mapping[str, float]) -> str | None:
    """Why the outputs are not good enough to be used; None when they are."""
    if record.non_finite:
        return f"{record.non_finite} outputs are not finite where those of {record.reference} are"
    for name, least in gates.items():
        gate_task, field = GATE_NAMES[name]
        value = getattr(record, field)
        if gate_task == task and (value is None or value < least):
            return f"{field.replace('_', ' ')} {'none' if value is None else f'{value:.4f}'} with {record.reference} is below the gate {name}={least:g}"
    return None


def measure_drift(
    cells: Sequence[PlannedCell],
    references: Mapping[tuple[str, str], Reference],
    bench: Bench,
) -> None:
    """One comparison for each cell given, unless the journal has it. references: by (model, artifact)."""
    for cell in cells:
        if bench.visits(cell, "drift"):
            continue
        bench.say(f"{cell.label}, comparing outputs")
        bench.keep(cell, "drift", partial(_compared, cell, references[cell.model, cell.artifact], bench))


def _compared(cell: PlannedCell, reference: Reference, bench: Bench) -> Outcome:
    job = bench.job("outputs", cell, inputs=INPUTS)
    cpu: dict[str, Any] = {
        "model": str(reference.artifact.path),
        "provider": EXECUTION_PROVIDERS["cpu"],
        "provider_options": {},
        "custom_ops": None,
    }
    artifact = bench.artifact(cell)
    with tempfile.TemporaryDirectory(prefix="simcap-") as folder:
        files = [Path(folder) / name for name in ("reference.npy", "own.npy")]
        first = reference.launch({**job, **cpu, "outputs": str(files[0])}, bench.limit_s)
        if first.status != "done":
            return first
        second = bench.launch(cell, {**job, "outputs": str(files[1])})
        if second.status != "done" or second.fell_back:
            return second
        theirs, mine = (np.load(path, allow_pickle=False) for path in files)
    wall_s = first.wall_s + second.wall_s
    try:
        record = compare(mine, theirs, artifact.task, reference.label)
    except ValueError as error:
        return Outcome(status="failed", reason=str(error), failure_type="ValueError", wall_s=wall_s)
    return Outcome(status="done", records=(record,), wall_s=wall_s)
