"""A plot for each table of `benchmarks/run.py`: PNG files in the given directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from benchmarks.sweeps import exponents

SPARSE = alt.Axis(values=[base * 10**power for power in range(8) for base in (1, 2, 5)], format="~s")


def save_all(result: dict[str, Any], directory: Path) -> None:
    speed = [{"against": "SimPy, a process a request", "engine": k, "times": v} for k, v in result["speed"].items()]
    speed += [{"against": "Ciw, M/M/4", "engine": k, "times": v} for k, v in result["ciw"].items()]
    for gpus, times in result["fleet_sim"].items():
        speed.append({"against": "fleet-sim", "engine": gpus, "times": times})
    base = alt.Chart(pd.DataFrame(speed)).encode(
        x=alt.X("times:Q", scale=alt.Scale(type="log", domainMin=1), title="times faster"),
        y=alt.Y("engine:N", title=None),
        color=alt.Color("against:N", title=None, legend=alt.Legend(orient="bottom")),
    )
    labels = base.mark_text(align="left", dx=10).encode(text=alt.Text("times:Q", format=".3g"))
    (base.mark_point(filled=True, size=90) + labels).properties(width=420, height=160).save(
        directory / "speed.png", scale_factor=2
    )
    grown = pd.DataFrame(result["growth"])
    for what, rows in grown.groupby("what"):
        fits = rows.groupby("engine")["said"].first()
        title = [f"cost a request against {what}", *(f"{k}: {said}" for k, said in fits.items())]
        _lines(rows, "size", "relative", "engine", title).save(directory / f"growth_{what}.png", scale_factor=2)
    swept, fits = pd.DataFrame(result["sweeps"]), exponents(result["sweeps"])
    for what, rows in swept.groupby("what"):
        if len(rows) > 1:
            name = "".join(c if c.isalnum() else "_" for c in str(what))
            chart = _lines(rows, "size", "value", "what", [f"{what}: {rows['unit'].iloc[0]}", str(fits.get(what, ""))])
            chart.save(directory / f"sweep_{name}.png", scale_factor=2)


def _lines(rows: pd.DataFrame, x: str, y: str, colour: str, title: list[str]) -> alt.Chart:
    return (
        alt.Chart(rows)
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{x}:Q", scale=alt.Scale(type="log", nice=False), title=x, axis=SPARSE),
            y=alt.Y(f"{y}:Q", scale=alt.Scale(type="log"), title="relative to the smallest"),
            color=alt.Color(f"{colour}:N", title=None, legend=alt.Legend(orient="bottom")),
        )
        .properties(width=420, height=240, title=title)
    )
