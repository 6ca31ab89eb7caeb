"""The search against black boxes whose capacity is known exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim.search import find
from sim.search_levels import Outcome, Settings
from tests.sim.black_boxes import Counting, burst, mm1, noisy

RATES = Settings(attainment=0.99, start=0.2, requests=5000, replications=10)
BURSTS = Settings(attainment=0.95, start=4.0, requests=100, replications=20, whole=True, rates=False, steady=False)


def within_for(capacity: float, attainment: float) -> float:
    """M/M/1 with mu = 1: P(sojourn > t) = exp(-(1 - lambda) t)."""
    return float(-np.log(1 - attainment) / (1 - capacity))


@pytest.mark.parametrize(("capacity", "attainment"), [(0.7, 0.9), (0.5, 0.95)])
def test_the_interval_contains_the_capacity_of_mm1(capacity: float, attainment: float) -> None:
    """In at least 90 of 100 seeds the 95 % interval contains mu + ln(1 - a) / t; each is as narrow as asked (3 %), and
    the mean error is below 0.5 %.
    """  # fmt: skip
    settings = replace(RATES, attainment=attainment)
    found = [find(mm1(seed, within_for(capacity, attainment)), settings) for seed in range(100)]
    assert {finding.kind for finding in found} == {"found"}
    assert max(finding.precision or 1.0 for finding in found) <= settings.precision
    assert sum(finding.lo <= capacity <= finding.hi for finding in found) >= 90  # type: ignore[operator]
    assert abs(np.mean([finding.load or 0.0 for finding in found]) / capacity - 1) < 0.005


def test_the_interval_is_neither_too_narrow_nor_too_wide() -> None:
    """With a known law of noise the capacity lies in the interval in 91 % to 99 % of 200 seeds."""
    settings = replace(RATES, start=3.0, requests=4000)
    inside = 0
    for seed in range(200):
        finding = find(noisy(seed, 40.0, 0.01, sigma=0.4, slope=12.0), settings)
        assert finding.kind == "found"
        inside += finding.lo <= 40.0 <= finding.hi  # type: ignore[operator]
    assert 182 <= inside <= 198


def test_an_slo_that_service_alone_breaks_is_unreachable_at_once() -> None:
    """Four loads and a twentieth of the effort are enough to say so, with the percentile at nearly no load."""
    probe = Counting(mm1(1, within=3.0))  # P(service > 3) is 5 %, 1 % is allowed
    finding = find(probe, RATES)
    assert finding.kind == "unreachable"
    assert finding.load is None
    assert "p99 is 4" in (finding.reason or "") or "p99 is 5" in (finding.reason or "")
    assert len(probe.loads) <= 4
    assert probe.requests <= RATES.max_requests / 20


def test_failures_at_nearly_no_load_are_named_as_such() -> None:
    """Where requests fail, the reason speaks of failures and not of an infinite time."""
    inner = mm1(1, within=50.0)

    def failing(load: float, replication: int, requests: int) -> Outcome:
        outcome = inner(load, replication, requests)
        lost = np.arange(requests) % 20 == 0
        latency = np.where(lost, np.inf, outcome.latency_s).astype(np.float32)
        return replace(outcome, latency_s=latency, breached=outcome.breached | lost)

    finding = find(failing, RATES)
    assert finding.kind == "unreachable"
    assert "% of requests fail or are late already" in (finding.reason or "")


def test_an_slo_at_the_edge_of_what_service_allows_is_indeterminate() -> None:
    """Where the attainment at nearly no load is the one asked for, no verdict is made up."""
    finding = find(mm1(1, within=-float(np.log(0.01))), RATES)
    assert finding.kind == "indeterminate"
    assert "too close" in (finding.reason or "")


def test_an_slo_that_is_never_broken_is_kept_up_to_saturation() -> None:
    """An hour where a second is normal: capacity is the service rate, found with few loads."""
    probe = Counting(mm1(1, within=1e6))
    finding = find(probe, RATES)
    assert finding.kind == "saturation"
    assert finding.lo is not None
    assert finding.hi is not None
    assert finding.lo <= 1.0 <= finding.hi
    assert (finding.precision or 1.0) <= RATES.precision
    assert len(probe.loads) <= 12


def test_capacity_just_below_saturation_is_not_placed_above_it() -> None:
    """Short runs hide a queue that grows slowly; the interval still contains the true 0.985 and ends near 1."""
    finding = find(mm1(3, within_for(0.985, 0.99)), RATES)
    assert finding.kind in {"found", "saturation"}
    assert finding.lo is not None
    assert finding.hi is not None
    assert finding.lo <= 0.985 <= finding.hi <= 1.02


def test_too_little_effort_is_indeterminate_and_kept_to() -> None:
    """The search never simulates more than it may, and says what it reached."""
    for most in (5_000, 100_000, 250_000):
        probe = Counting(mm1(1, within_for(0.7, 0.99)))
        finding = find(probe, replace(RATES, max_requests=most))
        assert finding.kind == "indeterminate"
        assert finding.spent == probe.requests <= most
        assert "--max-effort" in (finding.reason or "")


def test_whole_loads_are_found_exactly() -> None:
    """Service times of 1 and 7.5 seconds allowed: seven of seven are in time, one of eight is late."""
    finding = find(burst(7.5), BURSTS)
    assert (finding.kind, finding.lo, finding.load, finding.hi) == ("found", 7.0, 7.0, 7.0)


def test_a_single_request_that_is_late_makes_bursts_unreachable() -> None:
    """Nothing lies below a burst of one."""
    finding = find(burst(0.5), BURSTS)
    assert finding.kind == "unreachable"
    assert {reading.load for reading in finding.readings} <= {1.0, 2.0, 4.0}


def test_whole_loads_with_noise_have_whole_ends() -> None:
    """The ends are bursts that were run, on both sides of the best guess."""
    finding = find(burst(40.0, jitter=0.5, seed=5), BURSTS)
    assert finding.kind == "found"
    ends = (finding.lo, finding.load, finding.hi)
    assert all(end is not None and end == int(end) for end in ends)
    assert finding.lo <= finding.load <= finding.hi  # type: ignore[operator]


def test_the_same_arguments_give_the_same_finding() -> None:
    """Nothing but probe and settings decides."""
    one, two = (find(mm1(9, within_for(0.6, 0.95)), replace(RATES, attainment=0.95)) for _ in range(2))
    assert (one.load, one.lo, one.hi, one.spent) == (two.load, two.lo, two.hi, two.spent)
