"""What is known about providers beside a profile's figures: limitations, how to verify, settings and metrics by name.

Enters: `knowledge.yaml`, which ships with simcap. Leaves: its entries for the providers at hand, with `[[key]]` turned
into the mark of that source.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field

from profiles.document import Strict, load_yaml
from profiles.entry import PROVIDER_DEVICE
from profiles.quantity import Origin
from simcap.documents.ledger import Ledger
from simcap.documents.text import plain

Provider = Literal["any", "any-gpu", "migraphx", "rocm", "cpu", "openvino", "cuda"]
KEY = re.compile(r"\[\[([a-z0-9-]+)\]\]")


class Source(Strict):
    """`trust` as in a profile's sources."""

    origin: Origin
    title: str
    url: str | None = None
    trust: Literal["A", "B", "C", "D"]
    doubt: str | None = None


class Limitation(Strict):
    """An issue to file. `done`: when it can be closed."""

    provider: Provider
    title: str
    text: str
    done: str


class Check(Strict):
    """How an operator sees something. `block`: what is typed; `after`: what is seen, and what it means."""

    provider: Provider
    title: str
    text: str
    language: Literal["sh", "python"]
    block: str
    after: str


class Setting(Strict):
    """An option of the router or of a library, by its exact name."""

    provider: Provider
    name: str
    where: str
    text: str


class Metric(Strict):
    """A metric of the router, by its exact name."""

    name: str
    text: str


class Knowledge(Strict):
    """The whole file."""

    schema_version: Literal["simcap.knowledge/1"] = Field(alias="schema")
    sources: dict[str, Source]
    limitations: tuple[Limitation, ...]
    verify: tuple[Check, ...]
    settings: tuple[Setting, ...]
    metrics: tuple[Metric, ...]


def load() -> Knowledge:
    return load_yaml(Path(str(resources.files("simcap.strategy"))) / "knowledge.yaml", Knowledge)


def concerns(provider: Provider, at_hand: Collection[str]) -> bool:
    """Whether an entry is about any of these providers."""
    gpu = any(PROVIDER_DEVICE[name] == "gpu" for name in at_hand)
    return provider == "any" or provider in at_hand or (provider == "any-gpu" and gpu)


def marked(text: str, known: Knowledge, ledger: Ledger) -> str:
    """The text with its keys as marks; KeyError for a key that the file does not list."""

    def mark(found: re.Match[str]) -> str:
        source = known.sources[found[1]]
        title = f"{plain(source.title)} (trust {source.trust})"
        return ledger.mark(source.origin, title, source.url, plain(source.doubt) if source.doubt else None)

    return KEY.sub(mark, text)
