"""Failures, steps down, stalls, memory and headroom stand on the page where the run has them, with its own figures."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import factories
import pytest
from test_report_page import Reader, make_run

from sim.result import Result
from simcap import rundir
from simcap.report import events, figures, page, words

GIB = 2**30


class Tables(HTMLParser):
    """Exact figures and text of the tables by their class."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.values: dict[str, list[float]] = {}
        self.text: dict[str, str] = {}
        self._table = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table":
            self._table = given.get("class") or given.get("id") or ""
        if tag == "data":
            self.values.setdefault(self._table, []).append(float(str(given["value"])))

    def handle_data(self, data: str) -> None:
        self.text[self._table] = self.text.get(self._table, "") + data


@pytest.fixture(scope="module")
def result() -> Result:
    return factories.troubled()


@pytest.fixture(scope="module")
def html(result: Result, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page.render(make_run(tmp_path_factory.mktemp("run"), result), rundir.versions())


def test_the_events_table_holds_every_failure_fallback_stall_and_peak_of_the_result(html: str, result: Result) -> None:
    expected: list[float | None] = []
    for p in result.points:
        assert p.fallback_fraction is not None
        assert p.compile_stall_s is not None
        expected += [i.mean for i in p.failures.values()]
        expected += [p.fallback_fraction.mean, p.compile_stall_s.mean, p.vram_peak_bytes, p.watermark_events]
    assert Tables(html).values["events"] == expected


def test_steps_down_are_counted_per_1000_requests_at_each_load(html: str, result: Result) -> None:
    tables = Tables(html)
    keys = sorted({key for p in result.points for key in p.steps_down})
    assert len(keys) == 2
    assert tables.values["steps"] == [1000 * p.steps_down.get(key, 0.0) for key in keys for p in result.points]
    assert "out of memory; answered without it" in tables.text["steps"]
    assert "compile pending" in tables.text["steps"]


def test_headroom_is_shown_at_the_highest_load_that_passed(html: str, result: Result) -> None:
    roomy = next(p for p in result.points if p.load == result.capacity.lo)
    exact = [(roomy.utilisation[name].mean, factor) for name, factor in roomy.headroom.items()]
    assert Tables(html).values["headroom"] == [value for pair in exact for value in pair]


def test_headroom_that_is_not_known_is_said(result: Result, tmp_path: Path) -> None:
    """Where sessions stalled there is a sentence instead of a table."""
    points = tuple(p.model_copy(update={"headroom": {}}) for p in result.points)
    html = page.render(make_run(tmp_path, result.model_copy(update={"points": points})), rundir.versions())
    assert "Not told: sessions loaded or compiled" in html
    assert "headroom" not in Tables(html).values


def test_failed_requests_are_stacked_by_reason_with_a_zero_where_a_reason_did_not_occur(result: Result) -> None:
    rows = {(row["load"], row["reason"]): row["share_pct"] for row in events.failure_rows(result)}
    assert len(rows) == 2 * len(result.points)
    for p in result.points:
        for reason in ("timeout", "out_of_memory"):
            mean = p.failures[reason].mean if reason in p.failures else 0.0
            assert mean is not None
            assert rows[p.load, words.FAILURES[reason]] == pytest.approx(100 * mean)


def test_the_memory_figure_draws_every_recorded_change_in_gib(result: Result) -> None:
    drawn = [(row["load"], row["time_s"], row["memory_gib"] * GIB) for row in events.memory_rows(result)]
    assert drawn == [(p.load, time, used) for p in result.points for time, used in p.memory_timeline]


def test_a_run_without_such_events_has_neither_figures_nor_a_section_of_them(tmp_path: Path) -> None:
    calm = factories.result()
    assert {"failures", "memory"}.isdisjoint(figure.key for figure in figures.figures(calm))
    ids = {a.get("id") for _, a in Reader(page.render(make_run(tmp_path, calm), rundir.versions())).elements}
    assert "events" not in ids
    assert "headroom" in ids


@pytest.mark.parametrize("name", ["memory", "compile", "fallback", "replicas", "device:gpu (co-tenants)"])
def test_a_bottleneck_that_is_no_resource_is_named_on_the_page(name: str, tmp_path: Path) -> None:
    points = tuple(factories.point(load).model_copy(update={"bottleneck": name}) for load in (20.0, 44.0))
    html = page.render(make_run(tmp_path, factories.result(points=points)), rundir.versions())
    assert f"<dd>{words.resource(name)}</dd>" in html


def test_percentiles_without_an_end_are_explained_and_their_loads_still_drawn(tmp_path: Path) -> None:
    endless = {
        name: factories.interval(0.01) if name == "mean" else factories.NOTHING
        for name in ("mean", "p50", "p90", "p95", "p99")
    }
    points = tuple(p.model_copy(update={"latency_s": endless}) for p in factories.result().points)
    html = page.render(make_run(tmp_path, factories.result(points=points)), rundir.versions())
    assert "so many requests failed that it has no end" in html
    assert len(Reader(html).rows) == len(points)


@pytest.mark.parametrize("reason", ["not_available", "compile_pending", "answered_without:out_of_memory"])
def test_no_underscore_of_a_key_reaches_a_reader(reason: str) -> None:
    assert "_" not in words.step_reason(reason)
    assert ":" not in words.step_reason(reason)


def test_the_memory_figure_has_the_device_and_its_watermark_as_lines(result: Result) -> None:
    """A reader sees how far memory in use is from full: 4e9 bytes in GiB, and 90 % of them."""
    memory = next(figure for figure in figures.figures(result) if figure.key == "memory")
    drawn = [row["at"] for rows in memory.spec["datasets"].values() for row in rows if set(row) == {"at"}]
    assert sorted(drawn) == [0.9 * 4.0e9 / GIB, 4.0e9 / GIB]
    without = result.model_copy(update={"memory_capacity_bytes": None, "memory_watermark": None})
    bare = next(figure for figure in figures.figures(without) if figure.key == "memory")
    assert "watermark" not in bare.caption


def test_every_compile_event_is_a_bar_with_its_own_start_and_end(result: Result) -> None:
    """The compile figure draws what the result tells, at every load."""
    drawn = next(figure for figure in figures.figures(result) if figure.key == "compiles").rows
    told = [(p.load, begin, begin + took, tokens) for p in result.points for begin, _, tokens, took in p.compile_events]
    assert [(row["load"], row["from_s"], row["to_s"], row["tokens"]) for row in drawn] == told
    assert {row["where"] for row in drawn} == {"intent on migraphx"}


def test_steps_down_are_drawn_as_the_table_tells_them(result: Result) -> None:
    """The stacked bars add up to the steps down of each load, a thousand requests."""
    drawn = next(figure for figure in figures.figures(result) if figure.key == "stepping").rows
    for p in result.points:
        total = sum(row["per_1000"] for row in drawn if row["load"] == p.load)
        assert total == pytest.approx(1000 * sum(p.steps_down.values()))
