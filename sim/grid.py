"""Several sweeps as one run: the variants of a comparison share workers, and each goes to a worker once.

Enters: one `Sweep` a variant, with one seed, so that replication r of all variants has the same random numbers. Leaves: as
`sim.sweep`, with tasks (variant, load, replication).
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.engine import EngineName
from sim.sweep import Bench, Outcome, Sweep

Task = tuple[int, float, int]  # variant, load, replication


@dataclass(frozen=True)
class Grid:
    """The sweeps of all variants."""

    sweeps: tuple[Sweep, ...]

    @property
    def engine(self) -> EngineName:
        """What workers have to be ready for."""
        return "compiled" if any(sweep.engine == "compiled" for sweep in self.sweeps) else "simpy"

    def bench(self) -> GridBench:
        return GridBench(self)

    def tasks(self) -> list[Task]:
        """The least there is to do, variant by variant."""
        return [(v, *task) for v, sweep in enumerate(self.sweeps) for task in sweep.tasks()]

    def requests(self) -> int:
        """Requests of all these tasks together."""
        return sum(sweep.requests() for sweep in self.sweeps)


class GridBench:
    """Does tasks of a grid, one at a time; it holds the drawn work of one variant, the last."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._bench: Bench | None = None

    def do(self, variant: int, load: float, replication: int) -> Outcome:
        """One replication of one variant at one load."""
        sweep = self._grid.sweeps[variant]
        if self._bench is None or self._bench.sweep is not sweep:
            self._bench = Bench(sweep)
        return self._bench.do(load, replication)
