"""The ManualProfile of fleet-sim that comes nearest to a table, and how far it is at each length.

fleet-sim's form: a request of `l_in` and `l_out` tokens takes (ceil(l_in / chunk) + l_out) * (W + H * (l_in + l_out) / C)
seconds with one slot, C the calibration context; the first ceil(l_in / chunk) iterations are its time to first token. A
signal has no answer, so the fit is for a workload of prompts alone, where fleet-sim still counts one token of answer
(`CdfWorkload(..., l_in_frac=1, l_out_frac=0)`). For a given chunk the form is linear in W and H: non-negative least squares
on relative errors; the best of the chunks 8, 16, … is kept (of equal ones that with the better time to first token). One slot at `max_ctx` = C, and only there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from simcap.fleet_sim.tables import Table

ANSWER = 1
CHUNKS = tuple(2**k for k in range(3, 18))


@dataclass(frozen=True)
class ManualFit:
    """`service_error`, `ttft_error`: relative, at the table's lengths; positive where fleet-sim would say longer."""

    w_s: float
    h_s: float
    chunk: int
    context: int
    service_error: tuple[float, ...]
    ttft_error: tuple[float, ...]


def nearest(table: Table) -> ManualFit:
    """The constants whose largest relative error of the time that a text keeps the server is smallest."""
    tokens, busy = np.array(table.tokens, dtype=float), np.array(table.busy_s)
    context = max(int(tokens[-1]) + ANSWER, 512)
    fits = [_fit(tokens, busy, chunk, context) for chunk in CHUNKS]
    return min(fits, key=lambda fit: (round(_worst(fit.service_error), 3), _worst(fit.ttft_error)))


def _worst(errors: tuple[float, ...]) -> float:
    return max(map(abs, errors))


def _fit(tokens: NDArray[np.float64], busy: NDArray[np.float64], chunk: int, context: int) -> ManualFit:
    steps = np.ceil(tokens / chunk)
    columns = np.column_stack([np.ones_like(tokens), (tokens + ANSWER) / context])
    design = (steps + ANSWER)[:, None] * columns / busy[:, None]
    (w, h), _ = optimize.nnls(design, np.ones_like(busy))
    iteration = columns @ np.array([w, h])
    return ManualFit(
        w_s=float(w),
        h_s=float(h),
        chunk=chunk,
        context=context,
        service_error=tuple(((steps + ANSWER) * iteration / busy - 1).tolist()),
        ttft_error=tuple((steps * iteration / busy - 1).tolist()),
    )


def constants(fit: ManualFit, name: str, cost_per_hr: float) -> dict[str, object]:
    """The arguments of fleet-sim's `ManualProfile`, names and units as there."""
    return {
        "name": name,
        "W": fit.w_s,
        "H": fit.h_s,
        "chunk": fit.chunk,
        "blk_size": fit.context,
        "total_kv_blks": 1,
        "max_slots": 1,
        "cost_per_hr": cost_per_hr,
        "calibration_ctx": fit.context,
    }


def api_form(fit: ManualFit, name: str, cost_per_hr: float) -> dict[str, object]:
    """The same as fleet-sim's HTTP interface writes a profile (`GpuProfileOut`)."""
    return {
        "name": name,
        "W_ms": fit.w_s * 1000,
        "H_ms_per_slot": fit.h_s * 1000,
        "chunk": fit.chunk,
        "blk_size": fit.context,
        "total_kv_blks": 1,
        "max_slots": 1,
        "cost_per_hr": cost_per_hr,
    }
