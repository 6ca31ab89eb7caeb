"""When programs were compiled: one bar a compile, from its start to its end, in the first replication at one load.

Enters: a `Result`. Leaves: rows and a `Figure`, or None where nothing was compiled while requests came. Seconds from the
start of the run; tokens of the shape that was compiled.
"""

from __future__ import annotations

import altair as alt

from sim.metrics import MOST_COMPILES
from sim.result import Result
from simcap.report import frames, marks, words
from simcap.report.marks import Figure


def rows_of(result: Result) -> frames.Rows:
    """load, where (signal on provider), tokens, from_s, to_s, took_s: each compile that the result tells one by one."""
    return [
        {
            "load": point.load,
            "where": " on ".join(who.split(":", 1)),
            "tokens": tokens,
            "from_s": begin,
            "to_s": begin + took,
            "took_s": took,
        }
        for point in result.points
        for begin, who, tokens, took in point.compile_events
    ]


def timeline(result: Result) -> Figure | None:
    rows = rows_of(result)
    if not rows:
        return None
    loads = list(dict.fromkeys(row["load"] for row in rows))
    first = frames.shown_load(result) if frames.shown_load(result) in loads else loads[0]
    unit = words.LOADS[result.capacity.load_kind][1]
    pick = alt.param(name="compiled_at", value=first, bind=alt.binding_select(options=loads, name=f"Load in {unit} "))
    tips = [
        alt.Tooltip("where:N", title="session"),
        alt.Tooltip("tokens:Q", format=","),
        alt.Tooltip("from_s:Q", format=".4~g", title="from (s)"),
        alt.Tooltip("took_s:Q", format=".4~g", title="took (s)"),
    ]
    bars = (
        alt.Chart(marks.data(rows))
        .mark_bar(style="compile", height={"band": 0.6})
        .encode(
            alt.X("from_s:Q", title="time since the start (s)"),
            alt.X2("to_s:Q"),
            alt.Y("where:N", title=None, sort=list(dict.fromkeys(row["where"] for row in rows))),
            tooltip=tips,
        )
    )
    bars = bars.transform_filter("datum.load === compiled_at").add_params(pick)
    cut = max(len(p.compile_events) for p in result.points) >= MOST_COMPILES
    return Figure(
        "compiles",
        "Compile events over time",
        "Each bar is one program compiled while requests came, in the first replication; its session stood still as long."
        f" Shown first: {first:g} {unit}." + (f" Only the first {MOST_COMPILES} at each load are told." if cut else ""),
        f"Bars over time, one for each program compiled at {first:g} {unit}, by signal and provider.",
        rows,
        marks.spec(bars),
    )
