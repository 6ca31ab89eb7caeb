"""The pictures of a performance report as SVG: latency against load of each run, and what each change is worth.

Enters: results and what-ifs. Leaves: SVG text in the light theme of `report.html`; the same input gives the same bytes.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from sim.result import Result
from simcap.report import figures, marks, theme
from simcap.report.plots import vega_lite_version
from simcap.whatif.study import WhatIf

WIDTH = 640
WIDEST_LETTER = 6.5
"""Pixels: room for labels in the fonts of any browser, whose letters are wider than those that the drawing is laid out with."""


def latency(result: Result) -> str:
    """Percentiles of latency against load, with the promise."""
    return _svg(figures.latency(result).spec, 260)


def gains(found: WhatIf) -> str | None:
    """Significant changes with their 95 % intervals, the largest first; None where there is none."""
    rows = [
        {"change": c.title, "owner": c.owner, "mean": 100 * c.change, "lo": 100 * c.lo, "hi": 100 * c.hi}
        for c in found.changes
        if c.significant and c.change is not None and c.lo is not None and c.hi is not None
    ]
    if not rows:
        return None
    order = [c.title for c in found.changes if c.significant]
    room = WIDEST_LETTER * max(map(len, order))
    unit = "change of capacity (%)" if found.measure == "capacity" else "change of requests in time (points)"
    base = alt.Chart(marks.data(rows)).encode(
        alt.Y("change:N", sort=order, title=None, axis=alt.Axis(labelLimit=300, minExtent=room)),
        alt.Color("owner:N", legend=alt.Legend(title=None, orient="top", columns=4)),
    )
    bars = base.mark_bar(height=12).encode(alt.X("mean:Q", title=unit))
    ends = base.mark_rule(style="slo-label", strokeWidth=1.5).encode(alt.X("lo:Q", title=unit), alt.X2("hi:Q"))
    return _svg(marks.spec(alt.layer(bars, ends)), 24 * len(rows) + 10)


def _svg(spec: dict[str, Any], height: int) -> str:
    import vl_convert

    whole = spec | {"width": WIDTH, "height": height, "config": theme.config("light")}
    svg: str = vl_convert.vegalite_to_svg(whole, vl_version=vega_lite_version())
    return svg
