"""Colours and type of the figures, for light and dark; the specifications hold none.

`config(mode)` is a Vega-Lite configuration. Percentiles are one hue from pale to strong (they are ordered); resources and
parts are hues that differ in lightness too, so that they can be told apart without colour vision (after Okabe and Ito).
"""

from __future__ import annotations

from typing import Any, Literal

Mode = Literal["light", "dark"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

INK = {"light": "#1f2933", "dark": "#e4e7eb"}
SOFT = {"light": "#52606d", "dark": "#a9b4c0"}
GRID = {"light": "#e4e7eb", "dark": "#323f4b"}
PAPER = {"light": "#ffffff", "dark": "#161d26"}
ALARM = {"light": "#c2410c", "dark": "#fb923c"}
ACCENT = {"light": "#1d6fb8", "dark": "#63b3ed"}

CATEGORIES = {
    "light": ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#6b4fbb", "#7b8794"],
    "dark": ["#56b4e9", "#f28e4b", "#3ccf9f", "#e39ac3", "#f0e442", "#9db8ff", "#b49cf5", "#cbd2d9"],
}
ORDERED = {
    "light": ["#9ecae1", "#4f9fd1", "#1d6fb8", "#0b3d75"],
    "dark": ["#2f6ea8", "#4f9fd1", "#90c8ee", "#dcefff"],
}


def config(mode: Mode) -> dict[str, Any]:
    """The Vega-Lite configuration of one mode."""
    ink, soft = INK[mode], SOFT[mode]
    axis = {
        "labelColor": soft,
        "titleColor": ink,
        "titleFontWeight": "normal",
        "gridColor": GRID[mode],
        "domainColor": soft,
        "tickColor": soft,
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titlePadding": 10,
    }
    return {
        "background": PAPER[mode],
        "font": FONT,
        "view": {"stroke": None},
        "axis": axis,
        "legend": {
            "labelColor": ink,
            "labelFontSize": 12,
            "symbolSize": 90,
            "rowPadding": 4,
            "columnPadding": 18,
            "columns": 4,
        },
        "range": {"category": CATEGORIES[mode], "ordinal": ORDERED[mode]},
        "line": {"strokeWidth": 2, "color": ACCENT[mode]},
        "area": {"color": ACCENT[mode]},
        "point": {"color": ACCENT[mode]},
        "bar": {"stroke": PAPER[mode], "strokeWidth": 0.5},
        "style": {
            "band": {"fillOpacity": 0.2},
            "dot": {"filled": True, "size": 45, "opacity": 1, "fillOpacity": 1},
            "slo": {"color": ALARM[mode], "strokeDash": [6, 4], "strokeWidth": 1.5},
            "slo-label": {"color": ALARM[mode], "fontSize": 12},
            "capacity": {"color": soft, "fillOpacity": 0.16},
            "hover": {"color": ink},
            "knee": {"color": ink, "strokeDash": [2, 3], "strokeWidth": 1.5},
            "knee-label": {"color": ink, "fontSize": 12},
            "full": {"color": ink, "strokeWidth": 1.5},
            "full-label": {"color": ink, "fontSize": 12},
            "offered": {"color": soft, "strokeDash": [2, 3], "strokeWidth": 1.5},
            "histogram": {"color": ACCENT[mode]},
            "compile": {"color": ACCENT[mode]},
        },
    }
