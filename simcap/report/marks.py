"""The parts that the figures of a report share: axes, bands, the SLO line, the capacity strip, what hovering shows.

Enters: a `Result` or rows of `simcap.report.frames`. Leaves: Altair charts and channels without colours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import altair as alt

from sim.result import Result
from simcap.report import frames, words
from simcap.report.knee import knee_of

HEIGHT = 300
ENDS = {"lo": "95 % from", "hi": "to"}  # ends of an interval in a tooltip
WIDE = 20.0  # a ratio of largest to smallest from which an axis is logarithmic


@dataclass(frozen=True)
class Figure:
    """`alt`: what the figure shows, for those who do not see it. `rows`: the data that it draws."""

    key: str
    title: str
    caption: str
    alt: str
    rows: frames.Rows
    spec: dict[str, Any]


def log_loads(result: Result) -> bool:
    """True where the loads tried lie so far apart that their axis is logarithmic."""
    return result.points[-1].load / result.points[0].load >= WIDE


def load_scale(result: Result) -> alt.Scale:
    if log_loads(result):
        return alt.Scale(type="log", nice=False, padding=16)  # Vega warns of `zero` beside a logarithm
    return alt.Scale(zero=False, nice=False, padding=16)


def loads(result: Result) -> alt.X:
    log = log_loads(result)
    tried = [point.load for point in result.points]
    axis = alt.Axis(values=tried, labelOverlap="greedy") if log else alt.Axis(tickCount=8)
    return alt.X("load:Q", title=words.load_title(result.capacity.load_kind), scale=load_scale(result), axis=axis)


def data(rows: frames.Rows) -> alt.InlineData:
    return alt.InlineData(values=rows)


def spec(chart: alt.LayerChart | alt.FacetChart | alt.Chart) -> dict[str, Any]:
    """The chart as a Vega-Lite specification as wide as its place."""
    whole: dict[str, Any] = chart.properties(width="container", height=HEIGHT).to_dict()
    whole.pop("config", None)  # Altair's own theme; ours is added where the figure is drawn
    return whole


def rule_at(axis: str, value: float, style: str) -> alt.Chart:
    channel = alt.Y("at:Q") if axis == "y" else alt.X("at:Q")
    rule: alt.Chart = alt.Chart(data([{"at": value}])).mark_rule(style=style).encode(channel)
    return rule


def slo_label(value: float, text: str, dy: int = -6) -> alt.Chart:
    return label_at(value, text, "slo-label", dy)


def label_at(value: float, text: str, style: str, dy: int = -6) -> alt.Chart:
    """Text at the left end of a line across the figure."""
    mark = alt.Chart(data([{"at": value, "text": text}])).mark_text(style=style, align="left", dx=4, dy=dy)
    label: alt.Chart = mark.encode(alt.Y("at:Q"), x=alt.value(0), text=alt.Text("text:N"))
    return label


def knee(result: Result) -> list[alt.Chart]:
    """A line at the knee with its load, or nothing where the loads tried hold none."""
    found = knee_of(result)
    if found is None:
        return []
    chart = alt.Chart(data([{"load": found.load, "text": f"knee {words.number(found.load)}"}]))
    rule = chart.mark_rule(style="knee").encode(loads(result))
    text = chart.mark_text(style="knee-label", align="left", baseline="top", dx=5, dy=2)
    return [rule, text.encode(loads(result), y=alt.value(0), text=alt.Text("text:N"))]


def capacity_band(result: Result) -> list[alt.Chart]:
    """The loads between which capacity lies, as a shaded strip; nothing where no such strip is known."""
    lo, hi = result.capacity.lo, result.capacity.hi
    if lo is None or hi is None:
        return []
    strip = alt.Chart(data([{"load": lo, "to": hi}])).mark_rect(style="capacity")
    return [strip.encode(loads(result), alt.X2("to:Q"))]


def hover(result: Result) -> alt.Chart:
    """Strips from one load's middle to the next: pointing at one tells all that is known at its load."""
    over = alt.selection_point(name="over", on="pointerover", clear="pointerout", fields=["load"], empty=False)
    tips = [alt.Tooltip("load:Q", title=words.load_title(result.capacity.load_kind))]
    tips += [alt.Tooltip(f"{name}:N", title=f"{name} (ms)") for name in frames.PERCENTILES]
    tips += [
        alt.Tooltip("within_slo:N", title="within SLO"),
        alt.Tooltip("bottleneck:N", title="bottleneck"),
        alt.Tooltip("verdict:N", title="verdict"),
    ]
    chart = alt.Chart(data(frames.summary(result, log=log_loads(result)))).mark_rect(style="hover")
    shown = alt.when(over).then(alt.value(0.12)).otherwise(alt.value(0.0))
    x = alt.X("strip_from:Q", scale=load_scale(result))
    hovered: alt.Chart = chart.encode(x, alt.X2("strip_to:Q"), fillOpacity=shown, tooltip=tips).add_params(over)
    return hovered


def lines(rows: frames.Rows, result: Result, value: str, series: str, y: alt.Y, colour: alt.Color) -> list[alt.Chart]:
    """A line with points for each series and its 95 % band."""
    base = alt.Chart(data(rows)).encode(loads(result), colour)
    tips = [
        alt.Tooltip("load:Q", title=words.load_title(result.capacity.load_kind)),
        alt.Tooltip(f"{series}:N"),
        alt.Tooltip(f"{value}:Q", format=".4~g"),
        *(alt.Tooltip(f"{value}_{end}:Q", format=".4~g", title=title) for end, title in ENDS.items()),
    ]
    band = base.mark_area(style="band").encode(alt.Y(f"{value}_lo:Q"), alt.Y2(f"{value}_hi:Q"))
    return [band, base.mark_line().encode(y), base.mark_point(style="dot").encode(y, tooltip=tips)]


def latency_axis(values: list[float]) -> alt.Y:
    """Linear from 0, or logarithmic with round ticks where the values are far apart."""
    lo, hi = min(values), max(values)
    if lo <= 0 or hi / lo < WIDE:
        return alt.Y("latency_ms:Q", title="latency (ms)", scale=alt.Scale(zero=True))
    steps = (1, 2, 5) if hi / lo < 1000 else (1,)
    decades = range(math.floor(math.log10(lo)) - 1, math.ceil(math.log10(hi)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    scale = alt.Scale(type="log", nice=False, domain=[lo / 1.3, hi * 1.3])
    axis = alt.Axis(
        values=[tick for tick in ticks if lo / 1.3 <= tick <= hi * 1.3], format="~s" if hi >= 1e6 else ",~g"
    )
    return alt.Y("latency_ms:Q", title="latency (ms, log scale)", scale=scale, axis=axis)


def legend() -> alt.Legend:
    return alt.Legend(title=None, orient="top", labelLimit=290)
