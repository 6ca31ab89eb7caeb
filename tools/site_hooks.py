"""Hooks of `mkdocs build`: navigation from docs/index.md, pages made from the code, messages on the page of errors."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parents[1]))  # mkdocs starts us by path

from tools import site_pages

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")
MARK = re.compile(r"<!-- messages: (?P<modules>[^>]+?) -->")
MADE = {"Command line": "reference/cli.md"}


def on_config(config: Any) -> Any:
    """One list of pages: the sections of docs/index.md are the sections of the navigation."""
    sections: list[dict[str, Any]] = [{"Home": "index.md"}]
    pages: list[Any] = []
    for line in (Path(config.docs_dir) / "index.md").read_text().splitlines():
        if line.startswith("## "):
            pages = []
            sections.append({line[3:].split(":")[0].strip(): pages})
        else:
            pages += [{title: target} for title, target in LINK.findall(line)]
    for section in sections:
        for name, listed in section.items():
            if name == "Reference":
                listed += [{title: place} for title, place in MADE.items()]
                listed += [{_title(name): f"reference/{name}"} for name in site_pages.schemas()]
            if name == "Decisions":
                known = {target for page in listed for target in page.values()}
                files = sorted((Path(config.docs_dir) / "decisions").glob("*.md"))
                listed += [place for f in files if (place := f"decisions/{f.name}") not in known]
    config.nav = sections
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are made from the code."""
    made = {"reference/cli.md": site_pages.command_line()}
    made |= {f"reference/{name}": page for name, page in site_pages.schemas().items()}
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A mark on the page of errors becomes the list of that part's messages; a link to a folder, to its first page."""
    if page.file.src_path == "index.md":
        return markdown.replace("](decisions/)", "](decisions/0001-callbacks-instead-of-processes.md)")
    if not MARK.search(markdown):
        return markdown
    prefixes = [name for mark in MARK.finditer(markdown) for name in mark["modules"].split()]
    parts = {prefix: [] for prefix in prefixes}
    for module, texts in site_pages.messages().items():
        if (prefix := site_pages.section_of(module, prefixes)) is None:
            raise ValueError(f"{page.file.src_path} has no part for messages of {module}")
        parts[prefix] += texts
    return MARK.sub(lambda mark: _listed([t for name in mark["modules"].split() for t in parts[name]]), markdown)


def _listed(texts: list[str]) -> str:
    rows = "".join(f"<li><code>{html.escape(' '.join(text.split()))}</code></li>" for text in texts)
    return f"<details><summary>{len(texts)} messages</summary><ul>{rows}</ul></details>" if texts else ""


def _title(name: str) -> str:
    return f"The {name.removesuffix('-file.md')} file"
