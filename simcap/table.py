"""The capacity curve as rows: `curve.csv` for machines, a table of at most 80 columns for a terminal.

Enters: `sim.result.Result`. Leaves: CSV bytes that depend on the result alone (`curve_csv`), a rich table
(`curve_table`). In the CSV a blank field means: this run did not model it. Latencies in ms, other units in the names.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from sim.result import LATENCY_STATISTICS, Interval, Point, Result
from simcap.report import words

if TYPE_CHECKING:
    from rich.table import Table

CONTRACT_COLUMNS = (
    "offered_rps",
    "throughput_rps",
    "goodput_rps",
    *(f"latency_{name}_ms{end}" for name in LATENCY_STATISTICS for end in ("", "_lo", "_hi")),
    "slo_attainment",
    "slo_attainment_lo",
    "slo_attainment_hi",
    "utilisation_device",
    "utilisation_cpu",
    "utilisation_lock",
    "queue_wait_p99_ms",
    "vram_peak_bytes",
    "compile_stall_s",
    "fallback_fraction",
    "failed_fraction",
    "bottleneck",
)
"""Readers rely on these names and this order; new columns are appended after them."""

EXTRA_COLUMNS = ("load_kind", "load", "verdict", "saturated")

VERDICT_WORDS = {"pass": "pass", "fail": "FAIL", "indeterminate": "indet."}
VERDICT_STYLES = {"pass": "green", "fail": "bold red", "indeterminate": "yellow"}


def highest(point: Point, prefix: str) -> float | None:
    """The highest mean utilisation among the resources whose key starts with `prefix`; None when there is none."""
    found = [interval.mean for key, interval in point.utilisation.items() if key.startswith(prefix)]
    return max((mean for mean in found if mean is not None), default=None)


def curve_row(point: Point) -> dict[str, float | str | bool | None]:
    """One load point under the column names of `curve.csv`; None where not modelled."""
    row: dict[str, float | str | bool | None] = {
        "offered_rps": point.offered_rps.mean,
        "throughput_rps": point.throughput_rps.mean,
        "goodput_rps": point.goodput_rps.mean,
    }
    for name in LATENCY_STATISTICS:
        row |= _three(f"latency_{name}_ms", point.latency_s[name], 1000)
    row |= _three("slo_attainment", point.slo_attainment, 1)
    waited = point.queue_wait_p99_s.mean
    return row | {
        "utilisation_device": highest(point, "device:"),
        "utilisation_cpu": highest(point, "router_cpu"),
        "utilisation_lock": highest(point, "lock:"),
        "queue_wait_p99_ms": None if waited is None else waited * 1000,
        "vram_peak_bytes": point.vram_peak_bytes,
        "compile_stall_s": point.compile_stall_s.mean if point.compile_stall_s else None,
        "fallback_fraction": point.fallback_fraction.mean if point.fallback_fraction else None,
        "failed_fraction": point.failed_fraction.mean,
        "bottleneck": point.bottleneck,
        "load_kind": point.load_kind,
        "load": point.load,
        "verdict": point.verdict,
        "saturated": point.saturated,
    }


def _three(name: str, interval: Interval, scale: float) -> dict[str, float | str | bool | None]:
    ends = {name: interval.mean, f"{name}_lo": interval.lo, f"{name}_hi": interval.hi}
    return {key: None if value is None else value * scale for key, value in ends.items()}


def curve_csv(result: Result) -> bytes:
    """The file `curve.csv`; the same result gives the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = (*CONTRACT_COLUMNS, *EXTRA_COLUMNS)
    writer.writerow(columns)
    for point in result.points:
        row = curve_row(point)
        writer.writerow([_cell(row[column]) for column in columns])
    return text.getvalue().encode()


def _cell(value: float | str | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else format(value, ".9g")


def curve_table(result: Result) -> Table:
    """The curve for a terminal of 80 columns; `±` is half of the 95 % interval, `*` marks saturated loads."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    unit = {"rps": "req/s", "rate_scale": "× rate", "burst_size": "burst", "clients": "clients"}[
        result.capacity.load_kind
    ]
    for heading in (f"load\n{unit}", "through-\nput req/s", "p50\nms", "p95\nms", "p99\nms", "within\nSLO %"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("bottle-\nneck", overflow="fold")
    table.add_column("\nverdict", no_wrap=True)
    for point in result.points:
        table.add_row(
            f"{point.load:g}",
            words.plus_minus(point.throughput_rps),
            *(_latency(point, name) for name in ("p50", "p95", "p99")),
            words.percent_interval(point.slo_attainment),
            Text(words.resource(point.bottleneck)),
            Text(VERDICT_WORDS[point.verdict] + ("*" if point.saturated else ""), style=VERDICT_STYLES[point.verdict]),
        )
    return table


def _latency(point: Point, name: str) -> str:
    """In ms; without an interval where the queue grows without end, since it would bound the run and not the node."""
    interval = point.latency_s[name]
    if point.saturated and interval.mean is not None:
        return words.short(interval.mean * 1000)
    return words.milliseconds(interval)


def legend(result: Result) -> str:
    """What the marks of the table mean."""
    text = f"± half a 95 % interval over {words.replications(result)} replications. SLO: {words.promise(result)}."
    if any(point.saturated for point in result.points):
        text += " * saturated: the queue grows without end; latencies there only say how long the run was."
    return text
