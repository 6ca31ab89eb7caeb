"""A capacity search gives the same answer whatever the number of workers, also where its effort ends in the middle of a level."""

from __future__ import annotations

import multiprocessing

import pytest

from profiles import store
from scenarios import loader
from sim import executor, search_over, search_runs
from sim.search_levels import Bench, EffortUsedUpError, Outcome, Settings
from sim.search_runs import Options


@pytest.mark.parametrize("effort", [150_000, 14_500])
def test_the_answer_does_not_depend_on_workers(effort: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes or none, calibration's roots included, with effort to spare and with too little."""
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    scenario = loader.load("longctx", ("measurement.requests=1600",))
    profile = store.load("mi300x-published")
    one, three = (
        search_runs.capacity(scenario, profile, 1, Options(0.25, effort, "full", workers)) for workers in (1, 3)
    )
    assert one == three
    assert one.outcome == "indeterminate" or effort > 100_000
    assert multiprocessing.active_children() == []


def test_the_least_of_a_key_does_not_depend_on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are tried in turn, the replications of each side by side."""
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    profile = store.load("mi300x-published")
    key = "node.cpu_workers"
    variants = [(v, loader.load("longctx", (f"{key}={v}", "measurement.requests=1600"))) for v in ("1", "2")]
    one, three = (
        search_over.smallest(key, variants, 2.0, profile, 1, Options(0.05, 200_000, "simulation", workers))
        for workers in (1, 3)
    )
    assert one == three


def test_a_level_that_would_pass_the_effort_is_counted_as_far_as_it_goes() -> None:
    """Eight replications at once where five are affordable: five are kept, as if they had been run one by one."""
    import numpy as np

    def run(load: float, replication: int, requests: int) -> Outcome:
        return Outcome(np.full(requests, 0.1, np.float32), np.zeros(requests, bool), 0.0, load, {"a": 0.5})

    settings = Settings(0.99, 1.0, 1000, 8, max_requests=5000)
    bench = Bench(run, settings, level=lambda load, rs, n: [run(load, r, n) for r in rs])
    with pytest.raises(EffortUsedUpError):
        bench.read(1.0, 1000, 8)
    assert bench.spent == 5000
    assert bench.read(1.0, 1000, 5).replications == 5
