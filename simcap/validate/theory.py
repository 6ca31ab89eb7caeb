"""`simcap validate theory`: the simulation against exact values, and the numbered invariants on random nodes.

Enters: how much to simulate, a seed. Leaves: a `Validation` whose rows hold exact and simulated values with 99 %
intervals. A table of many intervals has misses by chance alone: of m figures k or more miss with probability
P(Binomial(m, 0.01) >= k). So a figure is wrong when the exact value lies outside its interval at the level
(1 - 0.01)^(1/m) (Sidak 1967), at which all m hold together with 99 %; and the table is wrong when it has more misses at
99 % than chance gives in 999 of 1000 tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sim.compiled import missing
from sim.engine import Asked
from sim.streams import Streams
from simcap.validate import invariants
from simcap.validate.random_nodes import Case as Node
from simcap.validate.random_nodes import Generator, full, plain
from simcap.validate.record import Estimate, Row, Validation, Verdict, now, this_machine
from simcap.validate.theory_cases import Case, cases
from simcap.validate.theory_nodes import Effort

LEVEL = 0.99
NODES = {"standard": 300, "quick": 40}  # random nodes of each kind

Progress = Callable[[int, int], None]
"""Called with how many of how many parts are done."""


@dataclass(frozen=True)
class Judged:
    """One figure: the exact value, the mean over replications, half the 99 % interval and half the joint one."""

    case: str
    figure: str
    exact: float
    mean: float
    half: float
    joint: float
    allowed: float

    @property
    def miss(self) -> bool:
        return abs(self.mean - self.exact) > self.half

    @property
    def verdict(self) -> str:
        """`ok`, `chance` (outside 99 %, inside the joint interval), `WRONG`, or `wide` (too wide to prove anything)."""
        if abs(self.mean - self.exact) > self.joint:
            return "WRONG"
        if self.half > self.allowed:
            return "wide"
        return "chance" if self.miss else "ok"


@dataclass(frozen=True)
class Invariant:
    """One invariant over random nodes: how many were tried, how many broke it, and one break in words."""

    number: int
    name: str
    nodes: int
    broken: int
    example: str = ""


@dataclass(frozen=True)
class Table:
    """All of it. `allowed`: misses at 99 % that chance gives at most in 999 of 1000 tables of so many figures."""

    figures: tuple[Judged, ...]
    invariants: tuple[Invariant, ...]
    effort: float

    @property
    def misses(self) -> int:
        return sum(one.miss for one in self.figures)

    @property
    def allowed(self) -> int:
        return allowed_misses(len(self.figures))

    @property
    def verdict(self) -> Verdict:
        wrong = any(one.verdict in {"WRONG", "wide"} for one in self.figures) or any(i.broken for i in self.invariants)
        return "attention" if wrong or self.misses > self.allowed else "pass"


def allowed_misses(figures: int) -> int:
    """The most misses at 99 % that chance gives in 999 of 1000 tables of so many figures."""
    return int(stats.binom.ppf(0.999, figures, 1 - LEVEL))


def scale_of(*, quick: bool, engine: Asked) -> float:
    """Share of each case's full requests: all where compiled code runs, a tenth on SimPy; quick: a tenth of that."""
    compiled = engine != "simpy" and missing() is None
    return (1.0 if compiled else 0.1) * (0.1 if quick else 1.0)


def check(*, seed: int, quick: bool = False, engine: Asked = "auto", progress: Progress | None = None) -> Table:
    """Run every case and every invariant."""
    scale, known = scale_of(quick=quick, engine=engine), cases()
    count = sum(len(case.exact) for case in known)
    figures: list[Judged] = []
    for done, case in enumerate(known):
        if progress:
            progress(done, len(known) + 2)
        requests = max(int(case.requests * scale), 1000)
        effort = Effort(requests, case.replications, seed, engine if engine == "simpy" else "auto")
        figures += judged(case, case.simulated(effort), count, scale)
    nodes = NODES["quick" if quick else "standard"]
    held: list[Invariant] = []
    for k, (make, checks, kind) in enumerate(
        ((plain, invariants.PLAIN, "plain"), (full, invariants.FULL, "with every mechanism"))
    ):
        if progress:
            progress(len(known) + k, len(known) + 2)
        held += _held(make, checks, kind, nodes, seed)
    return Table(tuple(figures), tuple(held), scale)


def judged(case: Case, simulated: dict[str, list[float]], figures: int, scale: float = 1.0) -> Iterator[Judged]:
    """The case's figures against its exact values; `figures`: how many the whole table has."""
    joint_level = LEVEL ** (1 / figures)
    for figure, values in simulated.items():
        data, exact = np.array(values), case.exact[figure]
        error = data.std(ddof=1) / math.sqrt(data.size)
        half, joint = (float(stats.t.ppf((1 + level) / 2, data.size - 1) * error) for level in (LEVEL, joint_level))
        # Widths fall with the root of what is simulated; 1.5 is room for the width's own scatter in short runs.
        allowed = case.within[figure] * exact * (1.0 if scale == 1 else 1.5 / math.sqrt(scale))
        yield Judged(case.name, figure, exact, float(data.mean()), half, joint, allowed)


def _held(
    make: Callable[[Generator], Node], checks: dict[int, invariants.Check], kind: str, nodes: int, seed: int
) -> list[Invariant]:
    broken: dict[int, list[str]] = {number: [] for number in checks}
    for k in range(nodes):
        node = make(Generator(Streams(seed, k).generator("random node")))
        records = node.run()
        for number, found in checks.items():
            if first := next(found(node, records), None):
                broken[number].append(first)
    return [
        Invariant(n, f"{found.__name__.replace('_', ' ')}, {kind}", nodes, len(broken[n]), next(iter(broken[n]), ""))
        for n, found in checks.items()
    ]


def validation(table: Table, command: str) -> Validation:
    """The table as a record; `measured` holds the exact value, `predicted` the simulated one with its 99 % interval."""
    rows = [
        Row(
            where=one.case,
            figure=one.figure,
            unit="",
            measured=Estimate(value=one.exact),
            predicted=Estimate(value=one.mean, lo=one.mean - one.half, hi=one.mean + one.half),
            error=one.mean / one.exact - 1,
            remark=one.verdict,
        )
        for one in table.figures
    ]
    rows += [
        Row(
            where=f"{one.nodes} random nodes",
            figure=f"invariant {one.number}: {one.name}",
            unit="count",
            measured=Estimate(value=0),
            predicted=Estimate(value=one.broken),
            remark=one.example or "ok",
        )
        for one in table.invariants
    ]
    return Validation(
        schema="simcap.validation/1",
        kind="theory",
        date=now(),
        machine=this_machine(),
        command=command,
        verdict=table.verdict,
        summary=summary(table),
        rows=tuple(rows),
        notes=(
            "Intervals of `predicted` are at 99 % over replications; `measured` is the exact value.",
            chance(table),
        ),
    )


def summary(table: Table) -> str:
    """The one sentence."""
    wrong = [one for one in table.figures if one.verdict == "WRONG"]
    wide = [one for one in table.figures if one.verdict == "wide"]
    broken = [one for one in table.invariants if one.broken]
    if wrong or broken:
        named = [f"{one.case}, {one.figure}" for one in wrong] + [f"invariant {one.number}" for one in broken]
        return f"The simulation contradicts theory: {'; '.join(named)}."
    if wide:
        return f"Intervals are too wide to prove anything: {'; '.join(f'{o.case}, {o.figure}' for o in wide)}."
    if table.misses > table.allowed:
        return f"{table.misses} of {len(table.figures)} exact values miss their 99 % interval, more than chance allows."
    largest = max(abs(one.mean / one.exact - 1) for one in table.figures)
    return (
        f"All {len(table.figures)} exact values are met (largest difference {largest:.1%}) and "
        f"{len(table.invariants)} invariants hold on {table.invariants[0].nodes} random nodes each."
    )


def chance(table: Table) -> str:
    """How misses are judged, in a sentence."""
    m = len(table.figures)
    return (
        f"{m} intervals at 99 %: chance alone gives {m * (1 - LEVEL):.2f} misses on average and at most {table.allowed} "
        f"in 999 of 1000 tables; here {table.misses}. A figure is WRONG outside its interval at "
        f"{LEVEL ** (1 / m):.3%}, at which all {m} hold together with 99 %."
    )
