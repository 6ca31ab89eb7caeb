"""How many replications a load point has: as many as the scenario says, or rounds of them until its interval is narrow.

Enters: something that does tasks, load points, their scenarios. Leaves: outcomes of each load point in the order of their
replications. With `measurement.precision` a load point is looked at after 10 replications (or `replications`, if more), and
after half as many again each time, until the half width of the 95 % interval of its latency at the SLO's attainment level
is at most that share of the mean. A look counts finished replications in order, from the first, and nothing of other load
points; so the answer does not depend on workers, on stops, or on which other loads there are. A load point that is
saturated, or where that latency has no end, is not narrowed: more replications would not make it a figure of the node.

Stopping when an interval happens to be narrow favours replications that agree by chance, so such intervals contain the
truth less often than intervals over a number fixed beforehand. Looks from 10 on, few of them, keep the loss at 1 to 2
points of 100 (docs/explanation/simulation.md has the study; Law & Kelton 1982 the law of it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any

from scenarios.schema import Scenario
from sim.intervals import interval, saturated
from sim.metrics import Figures
from sim.result import Interval
from sim.sweep import Outcome

FIRST_LOOK = 10  # of five replications one in eight intervals would stop the run by chance
GROWTH = 1.5

Progress = Callable[[int, int], None]
Do = Callable[[Sequence[Any]], Generator[tuple[int, Any], None, None]]
"""Does tasks: (position of the task, its outcome) as they end."""

Key = tuple[Hashable, ...]
"""A load point; a task is a load point and a replication: (*key, r). The last part of a key is its load."""


def wanted(scenario: Scenario, runs: Sequence[Figures]) -> int:
    """How many replications a load point should have, given those that it has; as many as it has: no more."""
    measurement, now = scenario.measurement, len(runs)
    if measurement.precision is None:
        return measurement.replications
    if now == 0:
        return max(measurement.replications, FIRST_LOOK)
    late = interval(run.scalars["slo_percentile_s"] for run in runs)
    if now >= measurement.most_replications or narrow(late, measurement.precision) or saturated(scenario, runs):
        return now
    return min(math.ceil(now * GROWTH), measurement.most_replications)


def narrow(late: Interval, precision: float) -> bool:
    """Whether the interval is narrow enough; one that is empty in some replication (endless) never will be, and counts."""
    if late.mean is None or late.hi is None:
        return True
    return late.hi - late.mean <= precision * late.mean


def collect(
    do: Do, keys: Sequence[Key], scenario_of: Callable[[Key], Scenario], progress: Progress | None = None
) -> dict[Key, list[Outcome]]:
    """All replications of all load points, round by round."""
    done: dict[Key, list[Outcome]] = {key: [] for key in keys}
    finished = 0
    while tasks := _round(done, scenario_of):
        found: dict[Any, Outcome] = {}
        for place, outcome in do(tasks):
            found[tasks[place]] = outcome
            if progress:
                progress(finished + len(found), finished + len(tasks))
        finished += len(tasks)
        for task in tasks:
            done[task[:-1]].append(found[task])
    return done


def _round(done: dict[Key, list[Outcome]], scenario_of: Callable[[Key], Scenario]) -> list[Any]:
    """The tasks of the next round: a variant's replications one after the other, so that the work of one is drawn once."""
    order = {key: place for place, key in enumerate(done)}
    tasks = []
    for key, outcomes in done.items():
        have = len(outcomes)
        more = range(have, wanted(scenario_of(key), [outcome.figures for outcome in outcomes]))
        tasks += [(key[:-1], r, order[key], (*key, r)) for r in more]
    first = {part: place for place, part in enumerate(dict.fromkeys(key[:-1] for key in done))}
    return [task for _, _, _, task in sorted(tasks, key=lambda t: (first[t[0]], t[1], t[2]))]
