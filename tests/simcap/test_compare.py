"""A comparison finds a true difference, finds none between equal variants, and says what it does not know."""

from __future__ import annotations

import json
import math
from pathlib import Path

import factories
import numpy as np
import pytest

from profiles import store
from profiles.errors import InputError
from scenarios import loader
from scenarios.schema import Measurement
from sim import replicate
from sim.result import Interval
from simcap import compare, replications
from simcap.comparison import CAPACITY, Comparison, Difference, Verdict
from simcap.report import comparison as said

PROFILE = {
    "schema": "simcap.profile/1",
    "name": "mm1",
    "description": "one server, made up for tests",
    "created": "2025-01-01",
    "device": {"catalog": "cpu", "kind": "cpu", "name": "test machine"},
    "router": {"base_s": {"value": 0.0, "origin": "assumed"}, "per_token_s": {"value": 0.0, "origin": "assumed"}},
    "entries": [],
}
LEVELS = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]
BASE = 0.010


def write(directory: Path, name: str, factor: float, *, rps: str = "[40, 60, 75, 85]", requests: int = 1500) -> Path:
    """A queue of one server, service about exponential with a mean of 10 ms, and a promise; all times multiplied by
    `factor`, so that capacity is divided by it exactly. Leaves the scenario file.
    """  # fmt: skip
    seconds = [factor * BASE * -math.log(1 - min(level, 0.999) + 1e-4) + 1e-6 for level in LEVELS]
    cell = {
        "tokens": 64,
        "levels": LEVELS,
        "seconds": seconds,
        "n": 30,
        "origin": "assumed",
        "spread_origin": "assumed",
    }
    entry = {
        "model": "m",
        "artifact": "fp32",
        "provider": {"name": "cpu"},
        "task": "sequence_classification",
        "service": {"cadence": "tight", "cells": [cell]},
        "occupancy": [{"tokens": 64, "value": 0.9, "origin": "assumed"}],
    }
    profile = directory / f"{name}.profile.json"
    profile.write_text(json.dumps(PROFILE | {"entries": [entry]}))
    scenario = directory / f"{name}.yaml"
    scenario.write_text(f"""\
schema: simcap.scenario/1
name: {name}
question: How many?
profile: {profile}
node: {{cpu_workers: 2}}
router: {{cpu: from_profile}}
signals:
  intent: {{model: m, artifact: fp32, provider: cpu}}
stages: [[intent]]
classes:
  chat: {{weight: 1.0, tokens: {{law: fixed, tokens: 64}}}}
arrivals: {{process: poisson}}
load: {{rps: {rps}}}
slo: {{latency_ms: {80 * factor!r}, attainment: 0.95}}
measurement: {{requests: {requests}, replications: 5}}
""")
    return scenario


def samples(seed: int, *paths: Path, sets: tuple[str, ...] = ()) -> list[replications.Sample]:
    variants = []
    for path in paths:
        scenario = loader.load(str(path), sets)
        assert scenario.profile is not None
        variants.append(replications.Variant(path.stem, scenario, store.load(scenario.profile)))
    return [answer.sample for answer in replications.answers(variants, seed)]


def capacity_of(found: Comparison) -> Difference:
    return next(d for d in found.others[0].differences if d.figure == CAPACITY)


def test_a_server_5_percent_faster_is_found_to_carry_5_percent_more(tmp_path: Path) -> None:
    slow, fast = write(tmp_path, "slow", 1.0), write(tmp_path, "fast", 1 / 1.05)
    found = 0
    for seed in range(10):
        capacity = capacity_of(compare.of_samples(samples(seed, slow, fast)))
        assert capacity.change is not None
        assert 0.02 < capacity.change < 0.09
        found += capacity.verdict == "different"
    assert found >= 9


@pytest.mark.slow
def test_a_server_5_percent_faster_is_found_with_the_default_effort_in_at_least_90_of_100_seeds(tmp_path: Path) -> None:
    requests = Measurement().requests
    slow, fast = (write(tmp_path, name, k, requests=requests) for name, k in (("slow", 1.0), ("fast", 1 / 1.05)))
    capacities = [capacity_of(compare.of_samples(samples(seed, slow, fast))) for seed in range(100)]
    assert sum(capacity.verdict == "different" for capacity in capacities) >= 90
    changes = [capacity.change for capacity in capacities if capacity.change is not None]
    assert np.mean(changes) == pytest.approx(0.05, abs=0.005)


@pytest.mark.slow
def test_equal_variants_are_told_apart_in_at_most_10_of_100_seeds(tmp_path: Path) -> None:
    same = write(tmp_path, "same", 1.0)
    capacities, any_figure, unpaired = 0, 0, 0
    for seed in range(100):
        pair = [*samples(2 * seed, same), *samples(2 * seed + 1, same)]
        [against] = compare.of_samples(pair).others
        capacities += against.differences[0].verdict == "different"
        any_figure += any(d.verdict == "different" for d in against.differences[1:])
        unpaired += any(
            d.verdict == "different" for d in compare.of_results(["a", "b"], results(same, seed)).others[0].differences
        )
    assert capacities <= 10
    assert any_figure <= 10
    assert unpaired <= 10


def results(path: Path, seed: int) -> list[replicate.Result]:
    scenario = loader.load(str(path))
    assert scenario.profile is not None
    profile = store.load(scenario.profile)
    return [replicate.run(scenario, profile, 2 * seed + k)[0] for k in range(2)]


def test_a_variant_against_itself_is_the_same_in_every_figure(tmp_path: Path) -> None:
    [one] = samples(1, write(tmp_path, "one", 1.0))
    [against] = compare.of_samples([one, one]).others
    assert {d.verdict for d in against.differences} == {"same"}
    assert {d.load for d in against.differences} == {None, 40, 60, 75, 85}


def made(name: str, p50: list[float], capacity: list[float]) -> replications.Sample:
    values = {figure: np.full(len(p50), 0.5) for figure in replications.FIGURES} | {"latency_p50": np.array(p50)}
    return replications.Sample(name, "rps", {10.0: values}, np.array(capacity))


def test_the_paired_interval_is_the_t_interval_of_the_logarithm_of_each_pairs_ratio() -> None:
    first, other = [0.01, 0.02, 0.04], [0.011, 0.0205, 0.05]
    [against] = compare.of_samples([made("a", first, [1, 2, 3]), made("b", other, [1, 2, 3])]).others
    p50 = next(d for d in against.differences if d.figure == "latency_p50")
    logs = [math.log(b / a) for a, b in zip(first, other, strict=True)]
    half = 4.302652729749464 * float(np.std(logs, ddof=1)) / math.sqrt(3)  # t of 2 degrees of freedom at 97.5 %
    assert p50.change == pytest.approx(math.expm1(np.mean(logs)))
    assert (p50.lo, p50.hi) == pytest.approx((math.expm1(np.mean(logs) - half), math.expm1(np.mean(logs) + half)))


def test_capacity_that_the_loads_do_not_bracket_in_every_replication_is_not_compared() -> None:
    capacity = capacity_of(compare.of_samples([made("a", [1, 1], [5, math.nan]), made("b", [1, 1], [5, 5])]))
    assert (capacity.verdict, capacity.change, capacity.why) == ("unknown", None, "the load points do not bracket it")


def test_the_unpaired_interval_is_welchs() -> None:
    result = factories.result()
    mine = result.points[0].model_copy(update={"slo_attainment": Interval(mean=0.9, lo=0.89, hi=0.91)})
    theirs = result.points[0].model_copy(update={"slo_attainment": Interval(mean=0.92, lo=0.89, hi=0.95)})
    runs = [result.model_copy(update={"points": (point,)}) for point in (mine, theirs)]
    [against] = compare.of_results(["a", "b"], runs).others
    share = next(d for d in against.differences if d.figure == "slo_attainment")
    t4, errors = 2.7764451051977987, (0.01, 0.03)
    error = math.hypot(*errors) / t4
    freedom = 4 * (0.01**2 + 0.03**2) ** 2 / (0.01**4 + 0.03**4)
    assert freedom == pytest.approx(4.878, abs=1e-3)
    assert share.change == pytest.approx(0.02)
    assert share.hi is not None
    assert (share.hi - 0.02) / error == pytest.approx(2.59, abs=0.02)  # between t(4) = 2.776 and t(5) = 2.571
    assert share.verdict == "none found"


def test_ranges_of_capacity_that_do_not_meet_are_different_and_others_unknown() -> None:
    low, high = factories.result(loads=(5.0, 20.0, 44.0)), factories.result(loads=(5.0, 20.0, 44.0))
    above = high.capacity.model_copy(update={"lo": 60.0, "hi": 70.0})
    assert capacity_of(compare.of_results(["a", "b"], [low, high])).verdict == "unknown"
    apart = compare.of_results(["a", "b"], [low, high.model_copy(update={"capacity": above})])
    assert capacity_of(apart).verdict == "different"


def test_runs_without_a_common_load_are_refused_with_both_lists() -> None:
    with pytest.raises(InputError, match=r"b shares no load point with a: 7, 9 against 5, 20"):
        compare.of_results(["a", "b"], [factories.result(loads=(5.0, 20.0)), factories.result(loads=(7.0, 9.0))])
    with pytest.raises(InputError, match="kind"):
        compare.of_results(["a", "b"], [factories.result(), factories.result(kind="clients")])


def test_pairs_are_the_replications_that_both_variants_have() -> None:
    pairs = [made("a", [0.01, 0.02], [1, 2]), made("b", [0.011, 0.021, 9.0], [1, 2, 3])]
    cut = [pairs[0], made("b", [0.011, 0.021], [1, 2])]
    assert compare.of_samples(pairs) == compare.of_samples(cut)


def test_many_figures_are_judged_together_and_one_alone_is_only_unclear() -> None:
    found = [_difference("latency_p50", p) for p in (0.0001, 0.02, 0.03, 0.9)]
    assert [d.verdict for d in compare._judged(found)] == ["different", "unclear", "unclear", "none found"]


def _difference(figure: str, p: float) -> Difference:
    verdict: Verdict = "unclear" if p < 0.05 else "none found"
    figures = {"first": 1.0, "other": 1.0, "change": 0.1, "lo": 0.0, "hi": 0.2}
    return Difference(figure=figure, load=1.0, **figures, p=p, verdict=verdict)


@pytest.mark.parametrize(
    ("figure", "values", "text"),
    [
        ("capacity", (0.38, 0.3412, 0.421), "+38 % [34.1, 42.1]"),
        ("slo_attainment", (-0.012, -0.015, -0.009), "-1.2 pp [-1.5, -0.9]"),
        ("latency_p99", (-0.00000001, -0.1, 2.0), "0 % [-10, 200]"),
    ],
)
def test_changes_are_worded_with_their_unit_and_interval(
    figure: str, values: tuple[float, float, float], text: str
) -> None:
    change, lo, hi = values
    assert said.change(_difference(figure, 0.5).model_copy(update={"change": change, "lo": lo, "hi": hi})) == text
