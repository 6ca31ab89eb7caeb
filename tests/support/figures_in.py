"""Finds figures without an origin mark in a document of `simcap strategy` or `simcap report performance`.

Enters: Markdown. Leaves: the pieces that hold a number and no mark. Not looked at: code spans and blocks (names, commands,
quoted settings), quotations (`>`: words of a file), images and link targets, and the notes at the end, which are the
origins themselves. A number is digits that no letter touches; one mark serves the numbers before it in the same piece as
long as nothing but units and the words of an interval stand between.
"""

from __future__ import annotations

import re

MARK = re.compile(r"\[[mpda]\d+\]")
NUMBER = re.compile(r"(?<![\w.,-])[-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")
BETWEEN = re.compile(
    r"^[\s()%.,]*(?:(?:to|of|within|requests|ms|s|min|kB|MB|GB|TB/s|W|TFLOPS|pp|rps|at least|less than|or more|times|/s|requests/s)[\s()%.,]*)*$"
)


def unmarked(markdown: str) -> list[str]:
    """What stands in the text as a figure without an origin."""
    text = markdown.split("\n## Where the figures come from")[0]
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^>.*$|!\[[^\]]*\]\([^)]*\)|`[^`\n]*`", "", text, flags=re.MULTILINE)
    pieces = [piece for line in text.splitlines() for piece in re.split(r" \| |; ", line)]
    return [piece.strip() for piece in pieces if not _all_marked(piece)]


def _all_marked(piece: str) -> bool:
    bare = MARK.sub("\0", piece)
    for found in NUMBER.finditer(bare):
        rest = bare[found.end() :]
        if "\0" not in rest:
            return False
        between = NUMBER.sub("", rest.split("\0")[0])
        if not BETWEEN.match(between):
            return False
    return True
