"""What a profile states of its own uncertainty, for one simulation, and the profile that each replication takes in turn.

Enters: profile, the entries that are used, streams. Leaves: a `Calibration`, and plausible profiles
(`profiles.plausible`): of replication r the same at every load and for every scenario of one seed; every second one on a
slower machine, the others on a faster one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from profiles.entry import Entry
from profiles.plausible import Plausible
from profiles.quantity import Figure, Law
from profiles.schema import Profile
from profiles.spread import Spread, figure_spread, sampled, spread_of, surfaces
from sim.streams import Streams

Asked = Literal["simulation", "full"]


def side(replication: int) -> float:
    """Of the machine that a replication's plausible profile is of: +1 slower, -1 faster."""
    return 1.0 if replication % 2 == 0 else -1.0


def plausible(profile: Profile, spread: Spread, streams: Streams, replication: int) -> Profile:
    """The plausible profile of a replication."""
    return Plausible(profile, spread, side(replication), streams.generator).profile()


@dataclass(frozen=True)
class Calibration:
    """moves: whether the file states any spread. common: whether all service times may be off together. freedom: degrees of
    freedom behind the spread between runs, infinite where none is used.
    """  # fmt: skip

    moves: bool
    common: bool
    freedom: float

    @classmethod
    def of(cls, profile: Profile, entries: Iterable[Entry]) -> Calibration:
        """Of the entries that are used."""
        spread, used = spread_of(profile), list(entries)
        laws = [pair for entry in used for pair in laws_of(entry)]
        spreads = [spread.of(law, surface) for law, surface in laws]
        figures = [figure for entry in used for figure in figures_of(entry)]
        if profile.router is not None:
            figures += [profile.router.base_s, profile.router.per_token_s]
        moves = any(sampled(law) for law, _ in laws) or any(map(any, spreads)) or any(map(figure_spread, figures))
        common = any(together for together, _ in spreads)
        return cls(moves, common, spread.freedom(law for law, _ in laws) if common else math.inf)


def laws_of(entry: Entry) -> list[tuple[Law, tuple[str, str] | None]]:
    """Every law of time that a simulation may draw from, and its surface where it is a cell of one."""
    found: list[tuple[Law, tuple[str, str] | None]] = [
        (cell, (entry.key, surface.cadence)) for surface in surfaces(entry) for cell in surface.cells
    ]
    found += [(cell, None) for cell in (entry.compile.cells if entry.compile else ())]
    return [*found, *([(entry.load, None)] if entry.load else [])]


def figures_of(entry: Entry) -> list[Figure]:
    """Every figure that a simulation may use."""
    memory = entry.memory
    held = [memory.weights_bytes] if memory and memory.weights_bytes else []
    return [*entry.occupancy, *held, *(cell.peak_bytes for cell in (memory.cells if memory else ()))]
