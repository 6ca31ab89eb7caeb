"""The figures of a comparison: capacities, their changes, and the curves of variants laid over one another.

Enters: a `simcap.comparison.Comparison`. Leaves: `Figure`s without colours of their own, as in `simcap.report.figures`. An eye
tells at most eight lines apart: of more variants the first and those whose capacity changed most are drawn as curves.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from sim.result import Interval
from simcap.comparison import Comparison, Variant
from simcap.report import frames, marks, words
from simcap.report.marks import Figure

MOST_LINES = 8
ROW = 26  # pixels of a variant in a list of them
LABEL = 260
LEAST = 180


def figures(comparison: Comparison) -> list[Figure]:
    """All figures of the page, in reading order; capacities only where some are known."""
    made = [capacities(comparison), changes(comparison), latency(comparison), attainment(comparison)]
    return [figure for figure in made if figure is not None]


def drawn(comparison: Comparison) -> list[Variant]:
    """The variants whose curves are shown."""
    first, *others = comparison.variants
    moved = {other.name: abs(other.capacity.change or 0.0) for other in comparison.others}
    most = sorted(range(len(others)), key=lambda k: -moved[others[k].name])[: MOST_LINES - 1]
    return [first, *(others[k] for k in sorted(most))]


def capacities(comparison: Comparison) -> Figure | None:
    unit = words.LOADS[comparison.load_kind][1]
    rows = [
        {"variant": v.name, **frames.scaled("capacity", v.capacity, 1.0), "breaks first": v.breaks_first}
        for v in comparison.variants
        if v.capacity.mean is not None
    ]
    if not rows:
        return None
    return Figure(
        "capacity",
        "Capacity of each variant",
        "The highest load that keeps the promise: mean over replications and its 95 % interval. Nothing is drawn where not "
        "every replication says one.",
        f"Capacity in {unit} of {len(rows)} variants, with intervals.",
        rows,
        _list(rows, "capacity", f"capacity ({unit})", []),
    )


def changes(comparison: Comparison) -> Figure | None:
    rows = [
        {
            "variant": other.name,
            "change_pct": 100 * d.change,
            "change_pct_lo": 100 * d.lo,
            "change_pct_hi": 100 * d.hi,
            "verdict": d.verdict,
        }
        for other in comparison.others
        if (d := other.capacity).change is not None and d.lo is not None and d.hi is not None
    ]
    if not rows:
        return None
    level = f"{100 * comparison.capacity_level:.4g} %"
    together = "" if len(comparison.others) == 1 else ", so that all of them hold together in 95 of 100 comparisons"
    return Figure(
        "change",
        f"Change of capacity against {comparison.first}",
        f"Intervals at {level}{together}. One that leaves out 0 is more than chance.",
        f"Change of capacity in percent of {len(rows)} variants, with intervals.",
        rows,
        _list(rows, "change_pct", "change of capacity (%)", [marks.rule_at("x", 0.0, "offered")]),
    )


def _list(rows: frames.Rows, value: str, title: str, more: list[alt.Chart]) -> dict[str, Any]:
    """A dot and its interval for each variant, one below the other."""
    names = [row["variant"] for row in rows]
    y = alt.Y("variant:N", sort=names, title=None, axis=alt.Axis(labelLimit=LABEL))
    base = alt.Chart(marks.data(rows)).encode(y)
    scale = alt.Scale(zero=False)
    tips = [
        alt.Tooltip("variant:N"),
        alt.Tooltip(f"{value}:Q", format=".4~g", title=title),
        *(alt.Tooltip(f"{value}_{end}:Q", format=".4~g", title=said) for end, said in marks.ENDS.items()),
    ]
    span = base.mark_rule(strokeWidth=3, style="band").encode(
        alt.X(f"{value}_lo:Q", scale=scale, title=title), alt.X2(f"{value}_hi:Q")
    )
    dots = base.mark_point(style="dot", size=70).encode(alt.X(f"{value}:Q", scale=scale, title=title), tooltip=tips)
    spec = marks.spec(alt.layer(*more, span, dots))
    return spec | {"height": max(ROW * len(rows), LEAST)}


def latency(comparison: Comparison) -> Figure:
    levels = {100 * variant.slo.attainment for variant in comparison.variants}
    limits = {1000 * variant.slo.latency_s for variant in comparison.variants}
    name = f"p{levels.pop():g}" if len(levels) == 1 else "latency at each one's own level"
    rows = _rows(comparison, "latency_ms", lambda point: point.slo_percentile_s, 1000.0)
    axis = marks.latency_axis([row["latency_ms"] for row in rows] + list(limits))
    more = []
    if len(limits) == 1:
        limit = limits.pop()
        more = [marks.rule_at("y", limit, "slo"), marks.slo_label(limit, f"SLO {words.number(limit)} ms")]
    return Figure(
        "latency",
        f"Latency against load: {name}",
        f"The latency that the promise is about; bands are 95 % intervals.{_left_out(comparison)}",
        f"Line chart of {name} by load for {len(drawn(comparison))} variants.",
        rows,
        _curves(rows, comparison, "latency_ms", axis, more),
    )


def attainment(comparison: Comparison) -> Figure:
    rows = _rows(comparison, "within_slo_pct", lambda point: point.slo_attainment, 100.0)
    promised = {100 * variant.slo.attainment for variant in comparison.variants}
    more = []
    if len(promised) == 1:
        share = promised.pop()
        more = [marks.rule_at("y", share, "slo"), marks.slo_label(share, f"promised {share:g} %")]
    axis = alt.Y("within_slo_pct:Q", title="requests within the SLO (%)", scale=alt.Scale(zero=False, nice=True))
    return Figure(
        "attainment",
        "The promise kept",
        f"Share of all requests answered in time; bands are 95 % intervals.{_left_out(comparison)}",
        f"Line chart of the share of requests within the SLO by load for {len(drawn(comparison))} variants.",
        rows,
        _curves(rows, comparison, "within_slo_pct", axis, more),
    )


def _rows(comparison: Comparison, value: str, of: Any, scale: float) -> frames.Rows:
    rows: frames.Rows = []
    for variant in drawn(comparison):
        for point in variant.points:
            found: Interval = of(point)
            if found.mean is not None:  # endless: no place on the axis
                columns = frames.scaled(value, found, scale)
                rows.append({"variant": variant.name, "load": point.load, **columns, "verdict": point.verdict})
    return rows


def _curves(rows: frames.Rows, comparison: Comparison, value: str, y: alt.Y, more: list[alt.Chart]) -> dict[str, Any]:
    loads = [row["load"] for row in rows]
    log = max(loads) / min(loads) >= marks.WIDE
    scale = alt.Scale(type="log", nice=False, padding=16) if log else alt.Scale(zero=False, nice=False, padding=16)
    x = alt.X("load:Q", title=words.load_title(comparison.load_kind), scale=scale)
    names = [variant.name for variant in drawn(comparison)]
    colour = alt.Color("variant:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    dashed = alt.StrokeDash("variant:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    base = alt.Chart(marks.data(rows)).encode(x, colour)
    tips = [
        alt.Tooltip("variant:N"),
        alt.Tooltip("load:Q", title=words.load_title(comparison.load_kind)),
        alt.Tooltip(f"{value}:Q", format=".4~g"),
        *(alt.Tooltip(f"{value}_{end}:Q", format=".4~g", title=title) for end, title in marks.ENDS.items()),
        alt.Tooltip("verdict:N"),
    ]
    band = base.mark_area(style="band").encode(alt.Y(f"{value}_lo:Q"), alt.Y2(f"{value}_hi:Q"))
    line = base.mark_line().encode(y, dashed)  # equal variants lie on one line: dashes show the one below
    dots = base.mark_point(style="dot").encode(y, tooltip=tips)
    return marks.spec(alt.layer(band, line, dots, *more))


def _left_out(comparison: Comparison) -> str:
    left = len(comparison.variants) - len(drawn(comparison))
    return f" {left} variants whose capacity changed less are not drawn; comparison.json has them." if left else ""
