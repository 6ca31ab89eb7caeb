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
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.special import stdtr, stdtrit

from profiles.document import Strict
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.arrivals import LoadKind
from scenarios.schema import Scenario
from sim.engine import EngineName
from sim.executor import local
from sim.result import Interval, Slo
from sim.sweep import Sweep
from simcap.whatif.breaking import Trial, Values, capacities, late, slower, trial
from simcap.whatif.variants import Owner, Variant, standard

LEVEL = 0.05
LOADS = 4  # that a replication is run at, at the least, until it is known where it breaks its promise
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


def what_if(load: Load, profile: Profile, seed: int, workers: int = 1, progress: Progress | None = None) -> WhatIf:
    """Run all of them, over `workers` processes, which change no figure. InputError where the scenario itself cannot run."""
    scenario = load(())
    variants = standard(scenario, profile)
    base = _trial(scenario, profile, seed)
    asked = _question(load, profile, seed, base, variants)
    found: dict[int, Change] = {}
    with closing(local(workers, asked).outcomes(asked, asked.tasks())) as running:
        for place, change in running:
            found[place] = change
            if progress:
                progress(len(found), len(variants))
    return WhatIf(
        scenario=scenario.name,
        question=scenario.question,
        profile=profile.name,
        seed=seed,
        replications=asked.own.size,
        slo=Slo(latency_s=scenario.slo.latency_s, attainment=scenario.slo.attainment),
        measure=asked.measure,
        load_kind=scenario.load.kind,
        at_load=asked.at if asked.measure == "slo_attainment" else None,
        base=mean_interval(asked.own),
        changes=ranked([found[place] for place in range(len(variants))]),
    )


@dataclass(frozen=True)
class Question:
    """What all variants are asked, as what tasks of an executor share.

    `requests_a_load`: of one replication. `own`: the scenario's own values, one a replication. `at`: the load near which capacities are looked for, or the one
    at which the share of requests in time is read.
    """

    load: Load
    profile: Profile
    seed: int
    variants: Sequence[Variant]
    requests_a_load: int
    engine: EngineName
    measure: Measure
    at: float
    own: Values

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """None: nothing is kept for a resumed run."""
        return ()

    def bench(self) -> Question:
        return self

    def tasks(self) -> Sequence[tuple[Variant]]:
        return [(variant,) for variant in self.variants]

    def requests(self) -> int:
        """At the least, for what workers are worth."""
        loads = LOADS if self.measure == "capacity" else 1
        return len(self.variants) * loads * self.own.size * self.requests_a_load

    def do(self, variant: Variant) -> Change:
        """A variant that cannot run (a length that nobody measured, say) is reported with the reason and not left out."""
        if variant.refused is not None:
            return _unknown(variant, variant.refused)
        try:
            scenario = self.load(variant.overrides)
            changed = self.profile if variant.service_factor == 1 else slower(self.profile, variant.service_factor)
            values = values_of(_trial(scenario, changed, self.seed), self.measure, self.at)
        except InputError as error:
            return _unknown(variant, str(error).splitlines()[0])
        if not np.all(np.isfinite(values)):
            return _unknown(variant, "no load tried breaks the promise, or every load does")
        relative = self.measure == "capacity"
        change, lo, hi, p = paired(np.log(values / self.own) if relative else values - self.own, relative=relative)
        return Change(
            **_named(variant), value=float(values.mean()), change=change, lo=lo, hi=hi, p=p, significant=p < LEVEL
        )


def _question(load: Load, profile: Profile, seed: int, base: Trial, variants: Sequence[Variant]) -> Question:
    """Capacity where the scenario has one, else the share of requests in time at a load that tells."""
    points = base.scenario.load.points
    asked = partial(
        Question, load, profile, seed, variants, base.scenario.measurement.requests, base.bench.sweep.engine
    )
    if base.steady:
        own = values_of(base, "capacity", points[len(points) // 2])
        if np.all(np.isfinite(own)):
            return asked("capacity", float(own.mean()), own)
    at = _telling_load(base)
    return asked("slo_attainment", at, values_of(base, "slo_attainment", at))


def values_of(made: Trial, measure: Measure, at: float) -> Values:
    """One a replication: the load at which it breaks the promise, or its share of requests in time at a load."""
    if measure == "capacity":
        return capacities(made, at)
    return np.array([made.run(at, r).scalars["slo_attainment"] for r in range(made.replications)])


def _trial(scenario: Scenario, profile: Profile, seed: int) -> Trial:
    made = trial(scenario, profile, seed)
    quick = made.steady and made.bench.sweep.engine == "compiled"
    return trial(scenario, profile, seed, replications=REPLICATIONS) if quick else made


def _telling_load(base: Trial) -> float:
    """The lowest load of the scenario whose first replication breaks the promise; the highest where none does."""
    points, limit = base.scenario.load.points, base.scenario.slo.latency_s
    return next((load for load in points if late(base.run(load, 0), limit) > 0), points[-1])


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
