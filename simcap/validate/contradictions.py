"""What the published sources of a shipped profile say against one another: profiles/data/mi300x_contradictions.yaml.

Leaves: each thing that two sources tell differently, their values in the unit they were printed in, and what to make of it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiles import store
from profiles.document import Strict, load_yaml


class Value(Strict):
    value: float | str
    source: str


class Contradiction(Strict):
    """One thing told differently. `so`: what to make of it."""

    what: str
    unit: str
    values: tuple[Value, ...]
    so: str

    def sentence(self) -> str:
        told = "; ".join(f"{self._told(one.value)} ({one.source})" for one in self.values)
        return f"{self.what}: {told}. {self.so[0].upper()}{self.so[1:]}."

    def _told(self, value: float | str) -> str:
        return value if isinstance(value, str) else f"{value:g} {self.unit}"


class Contradictions(Strict):
    schema_version: Literal["simcap.contradictions/1"] = Field(alias="schema")
    profile: str
    contradictions: tuple[Contradiction, ...]


def of(profile: str) -> tuple[Contradiction, ...]:
    """Those about this profile; none about a profile that is not made of these sources."""
    read = load_yaml(store.SHIPPED / "mi300x_contradictions.yaml", Contradictions)
    return read.contradictions if read.profile == profile else ()
