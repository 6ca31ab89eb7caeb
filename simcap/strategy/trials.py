"""The simulations behind a strategy: capacity of each provider, cold start of each order, what would change the choice.

Enters: scenario, profile, seed. Leaves: a `Workload`. All trials of one workload have the same random numbers.

The rule of choice, in this order: (1) the first provider's capacity is not significantly below the best one's (paired,
95 %); (2) fewest requests late or failed in a cold start that nobody prepared, under the policy that serves the order best; (3)
capacity. A warm latency decides nothing by itself. `compile_first` is a start that somebody did prepare: the node takes
traffic only when all is ready, so it has no part in (2), and its price is the delay. Cold starts run at half of the best capacity, from empty sessions and an empty
compile cache, until three times what all sessions take to load and compile one after another is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.schema import Scenario
from sim.result import Interval, Slo
from sim.why import first_to_fill
from simcap.strategy.break_even import REPLICATIONS, Bench, break_evens
from simcap.strategy.model import Plan, Policy, Start, Workload
from simcap.strategy.orders import Line, compiles, possible, with_order
from simcap.whatif.breaking import Values, capacities, is_steady, late, trial
from simcap.whatif.study import LEVEL, mean_interval, paired

START_REPLICATIONS = 5
MOST_PERMUTED = 3  # providers; with more, each first one is followed by the rest in order of capacity
LEAST_WINDOW_S = 60.0

Say = Callable[[str], None]


def work_out(
    scenario: Scenario, profile: Profile, seed: int, say: Say, asked: tuple[str, str] | None = None
) -> Workload:
    """`asked`: scenario and profile as commands name them. InputError: the scenario is a story without a capacity, or no provider of the profile can serve it."""
    if not is_steady(scenario) or scenario.load.kind != "rps":
        raise InputError(
            f"scenario {scenario.name}: a strategy needs a workload that goes on for ever, with load.rps; "
            "give one without bursts, days, traces or warmup: keep"
        )
    lines, impossible = possible(scenario, profile)
    if not lines:
        why = "; ".join(f"{provider}: {reason}" for provider, reason in impossible.items())
        raise InputError(f"scenario {scenario.name}: no provider of profile {profile.name} can serve it: {why}")
    bench = Bench(scenario, profile, seed)
    found = {line: _capacity(bench, line, say) for line in lines}
    plans = _plans(
        found, {line: _why(bench, line) for line, values in found.items() if not np.all(np.isfinite(values))}
    )
    best = {plan.provider: line for line, plan in zip(found, plans, strict=True) if plan.chosen}
    good = [line for line in best.values() if np.all(np.isfinite(found[line]))]
    top = max((float(found[line].mean()) for line in good), default=None)
    starts, window, none = _starts(bench, list(best.values()), found, top, say)
    level = {plan.provider for plan in plans if plan.level and plan.chosen}
    order, policy = _choose(starts, level, good, found)
    evens = break_evens(bench, order, policy, best, found, starts, top, say)
    return Workload(
        scenario=scenario.name,
        question=scenario.question,
        slo=Slo(latency_s=scenario.slo.latency_s, attainment=scenario.slo.attainment),
        load_kind=scenario.load.kind,
        steady_replications=REPLICATIONS,
        plans=plans,
        impossible=impossible,
        start_load=None if top is None else top / 2,
        start_window_s=window,
        start_replications=START_REPLICATIONS,
        starts=starts,
        no_starts=none,
        recommended=order,
        policy=policy,
        break_evens=evens,
        bottleneck=_bottleneck(bench, best, order, found),
        command=_command(scenario, asked or (scenario.name, profile.name), best, order, seed),
    )


def _capacity(bench: Bench, line: Line, say: Say) -> Values:
    say(f"{bench.scenario.name}: capacity on {line.provider}")
    points = bench.scenario.load.points
    return capacities(bench.steady([line]), points[len(points) // 2])


def _why(bench: Bench, line: Line) -> str:
    """Why a line has no capacity."""
    made = bench.steady([line])
    broken = late(made.run(bench.scenario.load.points[0], 0), bench.scenario.slo.latency_s) > 0
    return "no load keeps the promise" if broken else "no load that was tried breaks the promise"


def _plans(found: dict[Line, Values], reasons: dict[Line, str]) -> tuple[Plan, ...]:
    """Each line with its capacity and its distance from the best one; `reasons`: why a line has none."""
    finite = {line: values for line, values in found.items() if np.all(np.isfinite(values))}
    top = max(finite, key=lambda line: finite[line].mean(), default=None)
    plans = []
    for line, values in found.items():
        same = [values for other, values in finite.items() if other.provider == line.provider]
        chosen = line in finite and values.mean() >= max(v.mean() for v in same)
        if line not in finite or top is None:
            first = not same and line is next(other for other in found if other.provider == line.provider)
            plans.append(_plan(line, None, None, level=False, chosen=first, why=reasons.get(line)))
            continue
        change, lo, hi, p = paired(np.log(values / finite[top]), relative=True)
        behind = Interval(mean=change, lo=lo, hi=hi)
        level = line == top or p >= LEVEL or change > 0
        plans.append(_plan(line, mean_interval(values), behind, level=level, chosen=bool(chosen)))
    return tuple(plans)


def _plan(
    line: Line, capacity: Interval | None, behind: Interval | None, *, level: bool, chosen: bool, why: str | None = None
) -> Plan:
    return Plan(
        provider=line.provider, artifacts=line.of, capacity=capacity, behind=behind, level=level, chosen=chosen, why=why
    )


def orders(lines: Sequence[Line], found: dict[Line, Values]) -> list[tuple[Line, ...]]:
    """The orders to try."""
    if len(lines) <= MOST_PERMUTED:
        return list(permutations(lines))
    by_capacity = sorted(lines, key=lambda line: -float(np.nan_to_num(found[line]).mean()))
    return [(first, *(line for line in by_capacity if line is not first)) for first in by_capacity]


def _starts(
    bench: Bench, lines: Sequence[Line], found: dict[Line, Values], top: float | None, say: Say
) -> tuple[tuple[Start, ...], float | None, str | None]:
    """Cold starts of all orders under all policies, the window, or why there are none."""
    if top is None:
        return (), None, "no order keeps the promise at any load"
    missing = [e.key for line in lines for e in _entries(bench, line) if e.load is None]
    if missing:
        return (), None, f"the profile does not say how long a session of {missing[0]} takes to load"
    window = max(LEAST_WINDOW_S, 3 * max(_ready_s(bench, line) for line in lines))
    starts = []
    for order in orders(lines, found):
        for policy in _policies(bench, order):
            say(f"{bench.scenario.name}: cold start of {' > '.join(line.provider for line in order)}, {policy}")
            starts.append(_start(bench, order, policy, top / 2, window))
    return tuple(starts), window, None


def _entries(bench: Bench, line: Line) -> list:  # type: ignore[type-arg]  # of Entry
    signals = bench.scenario.signals
    return [bench.profile.entry(signals[name].model, artifact, line.provider) for name, artifact in line.artifacts]


def _ready_s(bench: Bench, line: Line) -> float:
    """Median seconds to load and compile every session, one after another."""
    total = 0.0
    for entry in _entries(bench, line):
        total += float(entry.load.law().ppf(0.5))
        if compiles(entry):
            total += max(float(cell.law().ppf(0.5)) for cell in entry.compile.cells if cell.cache == "cold")
    return total


def _policies(bench: Bench, order: Sequence[Line]) -> list[Policy]:
    """What can be done while the first provider's programs are not ready."""
    if not any(compiles(entry) for entry in _entries(bench, order[0])):
        return ["load_on_use"]
    policies: list[Policy] = ["wait"]
    if len(order) > 1:
        policies.append("fall_back")
    if all(signal.buckets for signal in bench.scenario.signals.values()):
        policies.append("compile_first")
    return policies


def _start(bench: Bench, order: Sequence[Line], policy: Policy, load: float, window: float) -> Start:
    changed = with_order(bench.scenario, bench.profile, order, policy)
    measurement = changed.measurement.model_copy(update={"duration_s": window, "warmup": "keep"})
    changed = changed.model_copy(update={"measurement": measurement})
    made = trial(changed, bench.profile, bench.seed, replications=START_REPLICATIONS)
    runs = [made.run(load, r) for r in range(made.replications)]
    share = np.array([1 - run.scalars["slo_attainment"] for run in runs])
    count = np.array([run.measured for run in runs])
    down = float(np.mean([run.scalars["fallback_fraction"] for run in runs]))
    return Start(
        providers=tuple(line.provider for line in order),
        policy=policy,
        late=_at_least_0(mean_interval(share * count)),
        late_share=_at_least_0(mean_interval(share)),
        stepped_down=down if math.isfinite(down) else 0.0,
        delay_s=_ready_s(bench, order[0]) if policy == "compile_first" else 0.0,
    )


def _at_least_0(interval: Interval) -> Interval:
    return interval.model_copy(update={"lo": max(interval.lo or 0.0, 0.0)})


def _choose(
    starts: Sequence[Start], level: set[str], good: Sequence[Line], found: dict[Line, Values]
) -> tuple[tuple[str, ...], Policy | None]:
    """The rule of the module's docstring."""
    if not good:
        return (), None
    capacity = {line.provider: float(found[line].mean()) for line in good}
    fit = [start for start in starts if start.providers[0] in level and start.policy != "compile_first"]
    if not fit:
        return tuple(sorted(capacity, key=lambda name: -capacity[name])), None
    after = {start: [-capacity.get(name, 0.0) for name in start.providers] for start in fit}
    best = min(fit, key=lambda start: (round(start.late.mean or 0.0, 3), after[start]))
    return best.providers, best.policy


def _bottleneck(bench: Bench, best: dict[str, Line], order: tuple[str, ...], found: dict[Line, Values]) -> str | None:
    if not order or not np.all(np.isfinite(found[best[order[0]]])):
        return None
    used = bench.steady([best[order[0]]]).run(float(found[best[order[0]]].mean()), 0).utilisation
    return first_to_fill({name: Interval(mean=value, lo=None, hi=None) for name, value in used.items()})


def _command(
    scenario: Scenario, asked: tuple[str, str], best: dict[str, Line], order: tuple[str, ...], seed: int
) -> str:
    """`simcap capacity` with the first provider of the order in every signal."""
    if not order:
        return ""
    changes = [
        f"--set signals.{name}.artifact={artifact} --set signals.{name}.provider={order[0]}"
        for name, artifact in best[order[0]].artifacts
        if (scenario.signals[name].artifact, scenario.signals[name].provider) != (artifact, order[0])
    ]
    return " ".join(["simcap capacity", asked[0], "--profile", asked[1], *changes, "--seed", str(seed)])
