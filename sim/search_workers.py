"""The runs of a capacity search, over workers: the replications of one level side by side, and the roots that calibration asks.

Enters: a scenario, its profile, seed, trace and the search's settings. Leaves: outcomes in the order of their replications, so
that a search answers the same whatever the number of workers. Where the effort ends in the middle of a level, what was run
beyond it is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from profiles.schema import Profile
from profiles.spread import spread_of
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.calibration import plausible
from sim.engine import EngineName
from sim.executor import Dask, Executor, local
from sim.replicate import engine_for
from sim.rounds import Do
from sim.search_calibration import Pair, pair_of
from sim.search_levels import Outcome, Probe, Settings
from sim.streams import Streams
from sim.sweep import Sweep

LEVELS = 4  # that a search reads at the least, for what workers are worth

ProbeOf = Callable[[Scenario, Profile, int, TraceRows | None], Probe]


@dataclass(frozen=True)
class Search:
    """What all runs of a search share."""

    scenario: Scenario
    profile: Profile
    seed: int
    trace: TraceRows | None
    settings: Settings
    probe_of: ProbeOf
    engine: EngineName = "simpy"

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """None: a search keeps nothing."""
        return ()

    def bench(self) -> SearchBench:
        return SearchBench(self)

    def tasks(self) -> Sequence[int]:
        return range(self.settings.replications)

    def requests(self) -> int:
        return LEVELS * self.settings.replications * self.settings.requests


class SearchBench:
    """Does one run, or finds the roots of one replication."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._probe = search.probe_of(search.scenario, search.profile, search.seed, search.trace)

    def do(self, what: str, load: float, replication: int, requests: int) -> Outcome | Pair | None:
        """`run`: a replication at a load. `roots`: where it breaks the SLO near a load, as stated and on a plausible profile."""
        if what == "run":
            return self._probe(load, replication, requests)
        s = self._search
        likely = plausible(s.profile, spread_of(s.profile), Streams(s.seed, replication), replication)
        other = s.probe_of(s.scenario, likely, s.seed, s.trace)
        return pair_of(self._probe, other, load, replication, s.settings, s.scenario.slo.latency_s)


@dataclass(frozen=True)
class Workers:
    """Those that an open search has."""

    do: Do

    def level(self, load: float, replications: Sequence[int], requests: int) -> list[Outcome]:
        """The replications of one load."""
        return self._in_order([("run", load, r, requests) for r in replications])

    def roots(self, near: float, replications: Sequence[int]) -> list[Pair | None]:
        """The roots of each replication near a load."""
        return self._in_order([("roots", near, r, 0) for r in replications])

    def _in_order(self, tasks: list[Any]) -> list[Any]:
        found: dict[int, Any] = {}
        with closing(self.do(tasks)) as running:
            found.update(running)
        return [found[place] for place in range(len(tasks))]


@contextmanager
def opened(search: Search, workers: int, dask: str | None) -> Iterator[Workers]:
    """Workers for a search, until the block ends."""
    s = search
    engine = engine_for(s.scenario, s.profile, s.seed, "auto", s.trace, requests=s.requests()).engine
    ready = Search(s.scenario, s.profile, s.seed, s.trace, s.settings, s.probe_of, engine)
    executor: Executor = Dask(dask) if dask is not None else local(workers, ready)
    with executor.opened(ready) as do:
        yield Workers(do)
