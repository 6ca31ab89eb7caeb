"""From a matrix to cells, and from cells to an order of visits.

A cell is keyed by a digest of everything that defines it, so that what a journal holds can be matched with what is
asked for. Order is random within a block, so that drift of the machine is not read as an effect of tokens or model;
the sentinel, one fixed cell, is visited again and again between them, so that the drift itself is seen.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from calibrate.artifacts import Artifact
from profiles.entry import ProviderName

SENTINEL_EVERY = 5
"""Cells between two looks at the sentinel."""


@dataclass(frozen=True)
class Library:
    """A library of custom operators. digest: of its bytes, since another build of it is another measurement."""

    path: str
    digest: str

    @property
    def label(self) -> str:
        return f"{Path(self.path).name} {self.digest}"


@dataclass(frozen=True)
class PlannedCell:
    """One measurement point. threads: intra-op threads of the session; options: of the provider, sorted.

    library: of custom operators that the session registers.
    """

    model: str
    artifact: str
    digest: str
    provider: ProviderName
    threads: int
    tokens: int
    batch: int
    options: tuple[tuple[str, str], ...] = ()
    library: Library | None = None

    @property
    def entry(self) -> tuple[str, str, ProviderName]:
        """Which entry of the profile this cell belongs to."""
        return self.model, self.artifact, self.provider

    @property
    def key(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        return f"{self.model} {self.artifact} on {self.provider}, {self.tokens} tokens, batch {self.batch}"


@dataclass(frozen=True)
class Step:
    """One visit to make."""

    cell: PlannedCell
    role: Literal["cell", "sentinel"]


def cells_of(
    artifacts: Sequence[Artifact],
    providers: Sequence[ProviderName],
    tokens: Sequence[int],
    batches: Sequence[int],
    threads: int,
    options: Mapping[ProviderName, Mapping[str, str]] | None = None,
    libraries: Mapping[ProviderName, Library] | None = None,
) -> list[PlannedCell]:
    """Every combination, in reading order. options, libraries: by provider.

    An artifact with a precision is a provider's own conversion: it has cells on those providers only that convert to it.
    """
    cells: list[PlannedCell] = []
    for a in artifacts:
        for provider in providers:
            if a.precision is not None and provider not in a.precision.options:
                continue
            own = {**(options or {}).get(provider, {}), **(a.precision.options[provider] if a.precision else {})}
            given, library = tuple(sorted(own.items())), (libraries or {}).get(provider)
            cells += [
                PlannedCell(a.model, a.artifact, a.digest, provider, threads, t, b, given, library)
                for b in batches
                for t in tokens
            ]
    return cells


def sentinel_of(cells: Sequence[PlannedCell]) -> PlannedCell:
    """The cheapest cell of the first model and provider: looked at often, it must cost little."""
    own = [c for c in cells if (c.model, c.provider) == (cells[0].model, cells[0].provider)]
    return min(own, key=lambda c: (c.tokens * c.batch, c.key))


def block(cells: Sequence[PlannedCell], sentinel: PlannedCell, seed: int, number: int) -> list[Step]:
    """The cells in random order with the sentinel first, last and after every SENTINEL_EVERY of them."""
    order = list(cells)
    random.Random(f"{seed}/{number}").shuffle(order)  # noqa: S311 - an order of measurement is no secret
    look = Step(sentinel, "sentinel")
    steps = [look]
    for place, cell in enumerate(order, start=1):
        steps.append(Step(cell, "cell"))
        if place % SENTINEL_EVERY == 0 and place < len(order):
            steps.append(look)
    return [*steps, look]


def weight_of(cell: PlannedCell, size_bytes: int) -> float:
    """What the time of one inference grows with: tokens x batch x weights. Only ratios matter."""
    return float(cell.tokens * cell.batch * size_bytes)
