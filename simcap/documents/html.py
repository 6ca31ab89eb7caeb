"""A document as one self-contained page: its Markdown through markdown-it, in the theme of `report.html`.

Enters: Markdown whose foreign text went through `simcap.documents.text`, and its pictures as SVG. Leaves: HTML that opens
offline; its content policy forbids every request and every script. The same Markdown gives the same bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from importlib import resources

ORIGIN_OF = {"m": "measured", "p": "published", "d": "modeled", "a": "assumed"}
MARK = re.compile(r' ?<a href="#([mpda]\d+)">\1</a>')
PICTURE = re.compile(r'<img src="([^"]+)" alt="([^"]*)" ?/?>')

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<a class="skip" href="#main">Skip to the text</a>
<header><div class="bar"><p class="brand">simcap <span>{kind}</span></p></div></header>
<main id="main" class="document">
{body}
</main>
</body>
</html>
"""


def page(markdown: str, title: str, kind: str, pictures: Mapping[str, str]) -> str:
    """The whole page. `pictures`: path in the Markdown -> SVG text; each is put into the page."""
    from html import escape

    from markdown_it import MarkdownIt

    body: str = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    body = MARK.sub(_origin, body)
    body = PICTURE.sub(lambda found: _picture(found, pictures), body)
    body = body.replace("<table>", '<div class="scroll" role="region" aria-label="table" tabindex="0">\n<table>')
    body = body.replace("</table>", "</table>\n</div>")
    return PAGE.format(title=escape(title), kind=escape(kind), style=_style(), body=_sections(body))


def _origin(found: re.Match[str]) -> str:
    mark = found[1]
    space = "\N{NO-BREAK SPACE}" if found[0].startswith(" ") else ""  # a figure and its mark stay on one line
    return (
        f'{space}<sup><a class="mark {ORIGIN_OF[mark[0]]}" href="#{mark}" title="{ORIGIN_OF[mark[0]]}">{mark}</a></sup>'
    )


def _picture(found: re.Match[str], pictures: Mapping[str, str]) -> str:
    data = base64.b64encode(pictures[found[1]].encode()).decode()
    return f'<img class="picture" alt="{found[2]}" src="data:image/svg+xml;base64,{data}">'


def _sections(body: str) -> str:
    """A card for the head of the document and one for each second-level heading."""
    head, *rest = re.split(r"(?=<h2>)", body)
    return "\n".join(f"<section>\n{part}</section>" for part in (head, *rest) if part.strip())


def _style() -> str:
    report = resources.files("simcap.report").joinpath("style.css").read_text(encoding="utf-8")
    own = resources.files("simcap.documents").joinpath("document.css").read_text(encoding="utf-8")
    return report + own
