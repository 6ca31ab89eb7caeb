"""What replications of one load allow to say."""

from __future__ import annotations

import numpy as np
import pytest

from sim.metrics import mser5
from sim.search_levels import Bench, Outcome, Reading, Settings, share_interval
from tests.sim.black_boxes import Counting, mm1

SETTINGS = Settings(attainment=0.99, start=1.0, requests=1000, replications=5)


def test_the_interval_of_a_share_is_students_on_the_jackknifed_logarithm() -> None:
    """Pseudo-values by hand; and close to ln p ± t s / (p sqrt R) where the spread is small."""
    shares = np.array([0.01, 0.02, 0.03, 0.04, 0.05])
    pseudo = [5 * np.log(0.03) - 4 * np.log((0.15 - x) / 4) for x in shares]
    half = 2.7764451 * np.std(pseudo, ddof=1) / np.sqrt(5)
    assert share_interval(shares, 5000) == pytest.approx(
        (np.exp(np.mean(pseudo) - half), np.exp(np.mean(pseudo) + half))
    )
    close = np.array([0.029, 0.03, 0.031, 0.03, 0.03])
    half = 2.7764451 * close.std(ddof=1) / close.mean() / np.sqrt(5)
    assert share_interval(close, 5000) == pytest.approx((0.03 * np.exp(-half), 0.03 * np.exp(half)), rel=1e-3)


def test_one_replication_that_holds_all_breaches_gives_a_wide_interval() -> None:
    """The jackknife does not exist there; the delta method spans a factor of more than ten each way."""
    lo, hi = share_interval(np.array([0.0, 0.0, 0.0, 0.0, 0.05]), 5000)
    assert lo < 0.001
    assert hi > 0.1


def test_no_breach_at_all_is_not_certainty() -> None:
    """A hundred requests without a breach cannot prove 99 %, forty thousand can."""
    assert share_interval(np.zeros(5), 100)[1] > 0.01
    assert share_interval(np.zeros(5), 40_000)[1] < 0.001
    assert share_interval(np.ones(5), 100)[0] < 0.99
    assert share_interval(np.array([0.0]), 100) == (0.0, 1.0)


def test_warm_up_is_cut_without_flattering_the_attainment() -> None:
    """M/M/1 at 0.7, 5000 requests: cut by each replication the share of breaches is over 12 % low, by all within 8 %."""
    within, each, together = -np.log(0.01) / 0.3, [], []
    for seed in range(150):
        runs = tuple(mm1(seed, within)(0.7, r, 5000) for r in range(8))
        together.append(Reading(0.7, 5000, runs, SETTINGS).share)
        each.append(np.mean([run.breached[mser5(run.latency_s.astype(float)) :].mean() for run in runs]))
    assert np.mean(each) < 0.0088
    assert abs(np.mean(together) - 0.01) < 0.0008


def test_a_start_up_phase_is_cut() -> None:
    """Two hundred slow requests at the start of every run of two thousand are not counted."""
    runs = []
    for r in range(5):
        latency = np.random.default_rng(r).exponential(size=2000)
        latency[:200] += 30.0
        runs.append(Outcome(latency.astype(np.float32), latency > 8.0, 0.0, 1.0, {"session:a": 0.5}))
    reading = Reading(1.0, 2000, tuple(runs), SETTINGS)
    assert reading.counted <= 5 * 1800
    assert reading.share < 0.002


def test_failed_requests_are_breaches_and_leave_the_percentile_infinite() -> None:
    """Requests without an answer stay in the denominator."""
    latency = np.where(np.arange(1000) % 50 == 0, np.inf, 0.1).astype(np.float32)
    outcome = Outcome(latency, ~(latency <= 1.0), 0.0, 1.0, {"session:a": 0.5})
    reading = Reading(1.0, 1000, (outcome,) * 5, SETTINGS)
    assert reading.share == pytest.approx(0.02)
    assert reading.percentile_s == np.inf
    assert reading.verdict == "fail"


def test_a_load_that_gains_replications_keeps_those_it_has() -> None:
    """Nothing is simulated twice, and the first replications of two readings are the same."""
    probe = Counting(mm1(1, 5.0))
    bench = Bench(probe, SETTINGS)
    bench.read(0.5, 1000, 5)
    bench.read(0.5, 1000, 8)
    bench.read(0.5, 1000, 5)
    assert probe.requests == 8000 == bench.spent
    assert [r.replications for r in bench.readings()] == [8]


def test_a_queue_that_grows_without_end_fails_whatever_was_answered_in_time() -> None:
    """Saturation is a failure although no request was late."""
    outcome = mm1(1, 1e6)(1.5, 0, 5000)
    reading = Reading(1.5, 5000, (outcome, mm1(1, 1e6)(1.5, 1, 5000)), SETTINGS)
    assert reading.share == 0.0
    assert reading.saturated
    assert reading.verdict == "fail"
    assert not reading.keeps
