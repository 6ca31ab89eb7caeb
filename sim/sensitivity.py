"""Which measurement would narrow the interval most: the variance of one figure, put down to its sources.

Enters: a sweep, the load nearest to capacity, and what calibration does there as a whole (`sim.uncertainty`). Leaves: shares,
largest first. The figure is the latency at the SLO's own level. One replication runs again with one cell of the profile slower
by STEP, same random numbers: ln(after / before) / STEP is the figure's elasticity to that cell; times the standard deviation of
the cell (its samples and what it does by itself) it is the part of the figure's standard deviation that this cell brings, to
first order. Shares are of the squares: the simulation, the machine, and the cells, each cell by its part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiles.entry import Cell, Entry
from profiles.plausible import resampled
from profiles.schema import Profile
from profiles.spread import Spread, sampled, spread_of, surfaces
from scenarios.loader import Bound
from scenarios.schema import Scenario
from sim.result import Narrowing
from sim.streams import Streams
from sim.sweep import Bench, Sweep
from sim.uncertainty import Apart

STEP = 0.1
SHOWN = 3
DRAWS = 25  # plausible laws from which the spread of a median is taken
LEAST = 0.005  # a share that is worth naming


@dataclass(frozen=True)
class Place:
    """One cell of the profile."""

    entry: Entry
    cadence: str
    cell: Cell

    @property
    def what(self) -> str:
        batch = "" if self.cell.batch == 1 else f" × {self.cell.batch}"
        return f"service time of {self.entry.key} at {self.cell.tokens}{batch} tokens ({self.cadence})"

    def command(self, catalog: str) -> str:
        """What measures it again; its profile is then merged with the one there is."""
        entry = self.entry
        zoo = entry.model.startswith("mmbert")
        model = f"--models {entry.model} --artifacts {entry.artifact}" if zoo else f"--model {entry.model}=FILE.onnx"
        shape = f"--tokens {self.cell.tokens}" + ("" if self.cell.batch == 1 else f" --batch {self.cell.batch}")
        cadence = "" if self.cadence == "unknown" else f" --cadence {self.cadence}"
        return f"simcap calibrate --gpu {catalog} {model} --providers {entry.provider.name} {shape}{cadence}"


def narrowing_of(sweep: Sweep, entries: Bound, load: float, apart: Apart, simulation: float) -> tuple[Narrowing, ...]:
    """The sources of variance, largest first. `simulation`: half width of its interval, on the same scale as `apart`."""
    before = _figure(sweep, load)
    found: list[tuple[Place, float]] = []
    spread = spread_of(sweep.profile)
    for place in places(sweep.scenario, entries):
        deviation = _deviation(place, spread)
        if deviation and math.isfinite(before):
            after = _figure(replace(sweep, profile=slower(sweep.profile, place)), load)
            found.append((place, deviation * math.log(after / before) / STEP if math.isfinite(after) else 0.0))
    total = simulation**2 + apart.machine**2 + apart.cells**2
    squares = sum(effect**2 for _, effect in found)
    if not total or not squares:
        cells: list[Narrowing] = []
    else:
        catalog, cells_share = sweep.profile.device.catalog, apart.cells**2 / total
        ranked = sorted(found, key=lambda item: -abs(item[1]))[:SHOWN]
        cells = [
            Narrowing(what=p.what, share=cells_share * effect**2 / squares, measure=p.command(catalog))
            for p, effect in ranked
        ]
    runs = sweep.profile.runs is not None
    again = (
        "the same simcap calibrate once more, then simcap profiles merge" if runs else "a measurement on that device"
    )
    together = "from run to run" if runs else "as the profile states"
    whole = [
        Narrowing(
            what="simulation", share=simulation**2 / total if total else 0.0, measure="more measurement.replications"
        ),
        Narrowing(
            what=f"all service times together, {together}",
            share=apart.machine**2 / total if total else 0.0,
            measure=again,
        ),
    ]
    return tuple(sorted((n for n in (*whole, *cells) if n.share >= LEAST), key=lambda n: -n.share))


def places(scenario: Scenario, entries: Bound) -> Iterator[Place]:
    """The cells that the scenario's signals draw from, each once."""
    seen: set[tuple[str, str, int, int]] = set()
    for name, signal in scenario.signals.items():
        for choice in signal.choices:
            entry = entries[name][choice.provider, choice.artifact]
            surface = next(s for s in surfaces(entry) if choice.cadence in {None, s.cadence})
            for cell in surface.cells:
                key = (entry.key, surface.cadence, cell.tokens, cell.batch)
                if key not in seen:
                    seen.add(key)
                    yield Place(entry, surface.cadence, cell)


def slower(profile: Profile, place: Place) -> Profile:
    """The profile with one cell slower by STEP."""

    def changed(entry: Entry) -> Entry:
        if entry.key != place.entry.key:
            return entry
        update = {}
        for name in ("service", "paced_service"):
            surface = getattr(entry, name)
            if surface is not None and surface.cadence == place.cadence:
                cells = tuple(_slow(c) if c == place.cell else c for c in surface.cells)
                update[name] = surface.model_copy(update={"cells": cells})
        return entry.model_copy(update=update)

    return profile.model_copy(update={"entries": tuple(changed(entry) for entry in profile.entries)})


def _slow(cell: Cell) -> Cell:
    return cell.model_copy(update={"seconds": tuple(math.exp(STEP) * x for x in cell.seconds)})


def _deviation(place: Place, spread: Spread) -> float:
    """Standard deviation of the logarithm of the cell's own part."""
    cell = place.cell
    _, own = spread.of(cell, (place.entry.key, place.cadence))
    if not sampled(cell):
        return own
    rng = Streams(0, 0).generator(f"sensitivity:{place.what}")
    draws: Sequence[float] = [
        float(np.interp(0.5, cell.levels, resampled(cell.levels, np.array(cell.seconds), cell.n, rng)))
        for _ in range(DRAWS)
    ]
    return math.hypot(own, float(np.std(np.log(draws), ddof=1)))


def _figure(sweep: Sweep, load: float) -> float:
    outcome = Bench(replace(sweep, keep_records=False)).do(load, 0)
    return outcome.figures.scalars["slo_percentile_s"]
