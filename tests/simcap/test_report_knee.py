"""The knee: where p99 doubles, with an interval, and silence where the loads tried hold none."""

from __future__ import annotations

import math
from typing import Any

import factories
import pytest

from sim.result import Interval, Result
from simcap.report import figures
from simcap.report.knee import knee_of, why_none


def mm1(*shares: float, spread: float = 0.0) -> Result:
    """A result whose p99 is that of M/M/1 with service rate 100 at these shares of it."""
    points = []
    for share in shares:
        p99 = math.log(100) / (100 * (1 - share))
        point = factories.point(100 * share)
        interval = Interval(mean=p99, lo=p99 * (1 - spread), hi=p99 * (1 + spread))
        points.append(point.model_copy(update={"latency_s": point.latency_s | {"p99": interval}}))
    return factories.result(points=tuple(points))


@pytest.mark.parametrize("top", [0.9, 0.95, 0.99])
def test_the_knee_of_one_queue_is_where_theory_puts_it_whatever_the_highest_load(top: float) -> None:
    """p99 of M/M/1 doubles from 5 % load at exactly 52.5 %; log-linear lines between loads come within 1 of 100."""
    knee = knee_of(mm1(0.05, 0.2, 0.4, 0.5, 0.6, 0.8, top))
    assert knee is not None
    assert knee.load == pytest.approx(52.5, abs=1.0)


def test_the_interval_holds_the_knee_and_widens_with_that_of_p99() -> None:
    """The wider the intervals of p99, the wider that of the knee; without any width all three are one load."""
    widths = []
    for spread in (0.0, 0.03, 0.1):
        knee = knee_of(mm1(0.05, 0.3, 0.5, 0.7, 0.9, spread=spread))
        assert knee is not None
        assert knee.lo is not None
        assert knee.hi is not None
        assert knee.lo <= knee.load <= knee.hi
        widths.append(knee.hi - knee.lo)
    assert widths[0] == pytest.approx(0.0, abs=1e-9)
    assert widths[0] < widths[1] < widths[2]


def test_without_a_doubling_there_is_no_knee_and_a_reason() -> None:
    """Loads that end before p99 has doubled hold no knee, and neither line nor caption claims one."""
    result = mm1(0.05, 0.1, 0.2)
    assert knee_of(result) is None
    assert "below 2 times" in why_none(result)
    latency = figures.figures(result)[0]
    assert "knee" not in latency.caption
    assert "knee" not in str(latency.spec)


def test_a_percentile_without_end_ends_the_search_at_its_load() -> None:
    """Where requests fail so that p99 has no end, the knee is not beyond that load; a base without end has none."""
    nothing: dict[str, Any] = {"p99": factories.NOTHING}
    first, second = factories.point(5.0), factories.point(10.0)
    endless = second.model_copy(update={"latency_s": second.latency_s | nothing})
    knee = knee_of(factories.result(points=(first, endless)))
    assert knee is not None
    assert knee.load == 10.0
    base = first.model_copy(update={"latency_s": first.latency_s | nothing})
    assert knee_of(factories.result(points=(base, second))) is None
    assert "no end" in why_none(factories.result(points=(base, second)))


def test_a_busy_lowest_load_is_said_to_hide_the_knee() -> None:
    """The base is that of an idle node only while nothing is in much use at the lowest load."""
    idle, busy = knee_of(factories.result(loads=(2.0, 20.0, 41.0))), knee_of(factories.result(loads=(20.0, 38.0, 41.0)))
    assert idle is not None
    assert busy is not None
    assert idle.idle_base
    assert not busy.idle_base
