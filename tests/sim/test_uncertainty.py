"""Intervals that cover calibration as well: what moves, what stays, and how the parts are joined."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit

from profiles.distribution import LEVELS, from_samples
from profiles.plausible import resampled
from profiles.schema import Profile
from profiles.spread import spread_of
from scenarios.schema import Scenario
from sim import replicate, search_runs
from sim.calibration import Calibration, plausible
from sim.streams import Streams
from sim.uncertainty import Apart, apart_of

TOKENS = (64, 256, 512)
RUNS = np.array([[1.00, 1.06, 0.97], [2.00, 2.16, 1.90], [4.00, 4.20, 3.84]]) / 100  # seconds, by cell and run


def profile(*, medians: bool = True, origin: str = "measured", bounds: bool = False) -> Profile:
    """Three cells; with the medians of three runs, of one run, or nobody's numbers."""
    cells = []
    for tokens, runs in zip(TOKENS, RUNS, strict=True):
        seconds = from_samples(float(runs.mean()) * np.linspace(0.8, 1.3, 101)).values.tolist()
        cell = {"tokens": tokens, "levels": LEVELS, "seconds": seconds, "origin": origin, "spread_origin": origin}
        cell |= {"n": 300 if origin == "measured" else 0}
        cell |= {"run_medians": runs.tolist()} if medians else {}
        cell |= {"median_lo": seconds[7] / 1.3, "median_hi": seconds[7] * 1.3} if bounds else {}
        cells.append(cell)
    entry = {
        "model": "m",
        "artifact": "fp32",
        "provider": {"name": "cpu"},
        "task": "embedding",
        "service": {"cadence": "tight", "cells": cells},
        "occupancy": [{"tokens": tokens, "value": 0.5, "origin": "modeled"} for tokens in TOKENS],
    }
    file = {"schema": "simcap.profile/1", "name": "p", "description": "d", "created": "2026-01-01", "entries": [entry]}
    file |= {"device": {"catalog": "cpu", "kind": "cpu", "name": "c"}}
    return Profile.model_validate(file | ({"runs": ["a", "b", "c"]} if medians else {}))


def scenario(load: float = 30.0) -> Scenario:
    return Scenario.model_validate(
        {
            "schema": "simcap.scenario/1",
            "name": "s",
            "question": "How sure?",
            "node": {"cpu_workers": 100},
            "router": {"cpu": {"base_s": 0}},
            "signals": {"a": {"model": "m", "artifact": "fp32", "provider": "cpu", "sessions": 2}},
            "stages": [["a"]],
            "classes": {"all": {"weight": 1, "tokens": {"law": "uniform", "min": 64, "max": 512}}},
            "arrivals": {"process": "poisson"},
            "load": {"rps": [load]},
            "slo": {"latency_ms": 100, "attainment": 0.95},
            "measurement": {"requests": 1000, "replications": 5},
        }
    )


def medians(drawn: Profile) -> list[float]:
    service = drawn.entries[0].service
    assert service is not None
    return [float(cell.law().ppf(0.5)) for cell in service.cells]


def test_the_spread_between_runs_is_split_into_the_machine_and_each_cell():
    """Total squares of the runs' log medians about their means are those of the machine plus those of the cells."""
    spread = spread_of(profile())
    off = np.log(RUNS) - np.log(RUNS).mean(axis=1, keepdims=True)
    machine, own = 3 * 2 * spread.machine**2, 2 * (3 - 1) * spread.own["m fp32 on cpu", "tight"] ** 2
    assert machine + own == pytest.approx(float((off**2).sum()))


def test_a_slower_machine_slows_every_cell_and_a_faster_one_none():
    """With common factors only, the two sides of a replication pair are one standard deviation up and down."""
    stated = profile(medians=False, origin="modeled", bounds=True)
    spread = spread_of(stated)
    slow, fast = (medians(plausible(stated, spread, Streams(1, r), r)) for r in (0, 1))
    ratios = [math.log(s / f) for s, f in zip(slow, fast, strict=True)]
    assert ratios == pytest.approx([2 * math.log(1.3) / 1.959964] * 3, rel=1e-6)


def test_what_has_no_stated_spread_stays_as_it_is():
    """A profile of published or assumed numbers without bounds is its own only plausible profile."""
    stated = profile(medians=False, origin="published")
    assert plausible(stated, spread_of(stated), Streams(1, 0), 0) == stated
    assert not Calibration.of(stated, stated.entries).moves


def test_resampled_medians_spread_as_medians_of_samples_do():
    """The bootstrap of stored quantiles has the standard error of a median, sqrt(pi / 2 / n) sigma for a normal law."""
    rng = np.random.default_rng(5)
    law = from_samples(10 + rng.standard_normal(200))
    drawn = [resampled(LEVELS, law.values, 200, rng)[7] for _ in range(2000)]
    middle = (law.values[8] - law.values[6]) / 0.2  # 1 / density about the median of this sample
    assert np.std(drawn) == pytest.approx(middle / 2 / math.sqrt(200), rel=0.15)


def test_measuring_one_more_cell_changes_no_other_draw():
    """A number's generator is known by its name, so that plausible profiles of a larger profile agree on what both have."""
    whole = profile(medians=False)
    service = whole.entries[0].service
    assert service is not None
    less = service.model_copy(update={"cells": service.cells[1:]})
    small = whole.model_copy(update={"entries": (whole.entries[0].model_copy(update={"service": less}),)})
    a, b = (medians(plausible(p, spread_of(p), Streams(3, 2), 2)) for p in (whole, small))
    assert a[1:] == b


def test_the_machine_counts_with_the_freedom_of_its_runs():
    """Differences that only follow the side of the machine are the machine's, times t of its runs, not of replications."""
    known = Calibration(moves=True, common=True, freedom=2)
    apart = apart_of(np.array([0.1, -0.1, 0.1, -0.1, 0.1]), known)
    assert apart.machine == pytest.approx(0.1 * stdtrit(2, 0.975))
    assert apart.cells == pytest.approx(0.0, abs=1e-12)


def test_parts_join_as_squares_on_the_scale_of_the_figure():
    """On the logarithmic scale the upper end lies farther from the mean than the lower, by the same factor."""
    below, above = Apart("log", machine=0.3, cells=0.4).ends(2.0)
    assert (2.0 + above) / 2.0 == pytest.approx(math.exp(0.5)) == pytest.approx(2.0 / (2.0 - below))


def test_full_widens_intervals_and_moves_no_mean():
    """The stated profile stays the best guess: both kinds of run have the same means, bit for bit."""
    simulated, full = (
        replicate.run(scenario(), profile(), 1, uncertainty=asked)[0].points[0] for asked in ("simulation", "full")
    )
    for name, narrow in simulated.latency_s.items():
        wide = full.latency_s[name]
        assert wide.mean == narrow.mean
        assert None not in (wide.lo, wide.hi, narrow.lo, narrow.hi)
        assert wide.lo < narrow.lo  # type: ignore[operator]  # none is None, by the line above
        assert wide.hi > narrow.hi  # type: ignore[operator]
    assert full.calibration_share is not None
    assert 0 < full.calibration_share < 1


def test_full_is_simulation_where_nothing_is_stated():
    """A published profile has the same points either way, and the result says what its intervals cover."""
    stated = profile(medians=False, origin="published")
    simulated, full = (replicate.run(scenario(), stated, 1, uncertainty=asked)[0] for asked in ("simulation", "full"))
    assert simulated.points == full.points
    assert full.uncertainty is not None
    assert (full.uncertainty.asked, full.uncertainty.covers) == ("full", "simulation")
    assert any("no spread stated" in line for line in full.uncertainty.left_out)


def test_one_run_says_that_it_cannot_tell_about_others():
    """Samples of one run are in the interval, and the spread from run to run is named as not in it."""
    result, _ = replicate.run(scenario(), profile(medians=False), 1)
    assert result.uncertainty is not None
    assert (result.uncertainty.covers, result.uncertainty.between_runs) == ("full", None)
    assert any("one run; merge several" in line for line in result.uncertainty.left_out)


def test_capacity_covers_the_speed_of_the_machine():
    """Capacity goes with the speed: bounds of ±30 % on all service times give ±30 % on the load, and a little more."""
    stated = profile(medians=False, origin="modeled", bounds=True)
    narrow, wide = (
        search_runs.capacity(scenario(), stated, 1, search_runs.Options(0.15, 200_000, asked))
        for asked in ("simulation", "full")
    )
    assert narrow.capacity is not None
    assert wide.capacity is not None
    assert wide.capacity.mean == narrow.capacity.mean
    assert None not in (wide.capacity.lo, wide.capacity.hi, wide.capacity.mean)
    up, down = wide.capacity.hi / wide.capacity.mean, wide.capacity.mean / wide.capacity.lo  # type: ignore[operator]
    assert 1.3 < up < 1.6
    assert 1.3 < down < 1.6
    assert wide.uncertainty is not None
    assert wide.uncertainty.covers == "full"


def test_what_would_narrow_the_interval_is_ranked_and_can_be_typed():
    """With runs that differ mostly together the machine comes first; a cell comes with the command that measures it."""
    known = replicate.run(scenario(), profile(), 1)[0].uncertainty
    assert known is not None
    shares = [one.share for one in known.narrowing]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1.0 + 1e-9
    assert "from run to run" in known.narrowing[0].what
    assert any("simcap calibrate --gpu cpu" in one.measure and "--tokens 512" in one.measure for one in known.narrowing)


def test_the_longest_texts_count_most_where_they_take_most_of_the_time():
    """One cell made four times as uncertain as the others, by fewer samples, is the first of the cells."""
    stated = profile(medians=False)
    service = stated.entries[0].service
    assert service is not None
    cells = [cell.model_copy(update={"n": 20 if cell.tokens == 512 else 3000}) for cell in service.cells]
    entry = stated.entries[0].model_copy(update={"service": service.model_copy(update={"cells": tuple(cells)})})
    known = replicate.run(scenario(), stated.model_copy(update={"entries": (entry,)}), 1)[0].uncertainty
    assert known is not None
    named = [one.what for one in known.narrowing if one.what.startswith("service time")]
    assert "at 512 tokens" in named[0]


def test_engines_and_stops_change_nothing(tmp_path: Path):
    """Both engines take the same plausible profiles, and a run read back from its journal is the run itself."""
    first = replicate.run(scenario(), profile(), 1, engine="simpy", journal=tmp_path / "kept")[0]
    assert first == replicate.run(scenario(), profile(), 1, engine="compiled")[0]
    assert len(list((tmp_path / "kept" / "plausible").glob("*.json"))) == 5
    assert first == replicate.run(scenario(), profile(), 1, engine="simpy", journal=tmp_path / "kept")[0]
