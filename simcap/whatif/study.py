"""What-if: every standard variant of a scenario against the scenario itself, ranked by what it changes.

Enters: the scenario as it would run, a way to load it with further overrides, its profile, a seed. Leaves: a `WhatIf`,
`simcap.whatif/1`. All variants have the same random numbers, so a change is the mean of the differences within each
replication, with a 95 % t interval on R - 1 degrees of freedom.

A steady scenario is judged by its capacity: the change is relative, through the logarithm. A story (a cold start, a day,
a crash), and a scenario that breaks its promise at any load, is judged by the share of requests in time at one load
(`at_load`); the change is a difference of shares. Of the many variants some would seem to differ by chance: one is
`significant` only if it stays so when all of them are counted (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.special import stdtr, stdtrit

from profiles.document import Strict
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.arrivals import LoadKind
from scenarios.schema import Scenario
from sim.result import Interval, Slo
from simcap.whatif.breaking import Trial, Values, capacities, late, slower, trial
from simcap.whatif.variants import Owner, Variant, standard

LEVEL = 0.05
REPLICATIONS = 10  # where the compiled engine runs them; else the scenario's own

Measure = Literal["capacity", "slo_attainment"]
Progress = Callable[[int, int], None]
Load = Callable[[Sequence[str]], Scenario]
"""The scenario with further `--set` overrides."""


class Change(Strict):
    """One variant. `value`: its mean. `change` with `lo` and `hi`: relative for capacity, a difference for shares.

    All None where it could not be told; `why` says so. `overrides`: what gives the variant; `service_factor` is on every
    service time of the profile.
    """

    title: str
    owner: Owner
    overrides: tuple[str, ...]
    service_factor: float
    value: float | None
    change: float | None
    lo: float | None
    hi: float | None
    p: float | None
    significant: bool
    why: str | None = None


class WhatIf(Strict):
    """The whole answer, the largest change first. `base`: the scenario's own figure with its 95 % interval."""

    schema_version: Literal["simcap.whatif/1"] = Field(alias="schema", default="simcap.whatif/1")
    scenario: str
    question: str
    profile: str
    seed: int
    replications: int
    slo: Slo
    measure: Measure
    load_kind: LoadKind
    at_load: float | None
    base: Interval
    changes: tuple[Change, ...]


def what_if(load: Load, profile: Profile, seed: int, progress: Progress | None = None) -> WhatIf:
    """Run all of them. InputError where the scenario itself cannot run."""
    scenario = load(())
    variants = standard(scenario, profile)
    base = _trial(scenario, profile, seed)
    judge: Callable[[Trial], Values]
    own = capacities(base, _middle(scenario)) if base.steady else np.array([math.nan])
    at_load = None
    if np.all(np.isfinite(own)):
        measure: Measure = "capacity"
        judge = _capacity(float(own.mean()))
    else:
        measure, at_load = "slo_attainment", _telling_load(base)
        judge = _attainment(at_load)
        own = judge(base)
    changes = []
    for done, variant in enumerate(variants, start=1):
        changes.append(_one(variant, load, profile, seed, own, judge, measure))
        if progress:
            progress(done, len(variants))
    return WhatIf(
        scenario=scenario.name,
        question=scenario.question,
        profile=profile.name,
        seed=seed,
        replications=own.size,
        slo=Slo(latency_s=scenario.slo.latency_s, attainment=scenario.slo.attainment),
        measure=measure,
        load_kind=scenario.load.kind,
        at_load=at_load,
        base=mean_interval(own),
        changes=ranked(changes),
    )


def _trial(scenario: Scenario, profile: Profile, seed: int) -> Trial:
    made = trial(scenario, profile, seed)
    quick = made.steady and made.bench.sweep.engine == "compiled"
    return trial(scenario, profile, seed, replications=REPLICATIONS) if quick else made


def _middle(scenario: Scenario) -> float:
    points = scenario.load.points
    return points[len(points) // 2]


def _capacity(guess: float) -> Callable[[Trial], Values]:
    return lambda made: capacities(made, guess)


def _attainment(load: float) -> Callable[[Trial], Values]:
    return lambda made: np.array([made.run(load, r).scalars["slo_attainment"] for r in range(made.replications)])


def _telling_load(base: Trial) -> float:
    """The lowest load of the scenario whose first replication breaks the promise; the highest where none does."""
    points, limit = base.scenario.load.points, base.scenario.slo.latency_s
    return next((load for load in points if late(base.run(load, 0), limit) > 0), points[-1])


def _one(
    variant: Variant,
    load: Load,
    profile: Profile,
    seed: int,
    own: Values,
    judge: Callable[[Trial], Values],
    measure: Measure,
) -> Change:
    """A variant that cannot run (a length that nobody measured, say) is reported with the reason and not left out."""
    if variant.refused is not None:
        return _unknown(variant, variant.refused)
    try:
        scenario = load(variant.overrides)
        changed = profile if variant.service_factor == 1 else slower(profile, variant.service_factor)
        values = judge(_trial(scenario, changed, seed))
    except InputError as error:
        return _unknown(variant, str(error).splitlines()[0])
    if not np.all(np.isfinite(values)):
        return _unknown(variant, "no load tried breaks the promise, or every load does")
    differences = np.log(values / own) if measure == "capacity" else values - own
    change, lo, hi, p = paired(differences, relative=measure == "capacity")
    return Change(
        **_named(variant), value=float(values.mean()), change=change, lo=lo, hi=hi, p=p, significant=p < LEVEL
    )


def paired(differences: Values, *, relative: bool) -> tuple[float, float, float, float]:
    """Mean, both ends of the 95 % t interval, and p, of differences within pairs; `relative`: they are logarithms."""
    mean, freedom = float(differences.mean()), differences.size - 1
    error = float(differences.std(ddof=1) / math.sqrt(differences.size))
    p = (1.0 if abs(mean) < 1e-12 else 0.0) if error < 1e-12 else 2 * float(stdtr(freedom, -abs(mean) / error))
    half = float(stdtrit(freedom, 1 - LEVEL / 2)) * error
    ends = mean, mean - half, mean + half
    if relative:
        ends = math.expm1(ends[0]), math.expm1(ends[1]), math.expm1(ends[2])
    return *ends, p


def mean_interval(values: Values) -> Interval:
    """Mean and 95 % t interval."""
    half = float(stdtrit(values.size - 1, 1 - LEVEL / 2) * values.std(ddof=1) / math.sqrt(values.size))
    mean = float(values.mean())
    return Interval(mean=mean, lo=mean - half, hi=mean + half)


def _named(variant: Variant) -> dict[str, object]:
    return {
        "title": variant.title,
        "owner": variant.owner,
        "overrides": variant.overrides,
        "service_factor": variant.service_factor,
    }


def _unknown(variant: Variant, why: str) -> Change:
    nothing = dict.fromkeys(("value", "change", "lo", "hi", "p"))
    return Change(**_named(variant), **nothing, significant=False, why=why)


def ranked(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Significant ones by Holm's rule first, the largest gain first; then the rest; last what could not be told."""
    known = sorted((c for c in changes if c.p is not None), key=lambda c: c.p or 0.0)
    kept = [c.p is not None and c.p < LEVEL / (len(known) - rank) for rank, c in enumerate(known)]
    first_not = kept.index(False) if False in kept else len(kept)
    judged = [c.model_copy(update={"significant": rank < first_not}) for rank, c in enumerate(known)]
    judged.sort(key=lambda c: (not c.significant, -(c.change or 0.0)))
    return (*judged, *(c for c in changes if c.p is None))
