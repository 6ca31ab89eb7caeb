"""Figures are rounded for people without claiming more than they hold."""

from __future__ import annotations

from itertools import pairwise

import factories
import pytest

from sim.result import Capacity, Interval
from simcap.report import frames, words


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (0.01234, "0.0123"), (12.34, "12.3"), (99.96, "100"), (1234.5, "1,234")],
)
def test_numbers_keep_three_significant_digits(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "50.0"), (0.9912, "99.12"), (0.999999, "99.99"), (1.0, "100.00")])
def test_a_share_below_one_is_never_rounded_up_to_100(value: float, text: str) -> None:
    assert words.percent(value) == text


def test_plus_minus_takes_the_wider_side_of_an_interval_that_was_cut() -> None:
    assert words.plus_minus(Interval(mean=10.0, lo=8.0, hi=10.5)) == "10±2"


def test_an_interval_that_could_not_be_computed_is_not_shown_as_exact() -> None:
    assert words.plus_minus(Interval(mean=None, lo=None, hi=None)) == "–"
    assert words.plus_minus(Interval(mean=3.0, lo=None, hi=None)) == "3±?"


@pytest.mark.parametrize(
    ("lo", "hi", "text"),
    [
        (4, 6, "at least 4, less than 6 requests/s"),
        (4, None, "4 requests/s or more"),
        (None, 6, "below 6 requests/s"),
        (None, None, "not found: no load passed, none surely failed"),
    ],
)
def test_the_bracket_says_which_end_is_known(lo: float | None, hi: float | None, text: str) -> None:
    capacity = Capacity(load_kind="rps", lo=lo, hi=hi, indeterminate=(), sentence="")
    assert words.bracket(capacity) == text


def test_a_profile_that_was_measured_throughout_raises_no_doubt_and_a_mixed_one_counts_the_rest() -> None:
    assert words.doubts(factories.result(profile_origins={"measured": 9})) == []
    mixed = words.doubts(factories.result(profile_origins={"measured": 9, "assumed": 3}))
    assert len(mixed) == 1
    assert mixed[0].startswith("3 of the 12 figures")


def test_shares_of_where_the_time_went_add_up_to_100_at_each_load() -> None:
    rows = frames.parts(factories.result())
    for load in factories.LOADS:
        assert sum(row["share_pct"] for row in rows if row["load"] == load) == pytest.approx(100)


def test_the_histogram_counts_every_request_once() -> None:
    result = factories.result()
    rows = frames.histogram(result)
    for point in result.points:
        assert sum(row["requests"] for row in rows if row["load"] == point.load) == sum(point.histogram)


def test_the_line_of_full_service_runs_from_the_lowest_to_the_highest_load_in_small_steps() -> None:
    loads = frames.between(factories.result(loads=(2.0, 60.0)))
    assert (loads[0], loads[-1]) == (2.0, 60.0)
    assert all(1 < b / a < 1.1 for a, b in pairwise(loads))
