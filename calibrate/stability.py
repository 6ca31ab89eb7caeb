"""How steady the machine was: the sentinel's medians over the run, and the rules that the worker applies.

Enters: visits of the sentinel. Leaves: its medians in the order measured and their relative spread (largest minus
smallest, over the middle one). A profile says itself when it was measured on a machine that was not quiet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from calibrate.results import LatencyRecord, Visit

QUIET = 0.05
"""Largest relative spread of the sentinel's medians at which the machine counts as quiet."""


@dataclass(frozen=True)
class Drift:
    """medians_s: one a visit, in order."""

    label: str
    medians_s: tuple[float, ...]

    @property
    def spread(self) -> float:
        return (max(self.medians_s) - min(self.medians_s)) / median(self.medians_s)

    @property
    def quiet(self) -> bool:
        return self.spread <= QUIET

    def told(self) -> str:
        """The drift as one sentence for the profile and the person at the terminal."""
        listed = ", ".join(f"{m * 1000:.3g}" for m in self.medians_s)
        verdict = (
            "the machine was quiet"
            if self.quiet
            else f"above {QUIET:.0%}, so the machine was NOT quiet and differences of this size between cells may be its drift"
        )
        return f"sentinel {self.label}: medians {listed} ms in order, spread {self.spread:.1%}; {verdict}"


def drift_of(label: str, visits: Iterable[Visit]) -> Drift | None:
    """Drift from the sentinel's visits; None when fewer than two succeeded."""
    medians = [
        median(record.settled_s)
        for visit in visits
        if visit.role == "sentinel"
        for record in visit.outcome.records
        if isinstance(record, LatencyRecord) and record.cadence == "tight"
    ]
    return Drift(label, tuple(medians)) if len(medians) >= 2 else None
