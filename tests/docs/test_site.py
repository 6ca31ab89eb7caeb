"""The documentation as a site: it builds without a warning, no link is dead, and every error message leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.docs.pages import ROOT
from tools import site_pages
from tools.site_hooks import MARK

ERRORS = ROOT / "docs" / "reference" / "errors.md"


class Page(HTMLParser):
    """Links, anchors and what the page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe") and "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "preconnect", "icon"):
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return target


def test_no_link_of_the_site_is_dead_and_no_page_loads_from_elsewhere(site: Path) -> None:
    """Every relative link leads to a file, every # to an anchor of it; scripts, styles and images are the site's own."""
    pages = {file: Page(file.read_text()) for file in site.rglob("*.html") if file.name != "404.html"}
    assert len(pages) > 20
    dead = []
    for file, page in pages.items():
        dead += [f"{file.relative_to(site)} loads {place}" for place in page.loads if urlsplit(place).netloc]
        for link in page.links:
            place, anchor = urldefrag(link)
            if urlsplit(place).scheme:
                continue
            target = (file.parent / unquote(place)).resolve() if place else file
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors | {""} if target in pages else {""}
            if not target.exists() or unquote(anchor) not in known:
                dead.append(f"{file.relative_to(site)} -> {link}")
    assert not dead, dead


def test_the_page_of_the_command_line_has_every_command(site: Path) -> None:
    """Each command and each of its subcommands has a heading."""
    from simcap.cli import COMMANDS

    text = (site / "reference" / "cli" / "index.html").read_text()
    wanted = {f"simcap {name}" for name in COMMANDS} | {"simcap profiles merge", "simcap export fleet-sim"}
    assert not [name for name in wanted if f"<code>{name}</code>" not in text]


def test_every_error_message_is_on_the_page_of_errors(site: Path) -> None:
    """Each message of each module stands under a part of docs/reference/errors.md that says what to do."""
    prefixes = [name for mark in MARK.finditer(ERRORS.read_text()) for name in mark["modules"].split()]
    assert len(prefixes) == len(set(prefixes))
    messages = site_pages.messages()
    assert sum(map(len, messages.values())) > 150
    lost = [module for module in messages if site_pages.section_of(module, prefixes) is None]
    assert not lost, f"docs/reference/errors.md has no part for messages of {lost}"
    shown = (site / "reference" / "errors" / "index.html").read_text()
    assert "is newer than …, the newest that this simcap reads" in shown


@pytest.mark.parametrize("part", ERRORS.read_text().split("\n## ")[1:], ids=lambda part: part.splitlines()[0])
def test_every_part_of_the_page_of_errors_says_what_to_do(part: str) -> None:
    """A part has prose of its own beside its list of messages."""
    assert len(MARK.sub("", part).split("\n", 1)[1].split()) > 15
