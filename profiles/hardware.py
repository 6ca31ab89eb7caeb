"""The hardware catalog: what makers and others state about a device. Data stand in data/hardware.json.

Leaves: `Hardware` by name. Every figure has a source, a trust mark and, where there is one, a doubt: A read in official
documentation, B published by people who measured, C a secondary page, D derived or from memory, to be confirmed. Peak
figures are nominal and dense. None of them enters a simulation; they name devices, bound memory and help a reader.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import Strict, load_json, nearest
from profiles.errors import InputError
from profiles.quantity import Figure
from profiles.schema import Source

Count = Annotated[int, Field(ge=1)]


class Spec(Figure):
    """A figure of the catalog. `trust` as above; `source` is a key of the catalog's `sources`, absent for D."""

    trust: Literal["A", "B", "C", "D"]

    @model_validator(mode="after")
    def _says_where_from(self) -> Self:
        if self.source is None and not (self.trust == "D" and self.doubt):
            raise ValueError("a figure without a source must be trust D and state its doubt")
        return self


class Partition(Strict):
    """A compute mode: into how many devices the board splits, and the share of its dies that each one has."""

    mode: str
    devices: Count
    dies_per_device: Count
    compute_units_per_device: Count
    source: str
    trust: Literal["A", "B", "C", "D"]
    doubt: str | None = None


class Hardware(Strict):
    """One device. `dies`: XCDs (CDNA3, CDNA4) or GCDs (CDNA2). `visible_devices`: how many a runtime sees unpartitioned.

    `compute_units`: CUs, or SMs on NVIDIA. A figure is absent when the device has no such thing or nobody stated it.
    """

    name: str
    vendor: str
    kind: Literal["gpu", "cpu"]
    architecture: str | None = None
    target: str | None = None
    dies: Count | None = None
    die_kind: Literal["XCD", "GCD"] | None = None
    visible_devices: Count = 1
    compute_units: Spec | None = None
    memory_bytes: Spec | None = None
    bandwidth_bytes_per_s: Spec | None = None
    fp16_dense_flops: Spec | None = None
    fp8_dense_flops: Spec | None = None
    board_power_w: Spec | None = None
    partitions: tuple[Partition, ...] = ()
    notes: tuple[str, ...] = ()


class Catalog(Strict):
    """The whole data file."""

    schema_version: Literal["simcap.hardware/1"] = Field(alias="schema")
    sources: dict[str, Source]
    hardware: dict[str, Hardware]

    @model_validator(mode="after")
    def _sources_are_listed(self) -> Self:
        for key, device in self.hardware.items():
            figures = [getattr(device, field) for field in type(device).model_fields]
            named = [f.source for f in (*figures, *device.partitions) if isinstance(f, Spec | Partition)]
            for source in named:
                if source is not None and source not in self.sources:
                    raise ValueError(f"{key}: source {source!r} is not listed; {nearest(source, self.sources)}")
        return self


def load() -> Catalog:
    """The catalog with its sources."""
    return load_json(Path(str(resources.files("profiles"))) / "data" / "hardware.json", Catalog)


def catalog() -> dict[str, Hardware]:
    """Every device by its catalog name."""
    return load().hardware


def hardware(name: str) -> Hardware:
    """The device of this name; InputError with the nearest valid one otherwise."""
    known = catalog()
    if name not in known:
        raise InputError(f"unknown hardware {name!r}; {nearest(name, known)}")
    return known[name]
