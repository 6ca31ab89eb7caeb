from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from calibrate.results import LatencyRecord, Outcome, Visit
from calibrate.stability import drift_of
from calibrate.worker.stability import median_interval, median_rank, relative_width, warm_up


@pytest.mark.parametrize("n", [6, 7, 10, 25, 100, 1000, 5000])
def test_rank_is_the_largest_that_covers(n: int) -> None:
    """The interval's rank is the largest with at least 95 % coverage by the binomial law."""
    k = median_rank(n)
    assert k is not None
    assert 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95
    assert 1 - 2 * stats.binom.cdf(k, n, 0.5) < 0.95


@pytest.mark.parametrize("n", [1, 2, 5])
def test_no_interval_from_too_few(n: int) -> None:
    """Fewer than six samples have no 95 % interval of the median, and its width counts as infinite."""
    assert median_interval([1.0] * n) is None
    assert relative_width([1.0] * n) == math.inf


def test_interval_covers_the_median() -> None:
    """Over many samples of a skewed law the interval holds the true median at least as often as it promises."""
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(2000):
        interval = median_interval(generator.lognormal(0.0, 1.0, 40))
        assert interval is not None
        hits += interval[0] <= 1.0 <= interval[1]
    assert stats.binomtest(hits, 2000, 0.95, alternative="less").pvalue > 0.001


def test_warm_up_is_found() -> None:
    """A slower beginning is cut, all of it, and little more."""
    generator = np.random.default_rng(4)
    samples = np.concatenate([np.full(20, 15.0), np.full(180, 10.0)]) + generator.normal(0, 0.2, 200)
    assert 20 <= warm_up(samples.tolist()) <= 30


def test_a_spike_is_no_warm_up() -> None:
    """A single slow run early on mostly stays in the sample, where the tail needs it (means of five always cut it)."""
    cut = 0
    for seed in range(200):
        samples = 10 + np.random.default_rng(seed).normal(0, 0.4, 100)
        samples[12] = 80.0
        cut += warm_up(samples.tolist()) > 12
    assert cut < 80


def test_short_samples_are_kept_whole() -> None:
    """With under 20 samples no warm-up is claimed."""
    assert warm_up([9.0, *[1.0] * 18]) == 0


def _look(milliseconds: float, role: str = "sentinel") -> Visit:
    record = LatencyRecord(
        kind="latency", cadence="tight", ns=(int(milliseconds * 1e6),) * 3, warm_up=0, stopped="budget"
    )
    return Visit(cell="c", role=role, started="t", outcome=Outcome(status="done", records=(record,), wall_s=1))


def test_drift_is_the_spread_of_the_sentinel() -> None:
    """Drift comes from the sentinel alone; above 5 % the machine was not quiet, and the sentence says so."""
    quiet = drift_of("s", [_look(10.0), _look(90.0, "cell"), _look(10.4)])
    assert quiet is not None
    assert quiet.quiet
    assert quiet.spread == pytest.approx(0.4 / 10.2)
    loud = drift_of("s", [_look(10.0), _look(10.0), _look(12.0)])
    assert loud is not None
    assert "NOT quiet" in loud.told()
    assert "20.0%" in loud.told()


def test_one_look_shows_no_drift() -> None:
    """A single look at the sentinel is no evidence of either."""
    assert drift_of("s", [_look(10.0)]) is None
