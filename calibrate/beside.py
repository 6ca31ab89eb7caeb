"""What is measured beside the matrix, of cells that their provider ran: compile times, several at once, options, drift, tokenizers.

Enters: a request, its cells and artifacts, a bench. Leaves: visits in the journal; notes on what could not be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from calibrate.artifacts import Artifact, from_zoo
from calibrate.bench import Bench
from calibrate.compiling import measure_compiles, shapes_to_compile
from calibrate.concurrency import measure_concurrency
from calibrate.drift import Reference, measure_drift
from calibrate.effects import measure_effects
from calibrate.environments import interpreters
from calibrate.fit import pooled
from calibrate.launch import Launch
from calibrate.model_zoo.facts import runs_in_fp32
from calibrate.ownership import verdict_of
from calibrate.plan import PlannedCell
from calibrate.precision import asked_options
from calibrate.runtimes import probe
from calibrate.together import measure_together
from calibrate.tokenizing import first_cells, measure_tokenizers

if TYPE_CHECKING:
    from calibrate.request import Request


@dataclass(frozen=True)
class Cpu:
    """The runtime of the CPU provider: drift's reference runs there, and tokenizers."""

    launch: Launch
    request: Request

    @classmethod
    def of(cls, request: Request, launcher: Callable[[Path | None], Launch]) -> Cpu:
        return cls(launcher(interpreters(["cpu"], request.cache, dict(request.runtimes))["cpu"]), request)


def measure_beside(request: Request, cells: Sequence[PlannedCell], bench: Bench, cpu: Cpu) -> list[str]:
    """Everything that the request asks for and the journal lacks; returns notes."""
    visits = bench.journal.visits
    ran = [c for c in cells if (v := verdict_of(c, visits)) is None or v.word != "fell_back"]
    measure_compiles(shapes_to_compile(ran), bench)
    if request.widths:
        ends = [c for c in _ends(ran) if pooled(visits, c.key, request.rules.cadences[0])]
        alone = {c.key: median(pooled(visits, c.key, request.rules.cadences[0])) for c in ends}
        measure_concurrency(ends, request.widths, alone, bench)
        measure_together(ends, bench)
    measure_effects(ran, asked_options(request.options, request.precisions), bench)
    notes = _drift(request, ran, bench, cpu)
    if first_cells(cells, bench.artifacts):
        notes += measure_tokenizers(cells, cpu.launch, bench)
    return notes


def _drift(request: Request, ran: Sequence[PlannedCell], bench: Bench, cpu: Cpu) -> list[str]:
    compared = {key: _compared_with(artifact, request, bench) for key, artifact in bench.artifacts.items()}
    # on the CPU a model is its own reference, unless another artifact of it is
    candidates = [c for c in ran if c.provider != "cpu" or compared[c.model, c.artifact].digest != c.digest]
    if not candidates:
        return []
    try:
        version = probe(cpu.launch, "cpu").onnxruntime
    except Exception as error:  # any reason not to have a reference is told; drift is then not measured
        return [f"drift was not measured, for want of a CPU reference: {error}"]
    references = {
        key: Reference(artifact, cpu.launch, f"{artifact.artifact} on cpu (ONNX Runtime {version})")
        for key, artifact in compared.items()
    }
    measure_drift(_ends(candidates), references, bench)
    return []


def _compared_with(artifact: Artifact, request: Request, bench: Bench) -> Artifact:
    """What drift is measured against: the model's fp32 artifact; without one the file itself."""
    zoo = artifact.model in request.models and artifact.artifact.partition("-as-")[0] in request.artifacts
    if zoo:
        return from_zoo(artifact.model, request.cache, request.seed)
    own = [a for (model, _), a in bench.artifacts.items() if model == artifact.model and a.precision is None]
    itself = next(a for a in own if a.digest == artifact.digest)
    return itself if len(own) == 1 else next((a for a in own if runs_in_fp32(a.path)), itself)


def _ends(cells: Sequence[PlannedCell]) -> list[PlannedCell]:
    """The shortest and the longest text of each entry, at its smallest batch."""
    chosen: list[PlannedCell] = []
    for entry in dict.fromkeys(c.entry for c in cells):
        own = sorted((c for c in cells if c.entry == entry), key=lambda c: (c.batch, c.tokens))
        own = [c for c in own if c.batch == own[0].batch]
        chosen += dict.fromkeys((own[0], own[-1]))
    return chosen
