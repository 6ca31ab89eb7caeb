"""What the tasks of a sweep share, and how one of them is done: a load point's replication to its figures.

Enters: a `Sweep` (scenario, profile, seed, engine) and tasks (load, replication). Leaves: `Outcome`s, the same wherever
and in whichever order they are done. The load points of one replication see the same requests (`sim.streams`), so the
work of a replication is drawn once and kept while its load points follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.schema import Profile
from profiles.spread import spread_of
from scenarios.arrivals import Burst
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.arrivals import arrivals_of, requests_of
from sim.calibration import plausible
from sim.engine import EngineName, simulate, simulate_in_pages
from sim.ledger import Ledger
from sim.metrics import Figures, figures
from sim.node import NodeSpec, node_of
from sim.pages import PAGE, House, Page, drawn, in_pages
from sim.records import Records
from sim.streams import OngoingStreams, Streams
from sim.work import Work, draw_work

Task = tuple[float, int]  # load, replication


@dataclass(frozen=True)
class Sweep:
    """`trace`: rows of `loader.read_trace`. `keep_records`: outcomes hold every request, too. `plausible`: replication r runs
    on the plausible profile of r (`sim.calibration`) in place of the stated one.
    """  # fmt: skip

    scenario: Scenario
    profile: Profile
    seed: int
    engine: EngineName
    trace: TraceRows | None = None
    keep_records: bool = False
    plausible: bool = False

    @property
    def sweeps(self) -> tuple[Sweep]:
        """Itself; a `sim.grid.Grid` has several."""
        return (self,)

    def bench(self) -> Bench:
        return Bench(self)

    def tasks(self) -> list[Task]:
        """The least there is to do, replication by replication, so that a replication's work is drawn once."""
        loads, replications = self.scenario.load.points, self.scenario.measurement.replications
        return [(load, r) for r in range(replications) for load in loads]

    def requests(self) -> int:
        """Requests of all these tasks together."""
        loads = self.scenario.load.points
        of_loads = sum(requests_of(self.scenario, load, self.trace) for load in loads)
        return of_loads * self.scenario.measurement.replications


@dataclass(frozen=True)
class Columns:
    """Every request of one replication as flat columns, one row a request."""

    columns: Mapping[str, NDArray[np.generic]]

    def to_table(self) -> Mapping[str, NDArray[np.generic]]:
        return self.columns


@dataclass(frozen=True)
class Outcome:
    """Figures of one replication at one load; `records` where the sweep keeps them."""

    figures: Figures
    records: Columns | None = None


class Bench:
    """Does tasks of one sweep, one at a time."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self._stated = sweep.profile, node_of(sweep.scenario, sweep.profile)
        self._spread = spread_of(sweep.profile)
        self._of = -1, *self._stated  # replication, its profile and node where these are not the stated ones
        self._drawn: tuple[tuple[int, int], Work] | None = None  # (replication, requests), their work

    def do(self, load: float, replication: int) -> Outcome:
        """One replication at one load; the same as `engine.run_once` and its figures."""
        sweep, streams = self.sweep, Streams(self.sweep.seed, replication)
        profile, node = self._node(streams, replication)
        n = requests_of(sweep.scenario, load, sweep.trace)
        if in_pages(sweep.scenario, n):
            return self._in_pages(profile, node, load, replication, n)
        work = self._work(profile, streams, replication, n)
        arrivals = arrivals_of(sweep.scenario, load, streams, sweep.trace)
        records = simulate(node, work, arrivals, streams, engine=sweep.engine)
        kept = Columns(records.to_table()) if sweep.keep_records else None
        return Outcome(figures_of(sweep.scenario, records), kept)

    def _node(self, streams: Streams, replication: int) -> tuple[Profile, NodeSpec]:
        """The profile that a replication runs on, and its node."""
        if not self.sweep.plausible:
            return self._stated
        if self._of[0] != replication:
            profile = plausible(self.sweep.profile, self._spread, streams, replication)
            self._of = replication, profile, node_of(self.sweep.scenario, profile)
        return self._of[1:]

    def _in_pages(self, profile: Profile, node: NodeSpec, load: float, replication: int, n: int) -> Outcome:
        """A run that is too long to keep, but for what the sweep keeps of it."""
        sweep, scenario = self.sweep, self.sweep.scenario
        ledger = Ledger(
            node,
            tuple(scenario.classes),
            scenario.slo.latency_s,
            requests=n,
            page=PAGE,
            steady=_has_warm_up(scenario),
        )
        draws, streams = (OngoingStreams(sweep.seed, replication) for _ in range(2))

        def pages() -> Iterator[Page]:
            for work, times in drawn(scenario, profile, draws, load, sweep.trace):
                ledger.drawn(times)
                yield work, times

        kept: list[Mapping[str, NDArray[np.generic]]] = []

        def add(records: Records) -> None:
            ledger.add(records)
            if sweep.keep_records:
                kept.append({name: np.array(column) for name, column in records.to_table().items()})

        simulate_in_pages(node, House(pages(), n), streams, add, sweep.engine)
        columns = {name: np.concatenate([page[name] for page in kept]) for name in kept[0]} if kept else None
        return Outcome(ledger.figures(scenario.slo.attainment), None if columns is None else Columns(columns))

    def _work(self, profile: Profile, streams: Streams, replication: int, n: int) -> Work:
        if self._drawn is None or self._drawn[0] != (replication, n):
            sweep = self.sweep
            work = draw_work(sweep.scenario, profile, streams, n, sweep.trace)
            self._drawn = (replication, n), work
        return self._drawn[1]


def figures_of(scenario: Scenario, records: Records) -> Figures:
    """The figures of one replication, measured as the scenario says."""
    return figures(
        records,
        tuple(scenario.classes),
        scenario.slo.latency_s,
        scenario.slo.attainment,
        bursts=isinstance(scenario.arrivals, Burst),
        steady=_has_warm_up(scenario),
    )


def _has_warm_up(scenario: Scenario) -> bool:
    """Whether there is one to remove."""
    return scenario.arrivals.steady and scenario.measurement.warmup == "mser5"
