"""A profile for a GPU that nobody measured, by roofline ratios. Every number of it is `modeled` and has wide bounds.

Enters: a profile with GPU entries at two lengths or more, the target's catalog name. Leaves: a `Derived`. Formula, for a
median t(S) at S tokens (seconds):
    t(S) = L + a S + b S²      L, a, b at least 0, least squares of relative errors (S² alone where there are two lengths)
    w(S) = 1 - L / t(S)        share that is work; the rest is launching kernels and waiting for the host
    t'(S) = t(S) ((1 - w) + w / r)
r = bandwidth of the target over the source's. Launching depends on host and driver, so it stays; work goes with bandwidth
because these encoders run at 1 to 10 % of peak compute. Bounds at 95 %: launching 1.5 times faster or slower (published
figures of one model on one GPU differ by 1.3), work at r between 1 (nothing gained) and r², both the same way.
docs/explanation/derived-profiles.md has the check against published lengths. Kernel launch and roofline: Williams, Waterman &
Patterson, CACM 52 (2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from profiles import hardware
from profiles.entry import Cell, Entry, Memory, OccupancyPoint, Surface
from profiles.errors import InputError
from profiles.quantity import Figure, Origin
from profiles.schema import Device, Profile

LAUNCH = 1.5  # factor by which launching may be off, either way, at 95 %
LEAST_SPAN = 4.0  # longest length over shortest, below which work and launching cannot be told apart


@dataclass(frozen=True)
class Derived:
    """`left_out`: what could not be derived, and why."""

    profile: Profile
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """t(S) = launch + linear S + square S², seconds."""

    launch: float
    linear: float
    square: float

    def at(self, tokens: float) -> float:
        return self.launch + self.linear * tokens + self.square * tokens**2

    def work(self, tokens: float) -> float:
        """Share of the time that is work."""
        return 1.0 - self.launch / self.at(tokens)


def split_of(medians: Mapping[int, float]) -> Split:
    """The split of medians (seconds by tokens). InputError: the lengths do not tell launching and work apart."""
    lengths = sorted(medians)
    if len(lengths) < 2 or lengths[-1] < LEAST_SPAN * lengths[0]:
        raise InputError(
            f"service times at {', '.join(map(str, lengths))} tokens: telling launching and work apart takes two lengths, "
            f"the longer at least {LEAST_SPAN:g} times the shorter; measure another"
        )
    tokens, seconds = np.array(lengths, dtype=float), np.array([medians[t] for t in lengths])
    unit = tokens[-1]  # keeps the columns of one size
    columns = [np.ones_like(tokens), tokens / unit, (tokens / unit) ** 2]
    if len(lengths) == 2:
        columns[1] = np.zeros_like(tokens)
    found, _ = nnls(np.column_stack(columns) / seconds[:, None], np.ones_like(seconds))
    return Split(float(found[0]), float(found[1] / unit), float(found[2] / unit**2))


def derive(profile: Profile, target: str, name: str) -> Derived:
    """The profile of `target`. InputError: unknown target, no peak figures with a source, or nothing that can be derived."""
    there = hardware.hardware(target)
    here = hardware.hardware(profile.device.catalog)
    if profile.device.catalog == target:
        raise InputError(f"--to {target}: profile {profile.name} is of this device already")
    for label, device in ((profile.device.catalog, here), (target, there)):
        if device.kind != "gpu":
            raise InputError(f"{label} is not a GPU: processors differ in more than peak figures; measure it instead")
    ratio = _sourced(target, there.bandwidth_bytes_per_s) / _sourced(profile.device.catalog, here.bandwidth_bytes_per_s)
    units = _ratio_of_units(here, there)
    entries, left = [], list[str]()
    for entry in profile.entries:
        if entry.device != "gpu":
            left.append(f"{entry.key}: runs on the processor, which a roofline of GPUs says nothing about")
            continue
        try:
            entries.append(_entry(entry, target, ratio, units))
        except InputError as error:
            left.append(f"{entry.key}: {error}")
    if not entries:
        raise InputError(f"nothing in profile {profile.name} can be derived for {target}: {'; '.join(left)}")
    return Derived(_whole(profile, target, there, name, tuple(entries), ratio, left), tuple(left))


def _sourced(name: str, figure: hardware.Spec | None) -> float:
    if figure is None or figure.source is None:
        raise InputError(
            f"the hardware catalog has no memory bandwidth of {name} with a source, so there is no ratio to trust"
        )
    return figure.value


def _ratio_of_units(here: hardware.Hardware, there: hardware.Hardware) -> float:
    if here.compute_units is None or there.compute_units is None:
        return 1.0
    return here.compute_units.value / there.compute_units.value


def _entry(entry: Entry, target: str, ratio: float, units: float) -> Entry:
    """Service times, occupancy and bytes; loads and compiles are the host's and its compiler's, and are left out."""
    if entry.service is None and entry.paced_service is None:
        raise InputError("has no service times")
    return entry.model_copy(
        update={
            "digest": None,
            "load": None,
            "compile": None,
            "first_run": (),
            "service": entry.service and _surface(entry.service, target, ratio),
            "paced_service": entry.paced_service and _surface(entry.paced_service, target, ratio),
            "occupancy": tuple(_occupancy(point, target, units) for point in entry.occupancy),
            "concurrency": None,
            "memory": entry.memory and _memory(entry.memory),
            "accuracy": None,
            "ownership": None,
        }
    )


def _surface(surface: Surface, target: str, ratio: float) -> Surface:
    splits = {}
    for batch in {cell.batch for cell in surface.cells}:
        of_batch = [cell for cell in surface.cells if cell.batch == batch]
        splits[batch] = split_of({cell.tokens: float(cell.law().ppf(0.5)) for cell in of_batch})
    return surface.model_copy(
        update={"cells": tuple(_cell(cell, splits[cell.batch], target, ratio) for cell in surface.cells)}
    )


def _cell(cell: Cell, split: Split, target: str, ratio: float) -> Cell:
    work = split.work(cell.tokens)
    factor = (1 - work) + work / ratio
    slow, fast = (1 - work) * LAUNCH + work / min(ratio**2, 1.0), (1 - work) / LAUNCH + work / max(ratio**2, 1.0)
    median = float(cell.law().ppf(0.5))
    origin: Origin = "assumed" if cell.origin == "assumed" else "modeled"
    said = f"derived for {target}: {work:.0%} of {1000 * median:.3g} ms is work, at {ratio:.2f} times the speed"
    fields = {
        "seconds": tuple(factor * x for x in cell.seconds),
        "n": 0,
        "origin": origin,
        "spread_origin": "assumed" if cell.spread_origin == "assumed" else "modeled",
        "median_lo": median * fast,
        "median_hi": median * slow,
        "run_medians": None,
        "doubt": f"{said}; nobody measured it" + (f"; before that: {cell.doubt}" if cell.doubt else ""),
    }
    return Cell.model_validate(cell.model_dump() | fields)


def _occupancy(point: OccupancyPoint, target: str, units: float) -> OccupancyPoint:
    """The same compute units of another number; at 95 % as if none or twice the difference were there."""
    value = min(point.value * units, 1.0)
    ends = sorted((point.value, min(point.value * units**2, 1.0)))
    doubt = f"derived for {target}: as many compute units as before"
    origin: Origin = "assumed" if point.origin == "assumed" else "modeled"
    fields = {"value": value, "lo": ends[0], "hi": ends[1], "n": None, "origin": origin, "doubt": doubt}
    return OccupancyPoint.model_validate(point.model_dump() | fields)


def _memory(memory: Memory) -> Memory:
    """Bytes as they were: weights are the file's; what allocators add may differ, so the fits are left out."""

    def said(figure: Figure) -> Figure:
        origin: Origin = "assumed" if figure.origin == "assumed" else "modeled"
        doubt = "taken over from another device; allocators differ" + (f"; {figure.doubt}" if figure.doubt else "")
        return figure.model_copy(update={"origin": origin, "doubt": doubt, "n": None})

    cells = [
        cell.model_copy(
            update={
                "peak_bytes": said(cell.peak_bytes),
                "steady_bytes": said(cell.steady_bytes) if cell.steady_bytes else None,
            }
        )
        for cell in memory.cells
    ]
    weights = said(memory.weights_bytes) if memory.weights_bytes else None
    return memory.model_copy(update={"weights_bytes": weights, "cells": tuple(cells), "fits": None})


def _whole(
    profile: Profile,
    target: str,
    there: hardware.Hardware,
    name: str,
    entries: tuple[Entry, ...],
    ratio: float,
    left: list[str],
) -> Profile:
    bytes_there = there.memory_bytes
    device = Device(
        catalog=target,
        kind="gpu",
        name=there.name,
        memory_bytes=Figure(value=bytes_there.value, origin="published", doubt=bytes_there.doubt)
        if bytes_there
        else None,
    )
    said = (
        f"Derived from profile {profile.name} ({profile.device.name}) by roofline ratios: memory bandwidth {ratio:.2f} "
        f"times. Nobody measured any of it on {there.name}. Bounds are wide on purpose; measure before you buy."
    )
    notes = (
        said,
        "Loading, compiling and first runs are not derived: they are the host's and the compiler's.",
        *(f"not derived: {line}" for line in left),
        *profile.notes,
    )
    return profile.model_copy(
        update={
            "name": name,
            "description": f"Modeled for {there.name} from {profile.name}; not measured.",
            "runs": None,
            "device": device,
            "host": None,
            "software": {},
            "notes": notes,
            "entries": entries,
        }
    )


def error_between(medians: Mapping[int, float]) -> dict[int, float]:
    """The relative error at each length between the shortest and the longest, predicted from these two alone."""
    ends = {min(medians): medians[min(medians)], max(medians): medians[max(medians)]}
    split = split_of(ends)
    return {t: split.at(t) / medians[t] - 1.0 for t in sorted(medians) if t not in ends}


def largest(errors: Mapping[int, float]) -> float:
    """The largest error as a factor, either way."""
    return max(math.exp(abs(math.log1p(e))) for e in errors.values())
