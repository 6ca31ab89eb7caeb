"""Replications stop when an interval is narrow: by what rule, the same wherever and however it runs, and at what price."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from profiles import store
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import loader
from scenarios.schema import Scenario
from sim import executor, replicate
from sim.intervals import interval
from sim.rounds import wanted


@pytest.fixture(scope="module")
def profile() -> Profile:
    return store.load("mi300x-published")


def scenario(*sets: str) -> Scenario:
    given = ("measurement.requests=400", "load.rps=[1,4]", "measurement.precision=0.05", *sets)
    return loader.load("longctx", given)


def runs(values: list[float] | np.ndarray, backlog: float = 0.0) -> Any:
    """Figures of replications, as far as the rule looks at them."""
    return [SimpleNamespace(scalars={"slo_percentile_s": v, "backlog_share": backlog}) for v in values]


WIDE = [1.0, 3.0] * 100


def test_without_a_precision_there_are_as_many_as_the_scenario_says() -> None:
    """The rule is asked for, never on by itself."""
    plain = loader.load("longctx", ("measurement.replications=7",))
    assert wanted(plain, []) == wanted(plain, runs(WIDE[:7])) == 7


def test_looks_come_after_10_replications_and_half_as_many_again_each_time_up_to_the_most() -> None:
    """Ten at first, however few `replications` says, then 15, 23, 35, and 40 where that is the most."""
    one, looks = scenario("measurement.max_replications=40"), [0]
    while (more := wanted(one, runs(WIDE[: looks[-1]]))) > looks[-1]:
        looks.append(more)
    assert looks == [0, 10, 15, 23, 35, 40]
    assert wanted(scenario("measurement.replications=12"), []) == 12


def test_a_load_point_stops_where_its_interval_is_narrow_saturated_or_has_no_end() -> None:
    """Half width within 5 % of the mean; a growing queue and an endless latency are not waited for."""
    one = scenario()
    for done, more in [
        (runs([1.0, 1.05] * 5), False),
        (runs([1.0, 1.20] * 5), True),
        (runs([1.0, 1.20] * 5, backlog=0.5), False),
        (runs([1.0, np.inf] * 5), False),
    ]:
        assert (wanted(one, done) > 10) == more


def test_the_result_is_the_same_whatever_the_workers_stops_and_other_loads(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process or three, stopped in the middle of a later round and gone on, or with a load point more: same points."""
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    reference = replicate.run(scenario(), profile, 1)[0]
    counts = [point.replications for point in reference.points]
    assert max(counts) > 10
    assert replicate.run(scenario(), profile, 1, workers=3)[0] == reference

    def stop(done: int, _: int) -> None:
        if done == 23:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replicate.run(scenario(), profile, 1, workers=2, journal=tmp_path / "j", progress=stop)
    assert replicate.run(scenario(), profile, 1, journal=tmp_path / "j")[0] == reference
    more = replicate.run(scenario("load.rps=[1,3,4]"), profile, 1)[0]
    assert [point for point in more.points if point.load != 3] == list(reference.points)


def test_each_point_is_narrow_enough_or_has_the_most_and_the_first_narrow_look_ends_it(profile: Profile) -> None:
    """What was asked for is what came out: no earlier look was narrow, the last one is, or the most is reached."""
    result = replicate.run(scenario("measurement.max_replications=60"), profile, 1)[0]
    for point in result.points:
        late = point.slo_percentile_s
        assert late.mean is not None
        assert late.hi is not None
        assert late.hi - late.mean <= 0.05 * late.mean or point.replications == 60
        assert point.replications in {10, 15, 23, 35, 53, 60}
    assert any("10 to" in note or "replications" in note for note in result.notes)


@pytest.mark.parametrize(
    ("sets", "error"),
    [
        (("measurement.max_replications=20",), "max_replications: goes with precision"),
        (
            ("measurement.precision=0.05", "measurement.replications=30", "measurement.max_replications=20"),
            "is less than replications, 30",
        ),
        (("measurement.precision=5",), "precision"),
    ],
)
def test_keys_that_make_no_rule_are_refused_by_name(sets: tuple[str, ...], error: str) -> None:
    """A most without a goal, a most below the least, five hundred percent."""
    with pytest.raises(InputError, match=error):
        loader.load("longctx", sets)


def test_intervals_that_end_a_run_contain_the_truth_a_little_less_often() -> None:
    """Normal figures with a spread of 25 %, stopped at ±10 %: between 89 and 96 of 100 intervals contain their mean."""
    one, draw, held = scenario("measurement.precision=0.1"), np.random.default_rng(3), 0
    for _ in range(1000):
        values = draw.normal(1.0, 0.25, 50)
        looks = [10, 15, 23, 35, 50]
        end = next((a for a, b in pairwise([*looks, 51]) if wanted(one, runs(values[:a])) != b), 50)
        found = interval(values[:end])
        assert found.lo is not None
        assert found.hi is not None
        held += found.lo <= 1.0 <= found.hi
    assert 890 <= held <= 960
