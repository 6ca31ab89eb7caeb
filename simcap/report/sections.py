"""Sections of a report that stand in a file of their own, between signals and inputs.

Enters: a finished `Run`. Leaves: `Section`s in reading order. To add one, write `section(run) -> Section | None` in a module
of simcap.report and name the module in `MODULES`; None leaves it out. Its HTML is `markupsafe.Markup`, so text from files
has to be escaped on the way: `Markup("<p>{}</p>").format(text)`. A module is imported when a page is made.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

    from simcap.rundir import Run

MODULES: tuple[str, ...] = ("uncertainty", "validation")


@dataclass(frozen=True)
class Section:
    """`key`: its id in the page; `title`: its heading (h2) and its name in the list of contents; `html` below it, from h3 on."""

    key: str
    title: str
    html: Markup


def sections(run: Run) -> list[Section]:
    """What every module in `MODULES` has to say of this run."""
    made = (importlib.import_module(f"simcap.report.{name}").section(run) for name in MODULES)
    return [section for section in made if section is not None]
