"""One plausible profile: what calibration might have found instead, on another day and with other samples.

Enters: a profile, its `Spread`, a side (+1 slower, -1 faster) and a source of named random generators. Leaves: a profile of
the same form. Three things move, and nothing that the file states no spread for:
    samples    n samples in order stand at levels of the true law whose spacings are Dirichlet(1, …, 1), n + 1 of them; so a
               stored quantile at level p stands at a level with Beta law. The law is read at the stored levels again.
    common     a factor exp(side · s) on all service times: the machine of another run, one standard deviation slower or faster
    own        a factor exp(z · s) of each cell, z normal
Figures with bounds (occupancy, memory, router CPU) get a lognormal factor from them. A number's generator is known by the
number's name, so measuring one cell more changes no other. Source of the first: order statistics of uniform samples
(David & Nagaraja 2003, §2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from profiles.distribution import Floats
from profiles.entry import Compile, Entry, Memory, Surface
from profiles.quantity import Figure, Law
from profiles.schema import Profile, RouterOverhead
from profiles.spread import Spread, figure_spread, sampled

Named = Callable[[str], np.random.Generator]
LawT = TypeVar("LawT", bound=Law)
FigureT = TypeVar("FigureT", bound=Figure)


class Plausible:
    """Draws one profile."""

    def __init__(self, profile: Profile, spread: Spread, side: float, named: Named) -> None:
        self._profile, self._spread, self._side, self._named = profile, spread, side, named

    def profile(self) -> Profile:
        """The plausible profile."""
        profile = self._profile
        changes: dict[str, object] = {"entries": tuple(self._entry(entry) for entry in profile.entries)}
        if profile.router is not None:
            parts = {name: getattr(profile.router, name) for name in RouterOverhead.model_fields}
            changes["router"] = profile.router.model_copy(update=self._figures(parts, "router"))
        return profile.model_copy(update=changes)

    def _entry(self, entry: Entry) -> Entry:
        key = entry.key
        return entry.model_copy(
            update={
                "load": entry.load and self._law(entry.load, f"{key}:load"),
                "compile": entry.compile and self._compile(entry.compile, key),
                "service": entry.service and self._surface(entry.service, key),
                "paced_service": entry.paced_service and self._surface(entry.paced_service, key),
                "occupancy": tuple(
                    self._figure(p, f"{key}:occupancy:{p.tokens}", highest=1.0) for p in entry.occupancy
                ),
                "memory": entry.memory and self._memory(entry.memory, f"{key}:memory"),
            }
        )

    def _surface(self, surface: Surface, key: str) -> Surface:
        own = (key, surface.cadence)
        cells = [self._law(c, f"{key}:{surface.cadence}:{c.tokens}x{c.batch}", own) for c in surface.cells]
        return surface.model_copy(update={"cells": tuple(cells)})

    def _compile(self, compiled: Compile, key: str) -> Compile:
        cells = [self._law(c, f"{key}:{c.cache} compile:{c.tokens}x{c.batch}") for c in compiled.cells]
        return compiled.model_copy(update={"cells": tuple(cells)})

    def _law(self, law: LawT, name: str, surface: tuple[str, str] | None = None) -> LawT:
        common, own = self._spread.of(law, surface)
        if not (sampled(law) or common or own):
            return law
        rng, seconds = self._named(f"calibration:{name}"), np.array(law.seconds)
        if sampled(law):
            seconds = resampled(law.levels, seconds, law.n, rng)
        factor = np.exp(self._side * common + own * rng.standard_normal())
        return law.model_copy(update={"seconds": tuple((factor * seconds).tolist())})

    def _memory(self, memory: Memory, name: str) -> Memory:
        """All figures of an entry with one draw: what holds the weights holds the activations."""
        cells = []
        for cell in memory.cells:
            parts = {"peak_bytes": cell.peak_bytes, "steady_bytes": cell.steady_bytes}
            cells.append(cell.model_copy(update=self._figures(parts, name)))
        weights = memory.weights_bytes and self._figure(memory.weights_bytes, name)
        return memory.model_copy(update={"weights_bytes": weights, "cells": tuple(cells)})

    def _figures(self, figures: Mapping[str, Figure | None], name: str) -> dict[str, Figure | None]:
        return {key: figure and self._figure(figure, name) for key, figure in figures.items()}

    def _figure(self, figure: FigureT, name: str, highest: float = np.inf) -> FigureT:
        spread = figure_spread(figure)
        if not spread:
            return figure
        factor = float(np.exp(spread * self._named(f"calibration:{name}").standard_normal()))
        return figure.model_copy(update={"value": min(figure.value * factor, highest)})


def resampled(levels: Sequence[float], seconds: Floats, n: int, rng: np.random.Generator) -> Floats:
    """The quantiles of a law that n samples with the quantiles `seconds` might come from."""
    steps = rng.gamma(np.concatenate([[1.0], (n - 1) * np.diff(levels), [1.0]]))  # over their sum they are Dirichlet
    true = np.cumsum(steps)[:-1] / steps.sum()
    return np.asarray(np.interp(levels, true, seconds))
