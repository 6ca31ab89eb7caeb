"""Intervals against simulated truth: calibrate on draws from a known law, merge, predict, and look on another day.

A case: K runs of calibration measure three lengths, n samples each, lognormal with a coefficient of variation of 0.25. In each
run the machine is off by a factor exp(0.05 z) that all lengths share, and each length by exp(0.02 z) of its own. The truth
is the node on one more such day, with the exact law, in a run long enough that its own noise is small. K, n and the load
differ from case to case.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from calibrate.merge import merge
from profiles.distribution import LEVELS, from_samples
from profiles.schema import Profile
from scenarios.schema import Scenario
from sim import replicate
from sim.result import Interval

CASES = 200
MEDIANS = {64: 0.010, 256: 0.022, 512: 0.050}  # seconds
SIGMA = float(np.sqrt(np.log1p(0.25**2)))
MACHINE, OWN = 0.05, 0.02
EXACT = np.linspace(0, 1, 401)


def day(rng: np.random.Generator) -> dict[int, float]:
    """The factors of one day by length."""
    machine = MACHINE * rng.standard_normal()
    return {tokens: float(np.exp(machine + OWN * rng.standard_normal())) for tokens in MEDIANS}


def profile(name: str, cells: list[dict[str, object]]) -> Profile:
    entry = {
        "model": "m",
        "artifact": "fp32",
        "provider": {"name": "cpu", "threads": 1},
        "task": "embedding",
        "service": {"cadence": "tight", "cells": cells},
        "occupancy": [{"tokens": tokens, "value": 0.5, "origin": "modeled"} for tokens in (64, 512)],
    }
    file = {"schema": "simcap.profile/1", "name": name, "description": "d", "created": name, "entries": [entry]}
    machine = {"device": {"catalog": "cpu", "kind": "cpu", "name": "c"}, "host": {"cpu": "c"}}
    return Profile.model_validate(file | machine)


def measured(name: str, n: int, rng: np.random.Generator) -> Profile:
    """One run of calibration."""
    factors, cells = day(rng), []
    for tokens, median in MEDIANS.items():
        law = from_samples(median * factors[tokens] * np.exp(SIGMA * rng.standard_normal(n)))
        of = {"n": n, "origin": "measured", "spread_origin": "measured"}
        cells.append({"tokens": tokens, "levels": LEVELS, "seconds": law.values.tolist(), **of})
    return profile(name, cells)


def true(rng: np.random.Generator) -> Profile:
    """The exact law on one more day."""
    factors, cells = day(rng), []
    inside = np.clip(EXACT, 1e-4, 1 - 1e-4)
    for tokens, median in MEDIANS.items():
        seconds = median * factors[tokens] * np.exp(SIGMA * ndtri(inside))
        of = {"n": 0, "origin": "assumed", "spread_origin": "assumed"}
        cells.append({"tokens": tokens, "levels": EXACT.tolist(), "seconds": seconds.tolist(), **of})
    return profile("truth", cells)


def scenario(load: float, requests: int) -> Scenario:
    return Scenario.model_validate(
        {
            "schema": "simcap.scenario/1",
            "name": "s",
            "question": "Does the interval hold the truth?",
            "node": {"cpu_workers": 100},
            "router": {"cpu": {"base_s": 0}},
            "signals": {"a": {"model": "m", "artifact": "fp32", "provider": "cpu", "sessions": 2}},
            "stages": [["a"]],
            "classes": {"all": {"weight": 1, "tokens": {"law": "uniform", "min": 64, "max": 512}}},
            "arrivals": {"process": "poisson"},
            "load": {"rps": [load]},
            "slo": {"latency_ms": 150, "attainment": 0.95},
            "measurement": {"requests": requests, "replications": 5},
        }
    )


def covers(found: Interval, truth: float | None) -> bool:
    assert found.lo is not None
    assert found.hi is not None
    assert truth is not None
    return found.lo <= truth <= found.hi


def shares() -> dict[str, float]:
    """Of all cases: how often the interval of each kind and figure held the truth."""
    hits: dict[str, list[bool]] = {}
    for case in range(CASES):
        rng = np.random.default_rng([17, case])
        runs, n, load = int(rng.integers(3, 7)), int(rng.integers(50, 200)), float(rng.uniform(15, 55))
        known = merge([measured(f"run{k}", n, rng) for k in range(runs)], "known")
        truth = replicate.run(scenario(load, 20_000), true(rng), 10_000 + case, engine="compiled")[0].points[0]
        for asked in ("simulation", "full"):
            point = replicate.run(scenario(load, 4000), known, case, engine="compiled", uncertainty=asked)[0].points[0]
            for name in ("mean", "p50", "p95", "p99"):
                held = covers(point.latency_s[name], truth.latency_s[name].mean)
                hits.setdefault(f"{asked} {name}", []).append(held)
            used = covers(point.utilisation["session:a"], truth.utilisation["session:a"].mean)
            hits.setdefault(f"{asked} utilisation", []).append(used)
    return {key: sum(held) / CASES for key, held in hits.items()}


@pytest.mark.slow
def test_intervals_hold_the_truth_of_another_day_in_90_to_99_of_100_cases():
    """Of 200 cases; the interval of the simulation alone holds it in fewer than half, so the test can tell."""
    found = shares()
    assert all(0.90 <= share <= 0.99 for key, share in found.items() if key.startswith("full")), found
    assert all(share < 0.5 for key, share in found.items() if key.startswith("simulation")), found
