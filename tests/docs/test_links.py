"""Links between pages lead somewhere, and every page can be found from the first one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name_of, prose_of

LINK = re.compile(r"\[[^\]]*\]\((?!https?://|mailto:)(?P<target>[^)#\s]*)(?:#(?P<place>[^)\s]+))?\)")


def links_of(page: Path) -> list[tuple[int, Path, str | None]]:
    found = []
    for number, line in prose_of(page.read_text()):
        for link in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            target = (page.parent / link["target"]).resolve() if link["target"] else page
            found.append((number, target, link["place"]))
    return found


def places_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = (line.lstrip("#") for _, line in prose_of(page.read_text()) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file of the repository and, after #, a heading of it."""
    for number, target, place in links_of(page):
        assert target.exists(), f"{name_of(page)}:{number}: nothing at {target.relative_to(ROOT)}"
        if place is not None and target.suffix == ".md":
            assert place in places_of(target), f"{name_of(page)}:{number}: no heading #{place} in {name_of(target)}"


def test_every_page_is_found_from_the_index() -> None:
    """Following links from docs/index.md one meets every page of docs/; a new page needs a line there."""
    seen, todo = set(), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        for _, target, _ in links_of(page):
            todo += [target, *target.glob("*.md")]  # a link to a folder leads to its pages
    lost = [name_of(page) for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in seen]
    assert not lost, f"not linked from docs/index.md: {', '.join(lost)}"
