"""The figures of a report as files: `<key>.png` and `<key>.svg`, light theme, for slides and documents.

Enters: a `Result` and a directory. Leaves: files of 760 x 300 (PNG at twice that); the same result gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sim.result import Result

WIDTH = 760


def vega_lite_version() -> str:
    """The Vega-Lite version that the specifications are written in, as vl-convert names it (`6.4`)."""
    import altair as alt

    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def save_all(result: Result, directory: Path) -> None:
    """Write every figure of the result."""
    import vl_convert

    from simcap.report import figures, theme

    directory.mkdir()
    for figure in figures.figures(result):
        spec: dict[str, Any] = figure.spec | {"width": WIDTH, "config": theme.config("light")}
        svg: str = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())
        png: bytes = vl_convert.svg_to_png(svg, scale=2.0)  # the same bytes as from the specification, and sooner
        (directory / f"{figure.key}.svg").write_text(svg, encoding="utf-8")
        (directory / f"{figure.key}.png").write_bytes(png)
