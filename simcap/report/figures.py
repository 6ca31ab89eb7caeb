"""The figures of a report as Altair charts.

Enters: a `Result`. Leaves: `Figure`s: a key, what a person reads about it, and a Vega-Lite specification without colours
of its own: colours come from the theme (`simcap.report.theme`), so that one specification serves light, dark and print.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from sim.result import Result
from simcap.report import compiles, events, frames, marks, words
from simcap.report.knee import FACTOR, knee_of
from simcap.report.marks import Figure

VERDICTS = ["pass", "indeterminate", "fail"]


def figures(result: Result) -> list[Figure]:
    """All figures of the report, in reading order; failures and memory only where the run has any."""
    makers = (
        latency,
        attainment,
        throughput,
        utilisation,
        parts,
        shares,
        histogram,
        events.failures,
        events.stepping,
        compiles.timeline,
        events.memory,
    )
    made = (make(result) for make in makers)
    return [figure for figure in made if figure is not None]


def latency(result: Result) -> Figure:
    rows = frames.latency(result)
    values = [row["latency_ms"] for row in rows]
    y = marks.latency_axis([*values, result.slo.latency_s * 1000])
    colour = alt.Color("percentile:O", sort=list(frames.PERCENTILES), legend=alt.Legend(title=None, orient="top"))
    slo = result.slo.latency_s * 1000
    shaded = " Shaded: capacity lies in this range of loads." if marks.capacity_band(result) else ""
    layers = [*marks.capacity_band(result), *marks.lines(rows, result, "latency_ms", "percentile", y, colour)]
    layers += [marks.rule_at("y", slo, "slo"), marks.slo_label(slo, f"SLO {words.number(slo)} ms")]
    layers += [*marks.knee(result), marks.hover(result)]
    doubled = (
        f" Dotted: the knee, where p99 is {FACTOR:g} times its value at the lowest load." if knee_of(result) else ""
    )
    return Figure(
        "latency",
        "Latency against load",
        f"Percentiles over all requests, failed ones included; bands are 95 % intervals over {words.replications(result)} "
        f"replications. Dashed line: the SLO's limit.{shaded}{doubled}",
        f"Line chart of latency percentiles at {len(result.points)} loads. {result.capacity.sentence}",
        rows,
        marks.spec(alt.layer(*layers)),
    )


def attainment(result: Result) -> Figure:
    rows = frames.attainment(result)
    promised = 100 * result.slo.attainment
    below = any((row["within_slo_pct_lo"] or row["within_slo_pct"]) < promised for row in rows)  # else no room under it
    y = alt.Y("within_slo_pct:Q", title="requests within the SLO (%)", scale=alt.Scale(zero=False, nice=True))
    base = alt.Chart(marks.data(rows)).encode(marks.loads(result))
    band = base.mark_area(style="band").encode(alt.Y("within_slo_pct_lo:Q"), alt.Y2("within_slo_pct_hi:Q"))
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=VERDICTS), legend=alt.Legend(title=None, orient="top"))
    dots = base.mark_point(style="dot", size=70).encode(y, shape)
    layers = [*marks.capacity_band(result), band, base.mark_line().encode(y), dots]
    layers += [
        marks.rule_at("y", promised, "slo"),
        marks.slo_label(promised, f"promised {promised:g} %", dy=14 if below else -6),
        marks.hover(result),
    ]
    return Figure(
        "attainment",
        "The promise kept",
        "Share of all requests answered in time. A load passes when its whole 95 % interval is above the promise, fails "
        "when the whole interval is below it or the queue grows without end, and is indeterminate otherwise.",
        "Line chart of the share of requests within the SLO at each load, with the promised share.",
        rows,
        marks.spec(alt.layer(*layers)),
    )


def utilisation(result: Result) -> Figure:
    rows = frames.utilisation(result)
    names = [words.resource(key) for key in frames.busiest(result)]
    colour = alt.Color("resource:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    y = alt.Y("utilisation_pct:Q", title="utilisation (%)", scale=alt.Scale(domainMin=0, domainMax=100))
    lines = marks.lines(rows, result, "utilisation_pct", "resource", y, colour)
    dashed = alt.StrokeDash("resource:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    lines[1] = lines[1].encode(dashed)  # resources that are equally busy lie on one line: dashes show the one below
    layers = [*marks.capacity_band(result), *lines]
    hidden = len({key for p in result.points for key in p.utilisation}) - len(names)
    rest = f" {hidden} less busy resources are not drawn." if hidden else ""
    return Figure(
        "utilisation",
        "How busy each resource is",
        f"What nears 100 % first sets the capacity; the distance to 100 % is the headroom.{rest}",
        f"Line chart of utilisation by load for {', '.join(names)}. Closest to full: {names[0]}.",
        rows,
        marks.spec(alt.layer(*layers)),
    )


def _bars(result: Result, value: str, title: str) -> dict[str, Any]:
    rows = frames.parts(result)
    names = list(dict.fromkeys(row["part"] for row in rows))
    colour = alt.Color("part:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    x = alt.X("load:O", title=words.load_title(result.capacity.load_kind), axis=alt.Axis(labelAngle=0))
    top = alt.Scale(domainMax=100) if value == "share_pct" else alt.Scale()
    y = alt.Y(f"{value}:Q", title=title, stack="zero", scale=top)
    tips = [
        alt.Tooltip("load:Q"),
        alt.Tooltip("part:N"),
        alt.Tooltip("mean_ms:Q", format=".4~g", title="mean (ms)"),
        alt.Tooltip("share_pct:Q", format=".3~g", title="share (%)"),
    ]
    bars = alt.Chart(marks.data(rows)).mark_bar().encode(x, y, colour, order=alt.Order("order:Q"), tooltip=tips)
    return marks.spec(bars)


def parts(result: Result) -> Figure:
    return Figure(
        "parts",
        "Where the time went",
        "Mean latency along each request's slowest signal, split into waiting and work; the parts add up to the mean.",
        "Stacked bars of mean latency by load, split into waiting and work.",
        frames.parts(result),
        _bars(result, "mean_ms", "mean latency (ms)"),
    )


def shares(result: Result) -> Figure:
    return Figure(
        "shares",
        "Where the time went, as shares",
        "The same parts as a share of mean latency, so that low loads can be read beside high ones.",
        "Stacked bars of the share of mean latency spent in each part, by load.",
        frames.parts(result),
        _bars(result, "share_pct", "share of mean latency (%)"),
    )


def throughput(result: Result) -> Figure:
    rows = frames.throughput(result)
    y = alt.Y("rate_rps:Q", title="answers (requests/s)", scale=alt.Scale(domainMin=0))
    names = ["answered", "answered within the SLO"]
    colour = alt.Color("kind:N", sort=names, scale=alt.Scale(domain=names), legend=marks.legend())
    layers = [*marks.capacity_band(result), *marks.lines(rows, result, "rate_rps", "kind", y, colour)]
    if result.capacity.load_kind == "rps":
        ends = [{"load": load, "rate_rps": load} for load in frames.between(result)]
        offered = alt.Chart(marks.data(ends)).mark_line(style="offered").encode(marks.loads(result), y)
        layers.append(offered)
    return Figure(
        "throughput",
        "Answers against load",
        "Requests answered a second, and those answered in time. On the dotted line every offered request is answered "
        "as fast as it comes; below it, a queue grows."
        if result.capacity.load_kind == "rps"
        else "Requests answered a second, and those answered in time.",
        "Line chart of throughput and goodput by load.",
        rows,
        marks.spec(alt.layer(*layers)),
    )


def histogram(result: Result) -> Figure:
    rows = frames.histogram(result)
    unit = words.LOADS[result.capacity.load_kind][1]
    pick = alt.param(
        name="shown",
        value=frames.shown_load(result),
        bind=alt.binding_select(options=[p.load for p in result.points], name=f"Load in {unit} "),
    )
    x = alt.X("from_ms:Q", title="latency (ms, log scale)", scale=alt.Scale(type="log", nice=False))
    bars = (
        alt.Chart(marks.data(rows))
        .mark_bar(style="histogram")
        .encode(
            x,
            alt.X2("to_ms:Q"),
            alt.Y("share_pct:Q", title="share of requests (%)"),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("from_ms:Q", format=".4~g", title="from (ms)"),
                alt.Tooltip("to_ms:Q", format=".4~g", title="to (ms)"),
                alt.Tooltip("requests:Q", format=","),
                alt.Tooltip("share_pct:Q", format=".3~g", title="share (%)"),
            ],
        )
    )
    bars = bars.transform_filter("datum.load === shown").add_params(pick)
    return Figure(
        "histogram",
        "Distribution of latency at one load",
        f"All measured requests of all replications at the chosen load, in bins of equal ratio. Dashed line: the SLO. "
        f"Shown first: {frames.shown_load(result):g} {unit}.",
        f"Histogram of latency at {frames.shown_load(result):g} {unit}, on a logarithmic axis.",
        rows,
        marks.spec(alt.layer(bars, marks.rule_at("x", result.slo.latency_s * 1000, "slo"))),
    )
