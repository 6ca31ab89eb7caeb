"""How far the numbers of a profile may lie off, as far as the file itself says so.

Enters: a profile. Leaves: a `Spread`, relative standard deviations (of logarithms), no units. With m_ck the median of cell
c in run k of K merged runs, d_ck = ln m_ck - mean_k ln m_ck:
    machine    A_k = mean_c d_ck moves all service times of a run together; s² = sum A_k² / (K - 1)
    own        what is left, d_ck - A_k, is a cell's own; pooled over the cells of one surface
The run that a prediction is held against is a new one, and the estimate is itself a mean of K: both times sqrt(1 + 1/K).
A law that nobody sampled but whose median has stated bounds (a derived profile) may lie off by (ln hi - ln lo) / (2 · 1.96),
together with all others of its kind. What has neither is not spread here: nothing is invented.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from profiles.entry import Cell, Entry, Surface
from profiles.quantity import Figure, Law
from profiles.schema import Profile

Z = 1.959964  # of a 95 % interval of the normal law


@dataclass(frozen=True)
class Spread:
    """runs: merged runs behind the profile, 1 where it is of one. machine: of the factor that all service times of a new run
    share. own: by surface (entry key, cadence), of the factor that is a cell's own.
    """  # fmt: skip

    runs: int
    machine: float
    own: Mapping[tuple[str, str], float]

    def of(self, law: Law, surface: tuple[str, str] | None = None) -> tuple[float, float]:
        """(common, own) of a law; `surface` where it is a cell of one."""
        if stated(law):
            return math.log((law.median_hi or 1.0) / (law.median_lo or 1.0)) / (2 * Z), 0.0
        medians = law.run_medians or ()
        if len(medians) < 2:
            return 0.0, 0.0
        more = math.sqrt(1 + 1 / len(medians))
        if surface is None:  # loads and compiles wait for disks, too: each moves by itself
            return 0.0, more * float(np.std(np.log(medians), ddof=1))
        return more * self.machine, more * self.own.get(surface, 0.0)

    def freedom(self, laws: Iterable[Law]) -> float:
        """Degrees of freedom behind the common part of these laws: few runs tell little about the spread between them."""
        counts = [len(law.run_medians or ()) - 1 for law in laws if not stated(law)]
        return float(min((n for n in counts if n > 0), default=math.inf))


def sampled(law: Law) -> bool:
    """Whether the law is what samples gave, so that their number says how well it is known."""
    return law.n >= 2 and law.origin == law.spread_origin == "measured"


def stated(law: Law) -> bool:
    """Whether nobody sampled the law and its median has bounds that the file states."""
    return law.origin != "measured" and law.median_lo is not None and law.median_hi is not None


def figure_spread(figure: Figure) -> float:
    """From the figure's bounds; 0 where it has none."""
    if figure.lo is None or figure.hi is None or not 0 < figure.lo <= figure.hi:
        return 0.0
    return math.log(figure.hi / figure.lo) / (2 * Z)


def surfaces(entry: Entry) -> list[Surface]:
    """The service surfaces that an entry has."""
    return [surface for surface in (entry.service, entry.paced_service) if surface is not None]


def spread_of(profile: Profile) -> Spread:
    """The spread between the runs of a profile, over the cells that every run has."""
    runs = len(profile.runs or ())
    rows: dict[tuple[str, str], list[Cell]] = {}
    for entry in profile.entries:
        for surface in surfaces(entry):
            full = [cell for cell in surface.cells if len(cell.run_medians or ()) == runs]
            rows.setdefault((entry.key, surface.cadence), []).extend(full)
    cells = [cell for found in rows.values() for cell in found]
    if runs < 2 or not cells:
        return Spread(runs=1, machine=0.0, own={})
    off = np.log(np.array([cell.run_medians for cell in cells]))
    off -= off.mean(axis=1, keepdims=True)
    together = off.mean(axis=0)
    left = off - together
    own, start = dict[tuple[str, str], float](), 0
    for key, found in rows.items():
        part = left[start : start + len(found)]
        start += len(found)
        if found and len(cells) > 1:  # of C deviations from their mean only the share (C - 1) / C is free
            free = (runs - 1) * len(found) * (len(cells) - 1) / len(cells)
            own[key] = math.sqrt(float((part**2).sum()) / free)
    return Spread(runs, math.sqrt(float((together**2).sum()) / (runs - 1)), own)
