"""Arrival processes against their exact laws: rates, variation, dispersion, counts over time.

As in test_queues: the exact value lies in the 99 % interval over replications, and that interval is narrow.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats

from scenarios.arrivals import Arrivals, Mmpp
from sim.arrivals import arrival_times
from sim.rates import RateCurve, modulated_curve
from sim.streams import Streams

TWO_STATES = {"process": "mmpp", "states": [{"rate": 1, "holding_s": 8}, {"rate": 9, "holding_s": 2}]}
SILENCE = {"process": "mmpp", "states": [{"rate": 0, "holding_s": 3}, {"rate": 1, "holding_s": 1}]}
THREE_STATES = {
    "process": "mmpp",
    "states": [{"rate": 1, "holding_s": 5}, {"rate": 4, "holding_s": 2}, {"rate": 20, "holding_s": 0.5}],
    "transitions": [[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]],
}
DAY = {"process": "time_varying", "points": [[0, 1], [10, 5], [20, 2], [20, 0], [25, 0], [30, 3]]}


def process(fields: dict[str, Any]) -> Any:
    return TypeAdapter(Arrivals).validate_python(fields)


def times_of(fields: dict[str, Any], rps: float, n: int, replication: int = 0) -> np.ndarray:
    return arrival_times(process(fields), rps, n, Streams(11, replication))


def counts(fields: dict[str, Any], rps: float, edges: np.ndarray, replications: int) -> np.ndarray:
    """(replications, intervals) arrivals between the edges; runs are long enough to pass the last edge."""
    n = int(3 * rps * edges[-1]) + 500
    rows = []
    for r in range(replications):
        times = times_of(fields, rps, n, r)
        assert times[-1] > edges[-1]
        rows.append(np.histogram(times, edges)[0])
    return np.array(rows)


def assert_contains(exact: float, values: Any, within: float) -> None:
    data = np.asarray(values, dtype=float)
    half = stats.t.ppf(0.995, data.size - 1) * data.std(ddof=1) / math.sqrt(data.size)
    assert half <= within * exact, f"interval ±{half:.4g} is too wide to prove {exact:.4g}"
    assert abs(data.mean() - exact) <= half, f"exact {exact:.5g} outside {data.mean():.5g} ± {half:.2g}"


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5])
def test_gamma_gaps_have_mean_one_over_rps_and_their_cv(cv: float) -> None:
    """The mean gap is 1/rps, the variance of gaps is (cv/rps)², and gaps in a row are not correlated."""
    gaps = [np.diff(times_of({"process": "gamma", "cv": cv}, 4.0, 20_001, r)) for r in range(24)]
    assert_contains(1 / 4, [g.mean() for g in gaps], within=0.02)
    assert_contains((cv / 4) ** 2, [g.var(ddof=1) for g in gaps], within=0.08)
    lagged = np.array([np.corrcoef(g[:-1], g[1:])[0, 1] for g in gaps])
    assert abs(lagged.mean()) <= stats.t.ppf(0.9995, 23) * lagged.std(ddof=1) / math.sqrt(24)


@pytest.mark.parametrize("fields", [{"process": "poisson"}, {"process": "gamma", "cv": 1.0}])
def test_poisson_counts_have_variance_equal_to_their_mean(fields: dict[str, Any]) -> None:
    """Counts of Poisson arrivals, and of gamma gaps with cv 1, have mean and variance rps times the interval."""
    table = counts(fields, 3.0, np.arange(0.0, 2000.0, 4.0), 16)
    assert_contains(12.0, table.mean(axis=1), within=0.02)
    assert_contains(12.0, ((table - 12.0) ** 2).mean(axis=1), within=0.08)


@pytest.mark.parametrize("fields", [TWO_STATES, SILENCE, THREE_STATES], ids=["two", "silence", "three"])
def test_modulated_arrivals_keep_the_mean_rate(fields: dict[str, Any]) -> None:
    """Whatever the states, the mean count from time 0 on is rps times the time: the start is stationary."""
    assert_contains(20.0 * 1000, counts(fields, 20.0, np.array([0.0, 1000.0]), 40)[:, 0], within=0.08)
    assert_contains(20.0 * 5, counts(fields, 20.0, np.array([0.0, 5.0]), 600)[:, 0], within=0.2)


def test_shares_of_time_follow_visits_and_stays() -> None:
    """With visits in proportion 1 : 0.9 : 0.55 and stays 5, 2, 0.5 the shares of time are their products."""
    visits = np.array([1.0, 0.9, 0.1 + 0.5 * 0.9])
    stays = visits * np.array([5.0, 2.0, 0.5])
    np.testing.assert_allclose(process(THREE_STATES).shares(), stays / stays.sum(), rtol=1e-12)


def variance_of_counts(rates: tuple[float, float], leave: tuple[float, float], t: float) -> float:
    """Var N(t) of the stationary two-state process (Heffes and Lucantoni 1986)."""
    r = sum(leave)
    mean = (rates[0] * leave[1] + rates[1] * leave[0]) / r
    spread = (rates[0] - rates[1]) ** 2 * leave[0] * leave[1] / r**2
    return mean * t + 2 * spread * (t / r - (1 - math.exp(-r * t)) / r**2)


@pytest.mark.parametrize(("length", "within"), [(0.8, 0.05), (8.0, 0.06), (160.0, 0.12)])
def test_dispersion_of_two_state_bursts(length: float, within: float) -> None:
    """The index of dispersion of counts is the formula's, in short windows and in ones near the asymptote."""
    rps, states = 6.0, process(TWO_STATES).states
    scale = rps / (0.8 * 1 + 0.2 * 9)
    rates, leave = (scale * 1, scale * 9), (1 / states[0].holding_s, 1 / states[1].holding_s)
    exact = variance_of_counts(rates, leave, length) / (rps * length)
    if length > 100 / sum(leave):
        r1, r2 = leave
        asymptote = 1 + 2 * (rates[0] - rates[1]) ** 2 * r1 * r2 / ((r1 + r2) ** 2 * (rates[0] * r2 + rates[1] * r1))
        assert exact == pytest.approx(asymptote, rel=0.02)
    table = counts(TWO_STATES, rps, np.arange(0.0, 8000.0, length), 40)
    assert_contains(exact, ((table - rps * length) ** 2).mean(axis=1) / (rps * length), within=within)


def test_a_day_has_its_counts_in_each_part() -> None:
    """Counts in each part of the period are the integral of the scaled rate, with jumps and silence; so are variances."""
    edges = np.array([0.0, 5.0, 10.0, 20.0, 25.0, 30.0])
    relative = np.array([10.0, 20.0, 35.0, 0.0, 7.5])  # by hand: trapezia under DAY
    rps = 2.0
    exact = relative * rps * 30 / relative.sum()
    whole = np.concatenate([edges[:-1] + 30 * k for k in range(400)] + [[30.0 * 400]])
    table = counts(DAY, rps, whole, 12).reshape(12, 400, 5)
    assert not table[:, :, 3].any()
    for part in (0, 1, 2, 4):
        assert_contains(exact[part], table[:, :, part].mean(axis=1), within=0.03)
        assert_contains(exact[part], ((table[:, :, part] - exact[part]) ** 2).mean(axis=1), within=0.12)


def test_one_spike_adds_to_the_base_rate() -> None:
    """Without `every_s` the rate is rps before and after the spike and factor times rps in it."""
    table = counts(
        {"process": "spike", "factor": 6, "at_s": 50, "duration_s": 10}, 5.0, np.array([0.0, 50, 60, 200]), 200
    )
    for part, exact in enumerate((250.0, 300.0, 700.0)):
        assert_contains(exact, table[:, part], within=0.03)


def test_a_returning_spike_keeps_the_mean_rate() -> None:
    """With `every_s` a whole cycle has rps times its length, a spike's share of it in proportion to factor."""
    fields = {"process": "spike", "factor": 4, "at_s": 0, "duration_s": 10, "every_s": 100}
    table = counts(fields, 2.6, np.sort(np.concatenate([np.arange(0, 2001, 100.0), np.arange(10, 2000, 100.0)])), 40)
    assert_contains(2.6 * 100 * 40 / 130, table[:, 0::2].mean(axis=1), within=0.03)
    assert_contains(2.6 * 100 * 90 / 130, table[:, 1::2].mean(axis=1), within=0.03)


@pytest.mark.parametrize("fields", [{"process": "poisson"}, {"process": "gamma", "cv": 2}])
def test_renewals_at_two_loads_are_one_stretched_in_time(fields: dict[str, Any]) -> None:
    """Load points share their random numbers: at twice the load every arrival comes at exactly half the time."""
    np.testing.assert_array_equal(times_of(fields, 6.0, 5_000), times_of(fields, 3.0, 5_000) / 2)


def test_states_do_not_depend_on_the_load() -> None:
    """Bursts are in real time: another load sees the same states at the same times, only with more arrivals."""
    low, high = (modulated_curve(process(TWO_STATES), rps, 50_000, np.random.default_rng(4)) for rps in (2.0, 10.0))
    assert low.edges.size > high.edges.size
    np.testing.assert_array_equal(low.edges[: high.edges.size], high.edges)
    np.testing.assert_allclose(low.left[: high.left.size] * 5, high.left)


@pytest.mark.parametrize("fields", [DAY, TWO_STATES, SILENCE, {"process": "gamma", "cv": 20}])
def test_times_never_fall_and_gaps_are_not_clipped(fields: dict[str, Any]) -> None:
    """Arrivals are in order, and the smallest gap lies far below the mean gap, as the law wants."""
    gaps = np.diff(times_of(fields, 10.0, 50_000))
    assert gaps.min() >= 0
    assert gaps.min() < 1e-4 * gaps.mean()


@st.composite
def curves(draw: st.DrawFn) -> RateCurve:
    lengths = draw(st.lists(st.floats(0.01, 100), min_size=1, max_size=6))
    rate = st.one_of(st.just(0.0), st.floats(0.01, 50))
    left, right = (draw(st.lists(rate, min_size=len(lengths), max_size=len(lengths))) for _ in range(2))
    left[0] = max(left[0], 0.5)
    after = draw(st.one_of(st.none(), st.floats(0.1, 10)))
    return RateCurve(np.concatenate([[0], np.cumsum(lengths)]), np.array(left), np.array(right), after)


def integral(curve: RateCurve, t: float) -> float:
    """The integral of the rate up to t, segment by segment, written without the code under test."""
    total, period = 0.0, float(curve.edges[-1])
    areas = [(b - a) * (p + q) / 2 for (a, b), p, q in zip(pairwise(curve.edges), curve.left, curve.right, strict=True)]
    if curve.after is None:
        cycles, t = divmod(t, period)  # both at once: a quotient and a remainder rounded apart may disagree
        total = cycles * sum(areas)
    elif t > period:
        return sum(areas) + (t - period) * curve.after
    for (a, b), p, q in zip(pairwise(curve.edges), curve.left, curve.right, strict=True):
        x = min(max(t - a, 0.0), b - a)
        total += p * x + (q - p) * x * x / (2 * (b - a))
    return total


@settings(deadline=None)
@given(curves(), st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=20))
def test_the_inverse_of_the_integral_is_exact(curve: RateCurve, amounts: list[float]) -> None:
    """The integral of any piecewise linear rate up to the time found for an amount is that amount."""
    wanted = np.sort(np.array(amounts))
    times = curve.times(wanted)
    assert np.all(np.diff(times) >= 0)
    for t, amount in zip(times, wanted, strict=True):
        assert integral(curve, float(t)) == pytest.approx(amount, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"states": [{"rate": 0, "holding_s": 1}, {"rate": 0, "holding_s": 1}]}, "every state has rate 0"),
        ({"states": [{"rate": 1, "holding_s": 1}] * 3}, "3 states need transitions"),
        ({"transitions": [[0, 1], [1, 0.5]]}, r"transitions\[1\] must be 2 probabilities that sum to 1"),
        ({"states": [{"rate": 1, "holding_s": 1}] * 3, "transitions": [[0, 1, 0], [1, 0, 0], [1, 0, 0]]}, "never be"),
    ],
)
def test_a_chain_that_is_none_is_refused(change: dict[str, Any], says: str) -> None:
    """States without arrivals, missing rows, rows that do not sum to 1 and states that are never reached are errors."""
    with pytest.raises(ValueError, match=says):
        Mmpp.model_validate(TWO_STATES | change)
