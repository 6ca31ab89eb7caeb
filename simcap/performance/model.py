"""What stands behind a performance report beside the runs themselves, `simcap.performance/1`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiles.document import Strict
from simcap.whatif.study import WhatIf


class Performance(Strict):
    """`runs`: the scenarios in the order of the report. `what_ifs`: by scenario; empty where none were asked for."""

    schema_version: Literal["simcap.performance/1"] = Field(alias="schema", default="simcap.performance/1")
    profile: str
    runs: tuple[str, ...]
    what_ifs: dict[str, WhatIf]
