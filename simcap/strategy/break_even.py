"""What would change a recommendation: how far a figure may move until another order is as good.

Enters: the capacities and cold starts that `trials` found. Leaves: `BreakEven`s. docs/explanation/what-if-and-strategy.md
has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from profiles.schema import Profile
from scenarios.schema import Scenario
from sim.result import Interval
from simcap.strategy.model import BreakEven, Policy, Start
from simcap.strategy.orders import Line, with_order
from simcap.whatif.breaking import Trial, Values, late, root, slower, trial
from simcap.whatif.study import mean_interval

REPLICATIONS = 10
DAY_S = 86_400.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """What all trials of a workload share."""

    scenario: Scenario
    profile: Profile
    seed: int

    def steady(self, order: Sequence[Line], profile: Profile | None = None) -> Trial:
        changed = with_order(self.scenario, self.profile, order[:1])
        return trial(changed, profile or self.profile, self.seed, replications=REPLICATIONS)


def break_evens(
    bench: Bench,
    order: tuple[str, ...],
    policy: Policy | None,
    best: dict[str, Line],
    found: dict[Line, Values],
    starts: Sequence[Start],
    top: float | None,
    say: Say,
) -> tuple[BreakEven, ...]:
    evens: list[BreakEven] = []
    rivals = [name for name in order[1:] if np.all(np.isfinite(found[best[name]]))]
    if rivals:
        rival = max(rivals, key=lambda name: found[best[name]].mean())
        say(f"{bench.scenario.name}: how much slower {order[0]} may be than it is")
        factors = _factors(bench, best[order[0]], found[best[rival]])
        if np.all(np.isfinite(factors)):
            evens.append(BreakEven(kind="slower", other=rival, value=mean_interval(factors)))
    if order and top is not None:
        for start in starts:
            if start.providers == order and start.policy in {policy, "wait"} and (start.late.mean or 0) > 0:
                spare = _spare(bench, best[order[0]], top / 2) * top / 2 * DAY_S
                ends = [spare / late if late else None for late in (start.late.mean, start.late.hi, start.late.lo)]
                value = Interval(mean=ends[0], lo=ends[1], hi=ends[2])
                evens.append(BreakEven(kind="starts", other=start.policy, value=value))
    return tuple(evens)


def _factors(bench: Bench, line: Line, loads: Values) -> Values:
    """The factor on the provider's service times at which each replication breaks the promise at its own load."""
    made: dict[float, Trial] = {}

    def at(factor: float) -> Trial:
        if factor not in made:
            made[factor] = bench.steady([line], slower(bench.profile, factor, line.provider))
        return made[factor]

    limit = bench.scenario.slo.latency_s
    return np.array(
        [root(lambda f, r=r, load=load: late(at(f).run(load, r), limit), 1.5) for r, load in enumerate(loads)]  # type: ignore[misc]  # bound early
    )


def _spare(bench: Bench, line: Line, load: float) -> float:
    """The share of requests that the SLO still allows to be late at this load when nothing starts cold."""
    made = bench.steady([line])
    late_now = 1 - float(np.mean([made.run(load, r).scalars["slo_attainment"] for r in range(made.replications)]))
    return max(1 - bench.scenario.slo.attainment - late_now, 0.0)
