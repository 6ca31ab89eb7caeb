"""Drive the measurement: every cell once in random order, then again where the intervals are widest, within a budget.

Enters: cells, rules, a bench whose journal may already hold visits. Leaves: the journal with all visits.
Time: what the budget leaves after the workers' own overhead (start, loads, profiling; taken from the visits so far) is
shared out, half of it equally and half by the cost of one inference. Every cell is measured at least once, even when
that exceeds the budget; after that the budget binds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from calibrate.bench import Bench
from calibrate.fit import pooled
from calibrate.plan import SENTINEL_EVERY, PlannedCell, Step, block, sentinel_of, weight_of
from calibrate.results import LatencyRecord, Visit
from calibrate.worker.stability import relative_width
from profiles.entry import PROVIDER_DEVICE

CadenceName = Literal["tight", "paced"]
OVERHEAD_GUESS_S = 1.5  # before the first visit has told
SENTINEL_S = 0.4
LEAST_SLICE_S = 0.1
ATTEMPTS = 2  # a worker that died may have been killed by someone; one that dies twice is lost
WORTH_A_VISIT_S = 0.5  # of sampling; less does not repay a worker's start


@dataclass(frozen=True)
class Rules:
    """How a cell is measured. Each field but budget_s and cell_limit_s is part of what a journal must match.

    budget_s: seconds for the whole run. cell_limit_s: a worker is stopped after this. target: relative width of the
    median's 95 % interval at which sampling may stop, once there are `enough` samples. at_least: samples whatever the
    time. loads: fresh sessions a visit. gap_over_service: mean idle gap of the paced cadence over the service time.
    """

    budget_s: float
    cell_limit_s: float = 600.0
    target: float = 0.03
    enough: int = 100
    at_least: int = 10
    loads: int = 3
    cadences: tuple[CadenceName, ...] = ("tight", "paced")
    gap_over_service: float = 1.5

    def identity(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "enough": self.enough,
            "at_least": self.at_least,
            "loads": self.loads,
            "cadences": self.cadences,
            "gap_over_service": self.gap_over_service,
        }


@dataclass(frozen=True)
class Progress:
    """A word to the person who waits. done and total count cells; left_s is an estimate, None where there is none."""

    done: int
    total: int
    doing: str
    left_s: float | None


class Runner:
    """One calibration run. report: called before each visit.

    memory: where the device's bytes in use stand (`gpus.memory_of`); without it the memory of GPU providers is not measured.
    """

    def __init__(
        self,
        cells: Sequence[PlannedCell],
        rules: Rules,
        bench: Bench,
        report: Callable[[Progress], None],
        memory: str | None = None,
    ) -> None:
        self.cells = list(cells)
        self.sentinel = sentinel_of(cells)
        self._rules = rules
        self._bench = bench
        self._report = report
        self._memory = memory

    def run(self) -> None:
        """Measure until every cell is narrow or the budget is spent."""
        for attempt in range(ATTEMPTS):
            if missing := self._missing(attempt + 1):
                self._walk(block(missing, self.sentinel, self._bench.seed, -attempt), first=True)
        number = 1
        while widest := self._widest():
            self._walk(block(widest, self.sentinel, self._bench.seed, number), first=False)
            number += 1

    def _missing(self, attempts: int) -> list[PlannedCell]:
        """Cells without a visit, and those whose workers crashed each time and fewer times than `attempts`."""
        statuses: dict[str, list[str]] = {c.key: [] for c in self.cells}
        for visit in self._bench.journal.visits:
            if visit.role == "cell" and visit.cell in statuses:
                statuses[visit.cell].append(visit.outcome.status)
        return [c for c in self.cells if len(s := statuses[c.key]) < attempts and all(x == "crashed" for x in s)]

    @property
    def left_s(self) -> float:
        """What the visits so far, of earlier runs too, have left of the budget."""
        return self._rules.budget_s - sum(v.outcome.wall_s for v in self._visits)

    @property
    def _visits(self) -> list[Visit]:
        """Those of the matrix; compile and drift have a number of visits each and no share of the budget."""
        return [v for v in self._bench.journal.visits if v.role in {"cell", "sentinel"}]

    def _walk(self, steps: Sequence[Step], first: bool) -> None:
        for place, step in enumerate(steps):
            rest = steps[place:]
            overhead = self._overhead_s() * len(rest)
            left = max(self.left_s, overhead if first else 0.0)
            visited = {v.cell for v in self._bench.journal.visits if v.role == "cell"}
            self._report(Progress(len(visited), len(self.cells), step.cell.label, left))
            if step.role == "sentinel":
                job = self._job(step.cell, {"tight": SENTINEL_S}, thorough=False)
            else:
                share = self._share(step.cell, [s.cell for s in rest if s.role == "cell"])
                seconds = max(LEAST_SLICE_S, (self.left_s - overhead) * share)
                job = self._job(step.cell, self._split(min(seconds, self._rules.cell_limit_s / 2)), thorough=first)
            self._bench.keep(step.cell, step.role, partial(self._bench.launch, step.cell, job))

    def _share(self, cell: PlannedCell, rest: Sequence[PlannedCell]) -> float:
        weights = [self._weight(c) for c in rest]
        return 0.5 / len(rest) + 0.5 * self._weight(cell) / sum(weights)

    def _weight(self, cell: PlannedCell) -> float:
        return weight_of(cell, self._bench.artifact(cell).size_bytes)

    def _split(self, seconds: float) -> dict[CadenceName, float]:
        """A paced inference takes its gap too: each cadence gets time in proportion to what one sample costs."""
        costs = {c: 1 + self._rules.gap_over_service if c == "paced" else 1.0 for c in self._rules.cadences}
        return {c: seconds * cost / sum(costs.values()) for c, cost in costs.items()}

    def _job(self, cell: PlannedCell, seconds: Mapping[CadenceName, float], thorough: bool) -> dict[str, Any]:
        """thorough: with further loads, memory and ownership, as on the first visit of a cell."""
        rules, on_gpu = self._rules, PROVIDER_DEVICE[cell.provider] == "gpu"
        rule = {"enough": rules.enough, "at_least": rules.at_least, "target": rules.target}
        job: dict[str, Any] = {
            **self._bench.job("cell", cell),
            "loads": rules.loads if thorough else 1,
            "memory": thorough and (not on_gpu or self._memory is not None),
            "ownership": thorough and self._needs_proof(cell),
        }
        if on_gpu and self._memory is not None:
            job["memory_of"] = self._memory
        for cadence, budget in seconds.items():
            job[cadence] = {**rule, "seconds": budget}
        if "paced" in job:
            job["paced"]["gap_over_service"] = rules.gap_over_service
        return job

    def _needs_proof(self, cell: PlannedCell) -> bool:
        """Whether to look who ran the nodes. Nothing can fall back from the CPU: one look at each model's largest shape."""
        alike = [c for c in self.cells if c.entry == cell.entry]
        return cell.provider != "cpu" or cell == max(alike, key=lambda c: (c.tokens * c.batch, c.key))

    def _overhead_s(self) -> float:
        """What a visit costs beyond its sampling."""
        costs = [max(0.0, v.outcome.wall_s - _sampling_s(v)) for v in self._visits]
        return statistics.fmean(costs) if costs else OVERHEAD_GUESS_S

    def _widest(self) -> list[PlannedCell]:
        """The cells that most need another visit; none when all are narrow or no useful time is left."""
        visits = self._visits
        done = {v.cell for v in visits if v.role == "cell" and v.outcome.status == "done" and not v.outcome.fell_back}
        widths = {
            cell: max(relative_width(pooled(visits, cell.key, cadence)) for cadence in self._rules.cadences)
            for cell in self.cells
            if cell.key in done
        }
        wide = sorted((c for c, w in widths.items() if w > self._rules.target), key=lambda c: -widths[c])
        looks = 2  # the sentinel, before and after
        affordable = (self.left_s - looks * (self._overhead_s() + SENTINEL_S)) / (self._overhead_s() + WORTH_A_VISIT_S)
        return wide[: max(0, min(SENTINEL_EVERY, int(affordable)))]


def _sampling_s(visit: Visit) -> float:
    found = [r for r in visit.outcome.records if isinstance(r, LatencyRecord)]
    return sum(sum(r.ns) / 1e9 + (r.mean_gap_s or 0.0) * len(r.ns) for r in found)
