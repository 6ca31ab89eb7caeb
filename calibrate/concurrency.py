"""Throughput at several widths, and the occupancy that explains it.

Sharing law: while the occupancies f of the running inferences sum to at most 1 all run at full speed, above that each at
1/sum. So W at once take S(W) = max(1, W f) times as long, with S(W) = W X(1) / X(W) from the rates X. The f is fitted to
sessions of their own, by least squares of the relative error over a grid of thousandths; the largest relative error is the
residual, and states how far the law is from this machine. Several threads on ONE session are measured beside it: where
their S exceeds that of as many sessions, the session serialises. Enters: cells, widths, a bench. Leaves:
`concurrency` visits; `Occupancy`s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Literal

import numpy as np

from calibrate.bench import Bench
from calibrate.plan import PlannedCell
from calibrate.results import ConcurrencyRecord, Visit
from profiles.entry import ConcurrencyPoint
from profiles.quantity import Figure

How = Literal["threads", "sessions"]
LEAST_SECONDS = 1.0
INFERENCES = 30
"""About so many inferences of one alone, and never less time than LEAST_SECONDS."""


def measure_concurrency(
    cells: Sequence[PlannedCell], widths: Sequence[int], one_s: Mapping[str, float], bench: Bench
) -> None:
    """Visit each cell at each width unless the journal has it. one_s: seconds of one inference alone, by cell."""
    for cell in cells:
        have = {(r.how, r.width) for r in records_of(cell, bench.journal.visits)}
        for how, width in plan(widths):
            if (how, width) in have:
                continue
            bench.say(f"{cell.label}, {width} at once on {'one session' if how == 'threads' else 'a session each'}")
            seconds = seconds_for([one_s[cell.key]])
            job = bench.job("concurrency", cell, kind=how, width=width, seconds=seconds)
            bench.keep(cell, "concurrency", partial(bench.launch, cell, job))


def seconds_for(one_s: Sequence[float]) -> float:
    """How long to let several run at once, from the seconds of one inference of each alone."""
    return max(LEAST_SECONDS, INFERENCES * max(one_s))


def plan(widths: Sequence[int]) -> list[tuple[How, int]]:
    """One alone, then every other width both ways."""
    return [("sessions", 1), *((how, w) for w in sorted(set(widths) - {1}) for how in ("sessions", "threads"))]


def records_of(cell: PlannedCell, visits: Sequence[Visit]) -> list[ConcurrencyRecord]:
    mine = [v for v in visits if v.role == "concurrency" and v.cell == cell.key and v.outcome.status == "done"]
    return [r for v in mine for r in v.outcome.records if isinstance(r, ConcurrencyRecord)]


def rate_of(record: ConcurrencyRecord) -> float:
    """Inferences a second: width over the mean time of one. Counting those that ended would lose the ones under way."""
    return record.width / (float(np.mean(record.ns)) / 1e9)


@dataclass(frozen=True)
class Occupancy:
    """value: the fitted f. residual: the largest relative error of S(W). serialises: what the session did, in words."""

    value: float
    residual: float
    widths: int
    serialises: str | None


def fit_occupancy(slowdowns: Mapping[int, float]) -> tuple[float, float]:
    """The f and its residual, from S by width (1 among them); ValueError when there is no width but one."""
    if len(slowdowns) < 2:
        raise ValueError("an occupancy needs at least two widths")
    widths = np.array(sorted(slowdowns), dtype=float)
    seen = np.array([slowdowns[int(w)] for w in widths])
    grid = np.arange(1, 1001) / 1000
    errors = np.abs(np.maximum(1.0, np.outer(grid, widths)) / seen - 1)
    # where several f explain it equally (all widths at full speed) the largest is taken: nothing shows that less is enough
    sums = np.sum(errors**2, axis=1)
    best = int(np.flatnonzero(sums <= sums.min() * (1 + 1e-9) + 1e-12)[-1])
    return float(grid[best]), float(errors[best].max())


def occupancy_of(cell: PlannedCell, visits: Sequence[Visit]) -> Occupancy | None:
    """The fit over sessions of their own; None where it was not measured at two widths."""
    points = points_of(cell, visits)
    own = {p.width: p.slowdown for p in points if p.how == "sessions"}
    if len(own) < 2:
        return None
    value, residual = fit_occupancy(own)
    shared = {p.width: p.slowdown for p in points if p.how == "threads"}
    more = [w for w in shared if w in own and shared[w] > 1.1 * own[w]]
    told = (
        f"on one session {max(more)} at once took {shared[max(more)] / own[max(more)]:.2f} times as long as on a session each"
        if more
        else None
    )
    return Occupancy(value, residual, len(own), told)


def points_of(cell: PlannedCell, visits: Sequence[Visit]) -> list[ConcurrencyPoint]:
    """What was measured at each width; empty without the rate of one alone."""
    records = records_of(cell, visits)
    alone = [rate_of(r) for r in records if r.width == 1]
    if not alone:
        return []
    return [
        ConcurrencyPoint(
            tokens=cell.tokens,
            batch=cell.batch,
            how=r.how,
            width=r.width,
            rate_per_s=Figure(value=rate_of(r), origin="measured", n=len(r.ns)),
            median_s=Figure(value=median(r.ns) / 1e9, origin="measured", n=len(r.ns)),
            slowdown=r.width * alone[0] / rate_of(r),
        )
        for r in records
    ]
