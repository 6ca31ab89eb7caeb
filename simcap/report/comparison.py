"""A comparison in words and as a table of at most 80 columns for a terminal.

Enters: a `simcap.compare.Comparison`. Leaves: sentences and a rich table. Changes in percent; for shares in percentage
points (pp). The brackets hold the 95 % interval of the change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcap.report import words

if TYPE_CHECKING:
    from rich.table import Table

    from simcap.compare import Against, Comparison, Difference

NAMES = {
    "capacity": "capacity",
    "latency_mean": "mean ms",
    "latency_p50": "p50 ms",
    "latency_p95": "p95 ms",
    "latency_p99": "p99 ms",
    "throughput_rps": "answers/s",
    "slo_attainment": "within SLO %",
}
SHARES = frozenset({"slo_attainment"})
STYLES = {"different": "bold", "unclear": "yellow", "none found": "dim", "same": "dim", "unknown": "dim"}


def change(difference: Difference) -> str:
    """`+38 % [34, 42]`, `-1.2 pp [-1.5, -0.9]`, or a dash where there is no interval."""
    if difference.change is None or difference.lo is None or difference.hi is None:
        return words.ABSENT
    unit = "pp" if difference.figure in SHARES else "%"
    ends = (100 * difference.lo, 100 * difference.hi)
    return f"{_signed(100 * difference.change)} {unit} [{', '.join(_plain(end) for end in ends)}]"


def _plain(value: float) -> str:
    """Three digits, none beyond the hundredth: a change is no more certain than that."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{round(value, 2) + 0.0:.3g}"


def _signed(value: float) -> str:
    text = _plain(value)
    return text if text.startswith("-") or text == "0" else f"+{text}"


def headline(comparison: Comparison, other: Against) -> str:
    """The change of capacity in one sentence, or why it is not known."""
    capacity = next(d for d in other.differences if d.figure == "capacity")
    subject = f"{other.name} against {comparison.first}"
    if capacity.change is not None and capacity.first is not None and capacity.other is not None:
        unit = words.LOADS[comparison.load_kind][1]
        said = f"{change(capacity)} capacity, {words.number(capacity.first)} to {words.number(capacity.other)} {unit}"
        return f"{subject}: {said} ({capacity.verdict})."
    return f"{subject}: capacity {capacity.verdict} ({capacity.why})."


def table(other: Against) -> Table:
    """One row a figure and load; capacity stands in the headline."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("load", "figure", "first", "other"):
        made.add_column(heading, justify="left" if heading == "figure" else "right", no_wrap=True)
    made.add_column("change [95 %]", no_wrap=True)
    made.add_column("verdict", no_wrap=True)
    last = None
    for d in other.differences:
        if d.load is None:
            continue
        load = "" if d.load == last else f"{d.load:g}"
        last = d.load
        values = (_value(d, d.first), _value(d, d.other))
        made.add_row(load, NAMES[d.figure], *values, change(d), Text(d.verdict, style=STYLES[d.verdict]))
    return made


def _value(difference: Difference, value: float | None) -> str:
    if difference.figure in SHARES:
        return words.percent(value)
    return words.short(value if value is None or not difference.figure.startswith("latency") else value * 1000)


def legend(comparison: Comparison) -> str:
    """How the intervals were made and what the verdicts mean."""
    how = {
        "paired": "Paired 95 % t intervals: each replication of both variants had the same random numbers.",
        "unpaired": "Unpaired (Welch) 95 % intervals from the means and half widths in the results, which do not hold the "
        "single replications.",
    }[comparison.method]
    return (
        f"{how} different: holds when all figures of this table are counted (Holm); unclear: the interval leaves out 0, "
        "which one in 20 does by chance."
    )
