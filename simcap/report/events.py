"""What went wrong and what stood still, as figures and rows: failures by reason, steps down, memory over time, headroom.

Enters: a `Result`. Leaves: `Figure`s (None where the run has nothing of the kind) and rows for the tables of the page.
Shares in percent, memory in GiB (1 GiB = 2^30 bytes), times in seconds from the start of the run, steps down a
thousand requests. Every value is taken from the result or multiplied into its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import altair as alt

from sim.result import Point, Result
from simcap.report import frames, marks, words
from simcap.report.marks import Figure

GIB = float(2**30)


def failure_rows(result: Result) -> frames.Rows:
    """load, reason (words), order, share_pct with _lo and _hi: every reason that occurred, at every load."""
    seen = [reason for reason in words.FAILURES if any(reason in p.failures for p in result.points)]
    seen += sorted({reason for p in result.points for reason in p.failures} - set(seen))
    nothing = {"share_pct": 0.0, "share_pct_lo": 0.0, "share_pct_hi": 0.0}
    return [
        {"load": p.load, "reason": words.failure(reason), "order": order}
        | (frames.scaled("share_pct", p.failures[reason], 100) if reason in p.failures else nothing)
        for p in result.points
        for order, reason in enumerate(seen)
    ]


def failures(result: Result) -> Figure | None:
    """Stacked shares of failed requests by reason and load; None where none failed."""
    rows = failure_rows(result)
    if not rows:
        return None
    names = list(dict.fromkeys(row["reason"] for row in rows))
    colour = alt.Color("reason:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    x = alt.X("load:O", title=words.load_title(result.capacity.load_kind), axis=alt.Axis(labelAngle=0))
    y = alt.Y("share_pct:Q", title="failed requests (%)", stack="zero")
    tips = [
        alt.Tooltip("load:Q"),
        alt.Tooltip("reason:N"),
        alt.Tooltip("share_pct:Q", format=".3~g", title="share (%)"),
    ]
    tips += [alt.Tooltip(f"share_pct_{end}:Q", format=".3~g", title=title) for end, title in marks.ENDS.items()]
    bars = alt.Chart(marks.data(rows)).mark_bar().encode(x, y, colour, order=alt.Order("order:Q"), tooltip=tips)
    return Figure(
        "failures",
        "Why requests failed",
        "Share of all requests that got no answer, by reason. They stay in the denominator of the promise and count as "
        "endless in every latency percentile.",
        f"Stacked bars of failed requests by load, in percent: {', '.join(names)}.",
        rows,
        marks.spec(bars),
    )


def memory_rows(result: Result) -> frames.Rows:
    """load, time_s, memory_gib: each recorded change on the fullest device in the first replication."""
    return [
        {"load": p.load, "time_s": time, "memory_gib": used / GIB}
        for p in result.points
        for time, used in p.memory_timeline
    ]


def memory(result: Result) -> Figure | None:
    """Memory in use over time at one load; None where memory was not simulated."""
    rows = memory_rows(result)
    if not rows:
        return None
    loads = list(dict.fromkeys(row["load"] for row in rows))
    first = frames.shown_load(result) if frames.shown_load(result) in loads else loads[0]
    unit = words.LOADS[result.capacity.load_kind][1]
    pick = alt.param(name="memory_at", value=first, bind=alt.binding_select(options=loads, name=f"Load in {unit} "))
    tips = [
        alt.Tooltip("time_s:Q", format=".4~g", title="time (s)"),
        alt.Tooltip("memory_gib:Q", format=".4~g", title="in use (GiB)"),
    ]
    base = alt.Chart(marks.data(rows)).encode(
        alt.X("time_s:Q", title="time since the start (s)"),
        alt.Y("memory_gib:Q", title="memory in use (GiB)", scale=alt.Scale(zero=False)),
    )
    layers = [base.mark_line(interpolate="step-after"), base.mark_point(style="dot").encode(tooltip=tips)]
    layers = [layer.transform_filter("datum.load === memory_at") for layer in layers]
    layers[0] = layers[0].add_params(pick)
    limits, said = _limits(result)
    return Figure(
        "memory",
        "Memory over time",
        "Bytes in use on the fullest device in the first replication, co-tenants included. Only changes are drawn: after "
        f"the last point nothing changed.{said} Shown first: {first:g} {unit}. The axis does not begin at 0.",
        f"Step line of memory in use over time at {first:g} {unit}, below the device's memory and its watermark.",
        rows,
        marks.spec(alt.layer(*layers, *limits)),
    )


def _limits(result: Result) -> tuple[list[alt.Chart], str]:
    """The device's memory and its watermark as labelled lines, and what the caption says of them."""
    full, share = result.memory_capacity_bytes, result.memory_watermark
    if full is None or share is None:
        return [], ""
    mark = f"watermark {100 * share:g} %"
    lines = [
        marks.rule_at("y", full / GIB, "full"),
        marks.label_at(full / GIB, f"all of it: {full / GIB:.4g} GiB", "full-label", dy=12),
        marks.rule_at("y", share * full / GIB, "slo"),
        marks.label_at(share * full / GIB, f"{mark}: {share * full / GIB:.4g} GiB", "slo-label", dy=12),
    ]
    return lines, f" Line: the device's memory; dashed: its {mark}."


def stepping_rows(result: Result) -> frames.Rows:
    """load, step (signal, provider left, reason), per_1000: steps down from a provider in a thousand requests."""
    return [
        {"load": load, "step": f"{step.signal} left {step.provider}: {step.reason}", "per_1000": count}
        for step in steps_down(result)
        for load, count in step.per_1000.items()
    ]


def stepping(result: Result) -> Figure | None:
    """Stacked steps down by load; None where no signal ever left a provider."""
    rows = stepping_rows(result)
    if not rows:
        return None
    names = list(dict.fromkeys(row["step"] for row in rows))
    colour = alt.Color("step:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    x = alt.X("load:O", title=words.load_title(result.capacity.load_kind), axis=alt.Axis(labelAngle=0))
    y = alt.Y("per_1000:Q", title="steps down per 1000 requests", stack="zero")
    tips = [
        alt.Tooltip("load:Q"),
        alt.Tooltip("step:N"),
        alt.Tooltip("per_1000:Q", format=".4~g", title="per 1000 requests"),
    ]
    return Figure(
        "stepping",
        "Fallback: steps down from a provider",
        "How often a signal left a provider for the next of its order, or went without an answer, and why.",
        f"Stacked bars of steps down by load: {'; '.join(names)}.",
        rows,
        marks.spec(alt.Chart(marks.data(rows)).mark_bar().encode(x, y, colour, tooltip=tips)),
    )


@dataclass(frozen=True)
class Step:
    """One way a signal left a provider. `per_1000`: load -> mean count a thousand requests, 0 where it never did."""

    signal: str
    provider: str
    reason: str
    per_1000: Mapping[float, float]


def steps_down(result: Result) -> list[Step]:
    """Every step down that occurred, in the order of its name."""
    keys = sorted({key for point in result.points for key in point.steps_down})
    return [
        Step(
            signal,
            provider,
            words.step_reason(reason),
            {p.load: 1000 * p.steps_down.get(key, 0.0) for p in result.points},
        )
        for key in keys
        for signal, provider, reason in [key.split(":", 2)]
    ]


def has_events(result: Result) -> bool:
    """Whether the run modelled stalls, fallback or memory, or a request failed."""
    return any(
        p.failures or p.steps_down or p.compile_stall_s or p.fallback_fraction or p.vram_peak_bytes is not None
        for p in result.points
    )


def roomy_point(result: Result) -> Point:
    """The load point whose headroom is shown: the highest that passed in an unbroken run, or the lowest tried."""
    return next((p for p in result.points if p.load == result.capacity.lo), result.points[0])
