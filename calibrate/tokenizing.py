"""What the tokenizers beside the models cost: seconds = base + per_token · tokens.

Enters: artifacts, a launcher with the package `tokenizers` in its runtime. A `tokenizer.json` is looked for beside the file,
and one folder up where the file lies in a folder `onnx`, as published models do. Leaves: `tokenizer` visits; `TokenizerCost`s.
The line goes through the medians at LENGTHS, by least squares of relative errors with base and per_token at least 0; the
intervals are percentiles over 200 resamples of the samples at each length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrate.artifacts import Artifact, digest_of
from calibrate.bench import Bench
from calibrate.fit import law
from calibrate.launch import Launch
from calibrate.plan import PlannedCell
from calibrate.results import TokenizedRecord, Visit
from profiles.entry import Cell, TokenizerCost
from profiles.quantity import Figure
from profiles.schema import RouterOverhead

LENGTHS = (32, 128, 512, 2048)
TEXTS = 40
RESAMPLES = 200
MISSING = (
    "the package `tokenizers` is not in the runtime for cpu: simcap runtimes install cpu, or pip install tokenizers"
)


def beside(model: Path) -> Path | None:
    """The tokenizer.json of a model file, None without one."""
    places = [model.parent, *([model.parent.parent] if model.parent.name == "onnx" else [])]
    return next((p / "tokenizer.json" for p in places if (p / "tokenizer.json").is_file()), None)


def measure_tokenizers(cells: Sequence[PlannedCell], launch: Launch, bench: Bench) -> list[str]:
    """One visit a tokenizer file; returns notes on those that could not be measured."""
    notes: list[str] = []
    for cell, path in first_cells(cells, bench.artifacts).items():
        if not bench.visits(cell, "tokenizer"):
            bench.say(f"tokenizer of {cell.model}")
            job = {"op": "tokenize", "tokenizer": str(path), "lengths": LENGTHS, "texts": TEXTS, "seed": bench.seed}
            bench.keep(cell, "tokenizer", partial(launch, job, bench.limit_s))
        outcome = bench.visits(cell, "tokenizer")[-1].outcome
        if outcome.status != "done":
            why = MISSING if outcome.failure_type in {"ModuleNotFoundError", "ImportError"} else outcome.reason
            notes.append(f"the cost of the tokenizer of {cell.model} was not measured: {why}")
    return notes


def first_cells(cells: Sequence[PlannedCell], artifacts: Mapping[tuple[str, str], Artifact]) -> dict[PlannedCell, Path]:
    """For each tokenizer file the first cell of a model that lies beside it."""
    found: dict[Path, PlannedCell] = {}
    for cell in cells:
        path = beside(artifacts[cell.model, cell.artifact].path)
        if path is not None:
            found.setdefault(path, cell)
    return {cell: path for path, cell in found.items()}


def cost_of(path: Path, cell: PlannedCell, visits: Sequence[Visit]) -> TokenizerCost | None:
    """The cost of the tokenizer measured in a cell's name; None when that failed."""
    mine = [v for v in visits if v.role == "tokenizer" and v.cell == cell.key and v.outcome.status == "done"]
    records = [r for v in mine for r in v.outcome.records if isinstance(r, TokenizedRecord)]
    if len({r.tokens for r in records}) < 3:
        return None
    samples = {r.tokens: np.array(r.ns) / 1e9 for r in sorted(records, key=lambda r: r.tokens)}
    tokens = np.array(list(samples), dtype=float)
    medians = np.array([np.median(s) for s in samples.values()])
    base, slope = line(tokens, medians)
    generator = np.random.default_rng(0)
    again = np.array(
        [
            line(tokens, np.array([np.median(generator.choice(s, len(s))) for s in samples.values()]))
            for _ in range(RESAMPLES)
        ]
    )
    low, high = np.percentile(again, [2.5, 97.5], axis=0)
    n = sum(len(s) for s in samples.values())
    return TokenizerCost(
        digest=digest_of([path])[0],
        base_s=Figure(value=base, origin="measured", n=n, lo=float(low[0]), hi=float(high[0])),
        per_token_s=Figure(value=slope, origin="measured", n=n, lo=float(low[1]), hi=float(high[1])),
        cells=tuple(Cell(tokens=t, batch=1, **law(list(map(float, s)))) for t, s in samples.items()),
        largest_residual=float(np.max(np.abs((base + slope * tokens) / medians - 1))),
    )


def line(tokens: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[float, float]:
    """Base and slope, neither below 0, by least squares of relative errors."""
    from scipy.optimize import nnls

    design = np.stack([1 / seconds, tokens / seconds], axis=1)
    (base, slope), _ = nnls(design, np.ones_like(seconds))
    return float(base), float(slope)


def router_of(costs: Mapping[str, TokenizerCost]) -> RouterOverhead | None:
    """The router's CPU cost as far as it was measured: one pass of the dearest tokenizer. costs: by model."""
    if not costs:
        return None
    model, dearest = max(costs.items(), key=lambda item: item[1].per_token_s.value)
    doubt = (
        f"tokenizing once with the tokenizer of {model}, one text at a time; the proxy, parsing and further passes are not in it; "
        f"largest error of the line {dearest.largest_residual:.0%}"
    )
    return RouterOverhead(
        base_s=dearest.base_s.model_copy(update={"doubt": doubt}),
        per_token_s=dearest.per_token_s.model_copy(update={"doubt": doubt}),
    )
