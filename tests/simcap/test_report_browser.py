"""Reports of four shipped scenarios in a real browser: what a reader sees, points at, saves and hears is the result.

Needs Chromium on PATH (or its path in CHROMIUM) and skips without one; .ci/run installs it. Scenarios run with few requests:
the page is under test, and not the figures.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from profiles import store
from scenarios import loader
from sim import replicate
from sim.result import Result
from simcap import rundir, table
from simcap.report import page as report
from simcap.report import words

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium on PATH: install it (Debian: apt-get install chromium) or set CHROMIUM"
    ),
    pytest.mark.xdist_group("browser"),
]
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: pip install 'vllm-sr-simcap[dev]'"
)

SCENARIOS = {
    "longctx": ("measurement.requests=300", "load.rps=[1,3,5]"),
    "coresident": ("measurement.requests=200", "load.rps=[2,14]"),
    "new_shapes": ("measurement.requests=100", "load.rps=[0.005,0.04]"),
    "published_fa_concurrency": ("measurement.requests=100", "load.burst_size=[1,5,10]"),
}
FULLY_HEARD = "published_fa_concurrency"  # axe-core takes seconds a page; styles are the same for all
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Opened:
    """A page that is open, the result behind it, and what it did that it should not."""

    name: str
    result: Result
    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield running
        running.close()


@pytest.fixture(scope="module", params=list(SCENARIOS))
def opened(request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A report as `simcap run` writes it, open in a window of 1280 x 900."""
    name, folder = request.param, tmp_path_factory.mktemp("report")
    scenario, profile = loader.load(name, SCENARIOS[name]), store.load("mi300x-published")
    result, _ = replicate.run(scenario, profile, 1)
    command = rundir.Command(name, "mi300x-published", 1, SCENARIOS[name])
    run = rundir.Run(command, scenario, loader.locate(name), store.locate("mi300x-published"), result)
    (folder / "report.html").write_text(report.render(run, rundir.versions()), encoding="utf-8")
    (folder / "result.json").write_bytes(rundir.result_json(result))
    (folder / "curve.csv").write_bytes(table.curve_csv(result))
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", accept_downloads=True)
    seen = Opened(name, Result.model_validate_json((folder / "result.json").read_text()), context.new_page())
    seen.page.on(
        "console", lambda said: seen.complaints.append(said.text) if said.type in {"error", "warning"} else None
    )
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("request", lambda asked: seen.requests.append(asked.url))
    seen.page.goto((folder / "report.html").as_uri())
    seen.page.wait_for_selector("html[data-drawn]")
    yield seen
    context.close()


def saved(opened: Opened, key: str, kind: str) -> bytes:
    with opened.page.expect_download() as download:
        opened.page.locator(f'button[data-figure="{key}"][data-format="{kind}"]').click()
    path = Path(download.value.path())
    assert download.value.suggested_filename == f"{key}.{kind}"
    return path.read_bytes()


def test_every_rendered_figure_of_the_curve_is_that_of_result_json(opened: Opened) -> None:
    """What the browser has in the rows of the curve table equals result.json to the last digit, and is what one reads."""
    for point in opened.result.points:
        row = opened.page.locator(f'#curve-table tr[data-load="{point.load}"] data')
        shown = row.evaluate_all("cells => cells.map(cell => [Number(cell.value), cell.textContent])")
        stated = [point.latency_s[name].mean for name in ("mean", "p50", "p90", "p95", "p99")]
        shares = [point.slo_attainment.mean, point.failed_fraction.mean]
        values = [value for value in (point.throughput_rps.mean, *stated, *shares) if value is not None]
        assert [value for value, _ in shown] == values
        p99 = point.latency_s["p99"].mean
        assert p99 is None or words.number(p99 * 1000) in [text for _, text in shown]
    assert opened.result.capacity.sentence == opened.page.locator("#answer .sentence").inner_text()


def test_pointing_at_a_load_tells_its_values(opened: Opened) -> None:
    """The tooltip over each load of the latency figure holds its percentiles with their half intervals, and the verdict."""
    opened.page.mouse.move(0, 0)
    strips = opened.page.locator("#chart-latency svg g.mark-rect path[aria-roledescription]")
    places = strips.evaluate_all("all => all.map(p => p.getBoundingClientRect()).map(r => [r.x, r.width])")
    strip = strips.nth(places.index(max(places)))
    strip.scroll_into_view_if_needed()
    strip.hover(force=True)
    opened.page.wait_for_selector("#vg-tooltip-element.visible")
    told = opened.page.locator("#vg-tooltip-element").inner_text()
    last = opened.result.points[-1]
    for name in ("p50", "p90", "p95", "p99"):
        assert words.milliseconds(last.latency_s[name]) in told
    assert last.verdict in told


def test_the_saved_csv_holds_the_figures_of_curve_csv(opened: Opened) -> None:
    """Each percentile in the CSV of the latency figure, with its interval, is that of curve.csv."""
    rows = csv.DictReader(io.StringIO(saved(opened, "latency", "csv").decode()))
    drawn = {(float(row["load"]), row["percentile"]): row for row in rows}
    curve = list(csv.DictReader(io.StringIO(table.curve_csv(opened.result).decode())))
    assert len(drawn) == sum(
        bool(line[f"latency_{name}_ms"]) for line in curve for name in ("p50", "p90", "p95", "p99")
    )
    for (load, name), row in drawn.items():
        line = next(line for line in curve if float(line["load"]) == load)
        for end in ("", "_lo", "_hi"):
            assert float(row[f"latency_ms{end}"]) == pytest.approx(float(line[f"latency_{name}_ms{end}"]), rel=1e-8)


def test_figures_are_saved_as_png_and_svg(opened: Opened) -> None:
    """The buttons below a figure give a picture of each kind."""
    assert saved(opened, "utilisation", "png").startswith(b"\x89PNG")
    assert saved(opened, "utilisation", "svg").lstrip().startswith(b"<svg")


def test_the_numbers_of_a_figure_open_with_the_keyboard(opened: Opened) -> None:
    """A summary under the focus opens with Enter, and the table below it has the rows that the figure draws."""
    numbers = opened.page.locator('details.numbers[data-figure="parts"]')
    numbers.locator("summary").focus()
    opened.page.keyboard.press("Enter")
    numbers.locator("table").wait_for()
    drawn = json.loads(opened.page.locator("#figure-data").text_content())["figures"]
    rows = next(figure["rows"] for figure in drawn if figure["key"] == "parts")
    assert numbers.locator("tbody tr").count() == len(rows) > 0


def test_the_theme_changes_with_its_button_and_figures_follow(opened: Opened) -> None:
    """From the system's light to light to dark: the paper, and every figure drawn again in its colours."""
    page = opened.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        page.locator("#theme").focus()
        page.keyboard.press("Enter")
    page.wait_for_selector('html[data-drawn="dark"]')
    assert page.locator("#theme").inner_text() == "Theme: dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    modes = page.locator(".chart").evaluate_all("charts => charts.map(chart => chart.dataset.mode)")
    assert set(modes) == {"dark"}
    if opened.name == FULLY_HEARD:
        assert not serious(page), "in the dark theme"
    page.locator("#theme").click()
    page.wait_for_selector('html[data-drawn="light"]')


def serious(page: Any) -> list[str]:
    """What axe-core finds that is serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    # What is drawn inside a figure is one image to a screen reader; looking at each of its marks takes half of the time.
    found = Axe().run(page, {"exclude": [[".chart > svg"]]}, {"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']}: {each['help']} at {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]


def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways(opened: Opened) -> None:
    """No serious or critical finding of axe-core (for one report also narrow and dark); a page of 390 pixels fits its width."""
    assert not serious(opened.page)
    opened.page.set_viewport_size({"width": 390, "height": 844})
    opened.page.wait_for_timeout(300)
    if opened.name == FULLY_HEARD:
        assert not serious(opened.page), "when narrow"
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.page.set_viewport_size({"width": 1280, "height": 900})


def test_the_page_has_asked_for_nothing_and_complained_of_nothing(opened: Opened) -> None:
    """After all of this: no request but for the file itself and its own data, no error and no warning on the console."""
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in opened.requests) == 1
    assert opened.complaints == []
