"""A comparison in words and as a table of at most 80 columns for a terminal.

Enters: a `simcap.comparison.Comparison`. Leaves: sentences and a rich table. Changes in percent; for shares in percentage
points (pp). The brackets hold the 95 % interval of the change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcap.report import words

if TYPE_CHECKING:
    from rich.table import Table

    from simcap.comparison import Against, Comparison, Difference, Variant

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
    capacity = other.capacity
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
        values = (value(d, d.first), value(d, d.other))
        made.add_row(load, NAMES[d.figure], *values, change(d), Text(d.verdict, style=STYLES[d.verdict]))
    return made


def verdicts(comparison: Comparison) -> Table:
    """One row a variant: its capacity, the change of it against the first, what breaks first."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column("variant", overflow="fold")
    made.add_column(f"capacity\n{words.LOADS[comparison.load_kind][1]}", justify="right", overflow="fold")
    made.add_column(f"change of it\n[{100 * comparison.capacity_level:.4g} %]", no_wrap=True)
    made.add_column("verdict", no_wrap=True)
    made.add_column("breaks first", overflow="fold")
    for place, variant in enumerate(comparison.variants):
        found = comparison.others[place - 1].capacity if place else None
        verdict = Text("") if found is None else Text(found.verdict, style=STYLES[found.verdict])
        said = "(the first)" if found is None else change(found)
        made.add_row(variant.name, capacity_of(variant), said, verdict, variant.breaks_first)
    return made


def capacity_of(variant: Variant) -> str:
    """`4.61±0.12`, or the loads between which it lies."""
    if variant.capacity.mean is not None:
        return words.plus_minus(variant.capacity)
    lo, hi = variant.bracket.lo, variant.bracket.hi
    if lo is None:
        return words.ABSENT if hi is None else f"below {hi:g}"
    return f"{lo:g} or more" if hi is None else f"{lo:g} to {hi:g}"


def value(difference: Difference, value: float | None) -> str:
    """A mean as the table has it: latencies in ms, shares in percent."""
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
    several = len(comparison.others) > 1
    together = (
        f" Changes of capacity: {len(comparison.others)} intervals that hold together in 95 of 100 comparisons (Bonferroni)."
        if several
        else ""
    )
    return (
        f"{how}{together} different: holds when all figures are counted (Holm); unclear: the interval leaves out 0, "
        "which one in 20 does by chance."
    )
