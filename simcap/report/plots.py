"""The figures of a report as files: `<key>.png` and `<key>.svg`, light theme, for slides and documents.

Enters: a `Result` or figures, and a directory. Leaves: files of 760 x 300 (PNG at twice that); the same result gives the same
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.result import Result

if TYPE_CHECKING:
    from simcap.report.marks import Figure

WIDTH = 760


def vega_lite_version() -> str:
    """The Vega-Lite version that the specifications are written in, as vl-convert names it (`6.4`)."""
    import altair as alt

    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def save_all(result: Result, directory: Path) -> None:
    """Write every figure of the result."""
    from simcap.report import figures

    save(figures.figures(result), directory)


def save(drawn: Sequence[Figure], directory: Path) -> None:
    """Write these figures."""
    import vl_convert

    from simcap.report import theme

    directory.mkdir()
    for figure in drawn:
        spec: dict[str, Any] = figure.spec | {"width": WIDTH, "config": theme.config("light")}
        svg: str = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())
        png: bytes = vl_convert.svg_to_png(svg, scale=2.0)  # the same bytes as from the specification, and sooner
        (directory / f"{figure.key}.svg").write_text(svg, encoding="utf-8")
        (directory / f"{figure.key}.png").write_bytes(png)
