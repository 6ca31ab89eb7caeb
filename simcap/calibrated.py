"""What a finished calibration says on the terminal.

Enters: the request and what it gave. Leaves: a table a model on stdout, lines on compiling, occupancy, drift, memory, options
and tokenizers, how quiet the machine was; a FindingError when the profile was written and something in it needs attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from profiles.errors import FindingError
from simcap.screen import print_table, print_wrapped

if TYPE_CHECKING:
    from calibrate.request import Finished, Request
    from profiles.entry import Entry


def say(request: Request, finished: Finished) -> None:
    """Print the tables and what stands beside them; FindingError when something needs attention."""
    if finished.resumed:
        typer.echo(f"went on from {finished.resumed} visits of an interrupted run")
    for entry in finished.profile.entries:
        typer.echo(f"{entry.key}{_ran(entry)}")
        columns = ("tokens", "batch", "cadence", "p50 ms", "95 % of p50", "p95 ms", "p99 ms", "n")
        if rows := rows_of(entry):
            print_table(columns, rows, right=[c for c in columns if c != "cadence"])
        for line in _beside(entry):
            typer.echo(line)
    for one in finished.profile.interference or ():
        beside = ", ".join(f"{m.model} {m.artifact} at {m.tokens} tokens {m.slowdown:.2f}" for m in one.members)
        print_wrapped(
            f"together on {one.provider}: {beside} times as long as alone; the sharing law expects {one.expected:.2f}, "
            f"and errs by up to {one.residual:.0%}"
        )
    if finished.drift is not None:
        print_wrapped(finished.drift.told())
    typer.echo(f"profile: {request.out}")
    if finished.failures:
        listed = "\n".join(finished.failures)
        raise FindingError(f"{request.out} was written, but look at this:\n{listed}")


def _ran(entry: Entry) -> str:
    if entry.ownership is None:
        return ""
    nodes = ", ".join(f"{count} on {name}" for name, count in entry.ownership.nodes.items())
    return f": {entry.ownership.verdict}, " + (f"nodes {nodes}" if nodes else "no session with it could be made")


def _beside(entry: Entry) -> list[str]:
    """Compile times with what the cache did, occupancy, drift, memory, options, and the tokenizer's cost."""
    lines = []
    for cell in entry.compile.cells if entry.compile else ():
        interval = f", 95 % {cell.median_lo:.2f} to {cell.median_hi:.2f}" if cell.median_lo and cell.median_hi else ""
        what = "first run and session" if entry.compile and entry.compile.per_shape else "session"
        lines.append(f"{what}, cache {cell.cache}: p50 {float(cell.law().ppf(0.5)):.2f} s{interval}, n {cell.n}")
    if entry.compile and entry.compile.proof:
        lines.append(f"cache: {entry.compile.proof}")
    fitted = entry.occupancy if entry.concurrency else ()
    lines += [f"occupancy at {p.tokens} tokens: {p.value:.2f} ({p.doubt})" for p in fitted]
    if (a := entry.accuracy) is not None:
        parts = [("largest difference", a.max_abs_difference), ("cosine", a.cosine), ("same labels", a.label_agreement)]
        told = ", ".join(f"{name} {f.value:.4g}" for name, f in parts if f is not None)
        lines.append(f"drift from {a.reference}: {told}, {a.non_finite_outputs} not finite")
    if (m := entry.memory) is not None and m.weights_bytes is not None and m.cells:
        largest = max(m.cells, key=lambda c: c.tokens * c.batch)
        weights, steady = m.weights_bytes.value, largest.steady_bytes.value if largest.steady_bytes else None
        kept = "" if steady is None else f", of which {max(0.0, steady - weights) / 1e6:.0f} MB stay held after it"
        peak = f"{max(0.0, largest.peak_bytes.value - weights) / 1e6:.0f} MB more at {largest.tokens} tokens"
        lines.append(f"memory: {weights / 1e6:.0f} MB after loading, {peak}{kept}")
    lines += [f"option {e.name}={e.value}: {e.told}" for e in entry.effects or ()]
    if (t := entry.tokenizer) is not None:
        base, slope = t.base_s, t.per_token_s
        told = "" if slope.lo is None or slope.hi is None else f" (95 % {slope.lo * 1e6:.3g} to {slope.hi * 1e6:.3g})"
        lines.append(
            f"tokenizer: {base.value * 1e6:.3g} µs and {slope.value * 1e6:.3g} µs a token{told}; "
            f"largest error of the line {t.largest_residual:.0%}"
        )
    return lines


def rows_of(entry: Entry) -> list[tuple[str, ...]]:
    """A row a cell and cadence, in milliseconds."""
    rows: list[tuple[str, ...]] = []
    for surface in (entry.service, entry.paced_service):
        for cell in surface.cells if surface else ():
            p50, p95, p99 = (_ms(float(cell.law().ppf(q))) for q in (0.5, 0.95, 0.99))
            interval = f"{_ms(cell.median_lo)} to {_ms(cell.median_hi)}" if cell.median_lo and cell.median_hi else "?"
            where = (str(cell.tokens), str(cell.batch), surface.cadence if surface else "")
            rows.append((*where, p50, interval, p95, p99, str(cell.n)))
    return rows


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"
