"""Fit the parameters that the published MI300X tables do not state: router overhead, own service time, occupancy.

Enters: rows of profiles/data/mi300x_published.csv (milliseconds). Leaves: `Fit` (milliseconds, shares of the device)
and the error of every published cell. The experiment: a burst of C equal requests; each costs router overhead r (not
serialised), then two jobs behind the lock domain `sequence` and one behind `token`, fifo, each of own service time s
and occupancy f. With both domains busy every job takes g s, g = max(1, 2 f). `token` ends its C jobs at C g s; by then
`sequence` has done C of its 2 C, and the rest run alone at s each. Request k (1..C) has its second `sequence` job as
job 2 k, so it is answered at
    r + 2 k g s                  if 2 k <= C
    r + C g s + (2 k - C) s      otherwise          (C = 1: r + (g + 1) s)
and percentiles over the C requests follow numpy's linear rule. docs/explanation/published-fit.md tells the reasons.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TABLE = Path(__file__).resolve().parent.parent / "profiles" / "data" / "mi300x_published.csv"
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
OUTLIER = (4096, 10, "latency_p95_ms")
GRID = np.round(np.arange(0.5, 1.0001, 0.01), 2)  # occupancy below 0.5 leaves no trace in these tables (g stays 1)

Row = dict[str, str]
Cell = tuple[int, int, str]  # tokens, concurrency, metric
Shares = NDArray[np.float64]


def read_table() -> list[Row]:
    """The rows of the committed table."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def cells_of(rows: Iterable[Row], source: str, artifact: str) -> dict[Cell, float]:
    """Latency cells (ms) of one source and artifact; `OOM` cells are left out."""
    return {
        (int(r["tokens"]), int(r["concurrency"]), r["metric"]): float(r["value"])
        for r in rows
        if r["source_key"] == source and r["artifact"] == artifact and r["value"] != "OOM"
    }


def burst_ms(concurrency: int, service_ms: float, occupancy: float, router_ms: float) -> NDArray[np.float64]:
    """Latency (ms) of each request of a burst, in the order of answers; the formula above."""
    k2 = 2 * np.arange(1, concurrency + 1)
    g = max(1.0, 2 * occupancy)
    together, alone = np.minimum(k2, concurrency), np.maximum(k2 - concurrency, 0)
    return np.asarray(router_ms + service_ms * (g * together + alone))


def constant(a: float, _b: float) -> Shares:
    """One occupancy for every length."""
    return np.full(len(LENGTHS), a)


def linear_in_log(a: float, b: float) -> Shares:
    """`a` at the shortest length, `b` at the longest, linear in log(tokens)."""
    x = np.log(np.array(LENGTHS) / LENGTHS[0]) / np.log(LENGTHS[-1] / LENGTHS[0])
    return np.asarray(a + (b - a) * x)


def linear_in_tokens(a: float, b: float) -> Shares:
    """`a` at the shortest length, `b` at the longest, linear in tokens."""
    x = (np.array(LENGTHS) - LENGTHS[0]) / (LENGTHS[-1] - LENGTHS[0])
    return np.asarray(a + (b - a) * x)


SHAPES: Mapping[str, Callable[[float, float], Shares]] = {
    "constant": constant,
    "linear in log(tokens)": linear_in_log,
    "linear in tokens": linear_in_tokens,
}
CHOSEN = "linear in tokens"


@dataclass(frozen=True)
class CellError:
    """One published cell beside the formula's answer (ms)."""

    tokens: int
    concurrency: int
    metric: str
    published_ms: float
    model_ms: float

    @property
    def error(self) -> float:
        return self.model_ms / self.published_ms - 1

    @property
    def role(self) -> str:
        if (self.tokens, self.concurrency, self.metric) == OUTLIER:
            return "outlier"
        return "fitted" if self.metric == "latency_p50_ms" else "check"


@dataclass(frozen=True)
class Fit:
    """Router overhead (ms), and own service time (ms) and occupancy at each of LENGTHS."""

    router_ms: float
    service_ms: tuple[float, ...]
    occupancy: tuple[float, ...]
    at_ends: tuple[float, float]


def router_overhead_ms(single: Mapping[Cell, float], three: Mapping[Cell, float]) -> float:
    """End-to-end of three classifiers less two single inferences one after another, SDPA at 512 tokens (g = 1)."""
    return three[512, 1, "latency_p50_ms"] - 2 * single[512, 1, "latency_ms"]


def service_from_c1(cells: Mapping[Cell, float], router_ms: float, occupancy: Shares) -> list[float]:
    """Own service times (ms): (median at concurrency 1 - r) / (g + 1)."""
    return [
        (cells[tokens, 1, "latency_p50_ms"] - router_ms) / (max(1.0, 2 * f) + 1)
        for tokens, f in zip(LENGTHS, occupancy, strict=True)
    ]


def _log_errors(cells: Mapping[Cell, float], router_ms: float, occupancy: Shares) -> NDArray[np.float64]:
    """log(model / published) of the medians at concurrency 10, one a length."""
    service = service_from_c1(cells, router_ms, occupancy)
    return np.array(
        [
            np.log(np.median(burst_ms(10, s, f, router_ms)) / cells[tokens, 10, "latency_p50_ms"])
            for tokens, s, f in zip(LENGTHS, service, occupancy, strict=True)
        ]
    )


def fit_shape(cells: Mapping[Cell, float], router_ms: float, shape: str, without: int | None = None) -> Fit:
    """Least squares of the log errors of the C = 10 medians, on a grid of 0.01; `without`: a length left out."""
    keep = np.array([tokens != without for tokens in LENGTHS])
    best: tuple[float, float, float] | None = None
    for a in GRID:
        for b in (a,) if shape == "constant" else [v for v in GRID if v >= a]:
            errors = _log_errors(cells, router_ms, SHAPES[shape](float(a), float(b)))[keep]
            loss = round(float(errors @ errors), 12)
            if best is None or loss < best[0]:
                best = (loss, float(a), float(b))
    assert best is not None  # noqa: S101  # the grid is not empty
    shares = SHAPES[shape](best[1], best[2])
    return Fit(router_ms, tuple(service_from_c1(cells, router_ms, shares)), tuple(map(float, shares)), best[1:])


def left_out_error(cells: Mapping[Cell, float], router_ms: float, shape: str) -> float:
    """Mean absolute error of each C = 10 median predicted by a fit to the other lengths."""
    errors = []
    for i, tokens in enumerate(LENGTHS):
        fit = fit_shape(cells, router_ms, shape, without=tokens)
        errors.append(abs(np.expm1(_log_errors(cells, router_ms, np.array(fit.occupancy))[i])))
    return float(np.mean(errors))


def cell_errors(cells: Mapping[Cell, float], fit: Fit) -> list[CellError]:
    """Every published cell of the concurrency table beside the formula's answer."""
    result = []
    for (tokens, concurrency, metric), published in cells.items():
        i = LENGTHS.index(tokens)
        latencies = burst_ms(concurrency, fit.service_ms[i], fit.occupancy[i], fit.router_ms)
        model = float(np.percentile(latencies, 50 if metric == "latency_p50_ms" else 95))
        result.append(CellError(tokens, concurrency, metric, published, model))
    return result


def mean_absolute(errors: Iterable[CellError]) -> float:
    """Mean absolute relative error, without the known outlier."""
    return float(np.mean([abs(e.error) for e in errors if e.role != "outlier"]))
