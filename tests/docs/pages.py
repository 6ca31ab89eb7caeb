"""The pages of the documentation, and the blocks in them that a reader is meant to type or to save.

Enters: Markdown files. Leaves: `Block`s in order. What is read of Markdown: fences, and HTML comments that stand directly
above a fence (blank lines between do not matter):

    <!-- not-run: reason -->   needs hardware, network or many minutes; the reason is required
    <!-- exit: 2 -->           the last command of the block ends with this code; without it every command ends with 0
    <!-- exit: 0 or 4 -->      the same where the machine decides which
    <!-- exact -->             what the last command prints is what the block shows, to the letter
    <!-- file: name.yaml -->   the block is the content of this file, in the page's folder

`console` blocks hold commands after `$ ` (lines after `> ` go on) and what they print; `sh` blocks are scripts.
Called as a module it prints the blocks that are not run, and why.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        # Documents that simcap wrote, in folders below examples, are checked by tests/simcap/test_documents.py.
        *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.parent.name != "examples"),
    ],
    key=lambda page: str(page),
)
RUN = {"console", "sh"}
COMMENT = re.compile(r"^<!-- (?P<key>not-run|exit|exact|file)(?:: *(?P<value>.*?))? *-->$")
FENCE = re.compile(r"^ {0,3}(?P<mark>```+)(?P<language>\w*) *$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its line in the page, its language, its text, and what the comments above it say."""

    line: int
    language: str
    text: str
    says: dict[str, str] = field(default_factory=dict)

    def commands(self) -> list[str]:
        """What a reader types, one entry a command."""
        if self.language == "sh":
            return [self.text]
        typed: list[str] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                typed.append(line[2:])
            elif line.startswith("> ") and typed:
                typed[-1] += "\n" + line[2:]
        return typed

    def shown(self) -> str:
        """What the block shows after its last command."""
        lines = self.text.splitlines()
        last = max(k for k, line in enumerate(lines) if line.startswith(("$ ", "> ")))
        return "\n".join(line.rstrip() for line in lines[last + 1 :]).strip("\n")


def name_of(page: Path) -> str:
    """The page as a path from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page in order; ValueError for a fence that is not closed."""
    blocks: list[Block] = []
    says: dict[str, str] = {}
    opened: tuple[int, str, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is not None:
            if fence and fence["mark"] == opened[1] and not fence["language"]:
                blocks.append(Block(opened[0], opened[2], "\n".join(inside), says))
                opened, inside, says = None, [], {}
            else:
                inside.append(line)
        elif fence:
            opened = (number, fence["mark"], fence["language"])
        elif comment := COMMENT.match(line.strip()):
            says[comment["key"]] = (comment["value"] or "").strip()
        elif line.strip():
            says = {}
    if opened is not None:
        raise ValueError(f"the fence of line {opened[0]} is never closed")
    return blocks


def prose_of(text: str) -> list[tuple[int, str]]:
    """(line number, line) of what stands outside fences."""
    lines, open_mark = [], None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if fence and open_mark in {None, fence["mark"]}:
            open_mark = None if open_mark else fence["mark"]
        elif open_mark is None:
            lines.append((number, line))
    return lines


def not_run() -> list[tuple[str, Block]]:
    """(page, block) of commands that a reader types and no test does."""
    return [
        (name_of(page), block)
        for page in PAGES
        for block in blocks_of(page.read_text())
        if block.language in RUN and "not-run" in block.says
    ]


if __name__ == "__main__":
    sys.stdout.write("Commands of the documentation that were not run, and why:\n")
    for where, left_out in not_run():
        sys.stdout.write(
            f"  {where}:{left_out.line}: {'; '.join(left_out.commands())}\n    {left_out.says['not-run']}\n"
        )
