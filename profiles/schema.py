"""The profile file, `simcap.profile/1`: everything known about models on one machine.

Enters: JSON. Leaves: frozen models: the file and what it says of machine and sources. What is known about a model
stands in `profiles.entry`, a number and its origin in `profiles.quantity`. Seconds, bytes, tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import Strict, nearest
from profiles.entry import Entry
from profiles.errors import InputError
from profiles.interference import Interference
from profiles.quantity import Figure, PositiveInt


class Scheduling(Strict):
    """How the system deals out cores when there are more threads than cores. `slice_s`: for how long one thread runs before
    another one of its core does; `pull_s`: how long a core stands idle before it takes a waiting thread from another.
    """

    slice_s: Figure
    pull_s: Figure


class Device(Strict):
    """The accelerator or CPU measured. `catalog`: key of the hardware catalog (`mi300x`, `cpu`, …).

    `scheduling`: of a CPU, where it was measured; without it threads beyond the cores share them equally.
    """

    catalog: str
    kind: Literal["gpu", "cpu"]
    name: str
    memory_bytes: Figure | None = None
    cores: PositiveInt | None = None
    partition: str | None = None
    scheduling: Scheduling | None = None


class Host(Strict):
    """The machine around the device."""

    cpu: str
    cores: PositiveInt | None = None
    memory_bytes: Annotated[int, Field(ge=1)] | None = None
    os: str | None = None


class Source(Strict):
    """Where published numbers come from. `trust`: A read in source or official docs, B published measurement, C secondary, D derived."""

    title: str
    url: str | None = None
    date: str | None = None
    trust: Literal["A", "B", "C", "D"] | None = None
    doubt: str | None = None


class Sentinel(Strict):
    """A fixed small inference, timed around and during a measurement in place: how fast the machine was.

    `alone_s`: back to back; `together_s`: as many at once as fill the cores, which shows who else is on them. `tight_s`,
    `paced_s`: its CPU time while the load of that cadence ran.
    """

    model: str
    artifact: str
    tokens: PositiveInt
    threads: PositiveInt
    alone_s: Figure
    together_s: Figure
    tight_s: Figure
    paced_s: Figure


class RouterOverhead(Strict):
    """Router CPU seconds a request: base + per_token * tokens."""

    base_s: Figure
    per_token_s: Figure


class Profile(Strict):
    """The whole file. `runs`: where runs were merged, each one's start and digest, so that none is counted twice.

    `interference`: different models together, where that was measured.
    """

    schema_version: Literal["simcap.profile/1"] = Field(alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    description: str
    created: str
    runs: tuple[str, ...] | None = None
    device: Device
    host: Host | None = None
    software: dict[str, str] = {}
    sources: dict[str, Source] = {}
    router: RouterOverhead | None = None
    sentinel: Sentinel | None = None
    notes: tuple[str, ...] = ()
    entries: tuple[Entry, ...]
    interference: tuple[Interference, ...] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        seen: set[str] = set()
        for entry in self.entries:
            if entry.key in seen:
                raise ValueError(f"entry {entry.key} stands twice")
            seen.add(entry.key)
        for source in _sources_named(self):
            if source not in self.sources:
                raise ValueError(f"source {source!r} is named but not listed; {nearest(source, self.sources)}")
        return self

    def entry(self, model: str, artifact: str, provider: str) -> Entry:
        """The entry of model x artifact x provider; InputError with the nearest valid name otherwise."""
        for e in self.entries:
            if (e.model, e.artifact, e.provider.name) == (model, artifact, provider):
                return e
        models = sorted({e.model for e in self.entries})
        if model not in models:
            raise InputError(f"profile {self.name} has no model {model!r}; {nearest(model, models)}")
        have = sorted({f"{e.artifact} on {e.provider.name}" for e in self.entries if e.model == model})
        raise InputError(
            f"profile {self.name} has {model} not as {artifact!r} on {provider!r}; {nearest(f'{artifact} on {provider}', have)}"
        )


def _sources_named(model: Strict) -> Iterable[str]:
    """Every `source` key used anywhere in the file."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name == "source" and value is not None:
            yield value
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Strict) and not isinstance(item, Source):
                yield from _sources_named(item)


def origins(model: Strict) -> dict[str, int]:
    """How many numbers of each origin stand below `model` (a law counts once by location, once by spread)."""
    counts: dict[str, int] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name in {"origin", "spread_origin"}:
            counts[value] = counts.get(value, 0) + 1
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Strict):
                for origin, count in origins(item).items():
                    counts[origin] = counts.get(origin, 0) + count
    return counts
