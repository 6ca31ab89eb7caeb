"""How much of something a load needs: the first value of a scenario key, in the order given, that keeps the SLO.

Enters: one scenario for each value, the load. Leaves: a `CapacitySearch` with `over`. Values are tried in order with the
same streams and until one passes, so nothing is assumed about more being better. A value is judged by its verdict;
replications are doubled until it has one, at most four times, and runs are lengthened as in `sim.search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from profiles.schema import Profile
from scenarios.loader import bind, read_trace
from scenarios.schema import Scenario
from sim.search_levels import Bench, EffortUsedUpError, Reading
from sim.search_refine import ENOUGH_BREACHES, Finding, Kind
from sim.search_result import SHORT_UNIT, CapacitySearch, Over, Tried, figure, first_to_fill, promise
from sim.search_runs import Ask, Options, Progress, answer, fullest_at, point_of, probe_of, settings_of, slo_of
from sim.search_workers import Search, opened

DOUBLINGS = 4


def smallest(
    key: str,
    variants: Sequence[tuple[str, Scenario]],
    load: float,
    profile: Profile,
    seed: int,
    options: Options,
    progress: Progress | None = None,
) -> CapacitySearch:
    """Judge the values of `key` one after the other. `variants`: (value as text, the scenario with it), at least one."""
    for _, scenario in variants:
        bind(scenario, profile)  # all of them before anything runs
    spent = 0
    readings: list[tuple[str, Scenario, Reading]] = []
    unsure: str | None = None
    for value, scenario in variants:
        left = replace(options, max_requests=max(options.max_requests - spent, 1))
        trace, settings = read_trace(scenario), settings_of(scenario, left)
        with opened(
            Search(scenario, profile, seed, trace, settings, probe_of), options.workers, options.dask
        ) as workers:
            bench = Bench(probe_of(scenario, profile, seed, trace), settings, progress, workers.level)
            reading = judge(bench, load)
        spent += bench.spent
        if reading is None:
            unsure = unsure or f"the effort of {options.max_requests:,} requests is used up (--max-effort) at {value}"
            break
        readings.append((value, scenario, reading))
        if reading.verdict == "pass":
            break
        if reading.verdict == "indeterminate":
            unsure = unsure or f"{value} can be told neither to keep nor to break the SLO"
    ask = Ask(readings[-1][1] if readings else variants[0][1], profile, seed, options, None)
    tried = tuple(Tried(value=value, point=point_of(reading)) for value, _, reading in readings)
    over = Over(key=key, load=load, values=tuple(value for value, _ in variants), tried=tried, smallest=None)
    return _answer(ask, over, readings[-1][2] if readings else None, unsure, spent)


def judge(bench: Bench, load: float) -> Reading | None:
    """A reading with a verdict, or the best there is within the effort; None when not even the first run fits."""
    settings, reading = bench.settings, None
    requests, reps = settings.requests, settings.replications
    try:
        for _ in range(DOUBLINGS + 1):
            reading = bench.read(load, requests, reps)
            if reading.verdict != "indeterminate":
                break
            if settings.steady and reading.cv > ENOUGH_BREACHES:
                requests *= 2
            else:
                reps *= 2
    except EffortUsedUpError:
        pass
    return reading


def _answer(ask: Ask, over: Over, last: Reading | None, unsure: str | None, spent: int) -> CapacitySearch:
    scenario, key = ask.scenario, over.key
    passed = over.tried[-1].value if last is not None and last.verdict == "pass" else None
    kind: Kind = "indeterminate" if unsure else "found" if passed else "unreachable"
    asked = f"{promise(slo_of(scenario))} at {figure(over.load)} {SHORT_UNIT[scenario.load.kind]}"
    fullest = fullest_at(scenario, last)
    reason = unsure
    if kind == "found":
        said = f"smallest {key} = {passed} ({asked}); {first_to_fill(fullest)}"
        over = over.model_copy(update={"smallest": passed})
    elif kind == "indeterminate":
        said = f"indeterminate: {reason}{f'; {passed} surely keeps it' if passed else ''} ({asked})"
    else:
        reason = f"no value of {key} keeps the SLO"
        said = f"unreachable: {reason} ({asked}); at {over.tried[-1].value} {first_to_fill(fullest)}"
    finding = Finding(kind, reason, None, None, None, spent=spent)
    return answer(replace(ask, trace=read_trace(scenario)), finding, said, fullest, over=over)
