"""The report shows the numbers of the result, opens without a network, and is not fooled by what files say."""

from __future__ import annotations

import json
import re
import sys
import types
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import factories
import pytest
import tiny
from markupsafe import Markup

from scenarios import loader
from sim.result import InputOrigin, Result
from simcap import rundir
from simcap.report import figures, frames, knee, page, sections, words

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>&\u2028"


class Reader(HTMLParser):
    """The elements of a page with their attributes, the exact figures of its tables, and its JSON."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[float]] = {}
        self.json_text = ""
        self.text: list[str] = []
        self._table = self._row = ""
        self._script: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "table":
            self._table = given.get("id") or given.get("class") or ""
        if tag == "tr" and given.get("data-load"):
            self._row = str(given["data-load"])
        if tag == "data" and self._table == "curve-table":
            self.rows.setdefault(self._row, []).append(float(str(given["value"])))
        if tag == "script":
            self._script = given.get("type") or "code"

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script == "application/json":
            self.json_text += data
        elif self._script is None:
            self.text.append(data)


def make_run(directory: Path, result: Result) -> rundir.Run:
    scenario_file, profile_file = tiny.write(directory)
    command = rundir.Command("tiny.yaml", "tiny.profile.json", 1)
    return rundir.Run(command, loader.load(str(scenario_file)), scenario_file, profile_file, result)


@pytest.fixture(scope="module")
def result() -> Result:
    return factories.result()


@pytest.fixture(scope="module")
def html(result: Result, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page.render(make_run(tmp_path_factory.mktemp("run"), result), rundir.versions())


def test_every_figure_of_the_curve_table_equals_the_result_to_the_last_digit(html: str, result: Result) -> None:
    rows = Reader(html).rows
    stored = json.loads(rundir.result_json(result))
    assert len(rows) == len(stored["points"])
    for point in stored["points"]:
        latencies = [point["latency_s"][name]["mean"] for name in ("mean", "p50", "p90", "p95", "p99")]
        rates = [point["throughput_rps"]["mean"], *latencies]
        shares = [point["slo_attainment"]["mean"], point["failed_fraction"]["mean"]]
        assert rows[str(point["load"])] == rates + shares


def test_the_charts_draw_the_figures_of_the_result(html: str, result: Result) -> None:
    drawings = {figure["key"]: figure for figure in json.loads(Reader(html).json_text)["figures"]}
    drawn = {(r["load"], r["percentile"]): r for r in drawings["latency"]["rows"]}
    assert len(drawn) == 4 * len(result.points)
    for point in result.points:
        for name in frames.PERCENTILES:
            interval, row = point.latency_s[name], drawn[point.load, name]
            assert interval.mean is not None
            assert interval.hi is not None
            assert row["latency_ms"] == interval.mean * 1000
            assert row["latency_ms_hi"] == interval.hi * 1000
    assert drawings["latency"]["rows"] in drawings["latency"]["spec"]["datasets"].values()


def test_loads_far_apart_are_drawn_on_a_logarithmic_axis_without_settings_that_vega_warns_of() -> None:
    spec = json.dumps([figure.spec for figure in figures.figures(factories.result(loads=(2.0, 10.0, 41.0)))])
    scales = [json.loads(text) for text in re.findall(r'"scale": (\{[^{}]*\})', spec)]
    logarithmic = [scale for scale in scales if scale.get("type") == "log"]
    assert len(logarithmic) > 10
    assert not [scale for scale in logarithmic if "zero" in scale]


def test_the_answer_stands_before_everything_else(html: str, result: Result) -> None:
    text = " ".join(" ".join(Reader(html).text).split())
    assert text.index(result.capacity.sentence) < text.index("Before you rely on it") < text.index("Latency against")
    assert "lock sequence" in text
    assert "41 published, 30 modeled, 12 assumed, 0 measured" in text
    assert "No number in profile mi300x-published was measured" in text


def test_the_page_loads_nothing(html: str) -> None:
    elements = Reader(html).elements
    for tag, attributes in elements:
        assert tag not in {"iframe", "object", "embed", "base"}
        assert not attributes.get("src")
        assert not str(attributes.get("style", "")).count("url(")
        if tag == "link":
            assert attributes["href"] == "data:,"
    policy = next(a["content"] for t, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_page_stays_under_3_mb(html: str) -> None:
    assert len(html.encode()) < 3_000_000


def test_hostile_text_from_files_is_shown_and_never_run(tmp_path: Path, result: Result) -> None:
    clean = Reader(page.render(make_run(tmp_path, result), rundir.versions()))
    entry = InputOrigin(
        what=HOSTILE, value=HOSTILE, origin="published", source=HOSTILE, url="javascript:alert(1)", doubt=HOSTILE
    )
    capacity = result.capacity.model_copy(update={"sentence": HOSTILE})
    bad = factories.result(question=HOSTILE, notes=(HOSTILE,), inputs=(entry,), capacity=capacity)
    html = page.render(make_run(tmp_path, bad), rundir.versions())
    hostile = Reader(html)
    scripts = [tag for tag, _ in clean.elements if tag == "script"]
    assert [tag for tag, _ in hostile.elements if tag == "script"] == scripts
    assert not [tag for tag, _ in hostile.elements if tag == "img"]
    assert not [a for _, a in hostile.elements if str(a.get("href", "")).startswith("javascript:")]
    assert HOSTILE in "".join(hostile.text)
    assert json.loads(hostile.json_text)["figures"]


def test_every_input_is_shown_with_origin_source_and_doubt(html: str, result: Result) -> None:
    reader = Reader(html)
    text, links = "".join(reader.text), [a.get("href") for t, a in reader.elements if t == "a"]
    origins = [a["class"] for t, a in reader.elements if t == "span" and str(a.get("class")).startswith("origin ")]
    assert origins == [f"origin {entry.origin}" for entry in result.inputs]
    for entry in result.inputs:
        assert entry.what in text
        assert entry.doubt is None or entry.doubt in text
        assert entry.url is None or entry.url in links


def test_figures_are_named_for_those_who_do_not_see_them_and_headings_do_not_skip_a_level(html: str) -> None:
    elements = Reader(html).elements
    ids = [a["id"] for _, a in elements if a.get("id")]
    assert len(ids) == len(set(ids))
    charts = [a for t, a in elements if t == "div" and a.get("class") == "chart"]
    assert len(charts) == 7
    assert all(a["role"] == "img" and len(str(a["aria-label"])) > 20 for a in charts)
    levels = [int(tag[1]) for tag, _ in elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for _, attributes in elements:
        assert attributes.get("aria-labelledby") in {None, *ids}


def test_the_knee_stands_beside_the_answer(html: str, result: Result) -> None:
    """The page says the knee that the rule finds, to the last digit."""
    found = knee.knee_of(result)
    assert found is not None
    shown = re.search(r'<dd id="knee"><data value="([^"]+)">', html)
    assert shown is not None
    assert float(shown[1]) == found.load


def test_a_section_of_its_own_file_stands_before_the_inputs(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module named in sections.MODULES adds a section and its line in the contents; None leaves it out."""
    own = types.ModuleType("simcap.report.own")
    made = sections.Section("own", "Our own", Markup("<p>{}</p>").format("1 < 2"))
    own.__dict__["section"] = lambda _: made
    silent = types.ModuleType("simcap.report.silent")
    silent.__dict__["section"] = lambda _: None
    monkeypatch.setitem(sys.modules, "simcap.report.own", own)
    monkeypatch.setitem(sys.modules, "simcap.report.silent", silent)
    monkeypatch.setattr(sections, "MODULES", ("own", "silent"))
    html = page.render(make_run(tmp_path, result), rundir.versions())
    assert '<a href="#own">Our own</a>' in html
    assert html.index("<p>1 &lt; 2</p>") < html.index('id="inputs"')


def test_the_same_run_gives_the_same_page(html: str, result: Result, tmp_path: Path) -> None:
    assert page.render(make_run(tmp_path, result), rundir.versions()) == html


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "burst_size", "loads": (1.0, 10.0, 50.0)},
        {"kind": "clients", "loads": (4.0,)},
        {"loads": (44.0, 60.0)},
    ],
)
def test_bursts_clients_and_curves_without_a_passing_load_have_a_page_too(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    made = factories.result(**changes)
    html = page.render(make_run(tmp_path, made), rundir.versions())
    assert words.bracket(made.capacity) in " ".join(Reader(html).text)
    assert len(Reader(html).rows) == len(made.points)


def test_a_run_writes_the_page_and_each_figure_as_png_and_svg_twice_alike(tmp_path: Path, result: Result) -> None:
    run = make_run(tmp_path, result)
    rundir.write(run, tmp_path / "a")
    rundir.write(run, tmp_path / "b")
    keys = ("attainment", "histogram", "latency", "parts", "shares", "throughput", "utilisation")
    assert sorted(p.name for p in (tmp_path / "a" / "plots").iterdir()) == sorted(
        f"{key}.{end}" for key in keys for end in ("png", "svg")
    )
    for path in [tmp_path / "a" / "report.html", *(tmp_path / "a" / "plots").iterdir()]:
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()
    assert (tmp_path / "a" / "plots" / "latency.png").read_bytes().startswith(b"\x89PNG")
