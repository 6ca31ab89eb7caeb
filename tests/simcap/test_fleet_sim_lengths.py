"""The workload that goes to fleet-sim holds the same lengths as the scenario."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import tiny
from pydantic import TypeAdapter

from scenarios import loader
from scenarios.schema import Scenario
from scenarios.workload import TokenLaw
from simcap.fleet_sim import lengths

LAWS = {
    "fixed": {"law": "fixed", "tokens": 512},
    "uniform": {"law": "uniform", "min": 3, "max": 9},
    "log_uniform": {"law": "log_uniform", "min": 16, "max": 4096},
    "lognormal": {"law": "lognormal", "median": 120, "sigma": 1.0, "min": 8, "max": 1024},
    "choice": {"law": "choice", "tokens": [64, 512, 100], "weights": [0.5, 0.2, 0.3]},
    "cdf": {"law": "cdf", "min": 10, "points": [[50, 0.3], [50, 0.5], [400, 1.0]]},
}


def scenario_with(law: dict[str, object], tmp_path) -> Scenario:
    file, _ = tiny.write(tmp_path)
    scenario = loader.load(str(file))
    kind = scenario.classes["chat"].model_copy(update={"tokens": TypeAdapter(TokenLaw).validate_python(law)})
    return scenario.model_copy(update={"classes": {"chat": kind}})


def fleet_sim_draws(points: list[tuple[int, float]], size: int) -> np.ndarray:
    """Prompts as fleet-sim's generator draws them: a uniform whole length between two points, int() of 80 % of it."""
    rng = np.random.default_rng(7)
    drawn, previous = np.empty(size, dtype=int), 1
    edges = [0.0, *(f for _, f in points)]
    which = np.searchsorted(edges[1:], rng.uniform(size=size))
    for k, (length, _) in enumerate(points):
        mine = which == k
        drawn[mine] = rng.integers(max(1, previous), max(1, previous, length), size=mine.sum(), endpoint=True)
        previous = length
    return np.array([max(1, int(total * 0.8)) for total in drawn])


@pytest.mark.parametrize("name", LAWS)
def test_probabilities_are_those_of_the_draws(name: str) -> None:
    """P(length <= t) from the formula lies within 4 standard errors of the share of 200,000 draws."""
    law = TypeAdapter(TokenLaw).validate_python(LAWS[name])
    drawn = law.draw(np.random.default_rng(1), 200_000)
    at = np.unique(np.quantile(drawn, [0.0, 0.1, 0.3, 0.5, 0.9, 1.0]).astype(int))
    expected = lengths.fraction_up_to(law, at.astype(float))
    found = np.array([(drawn <= t).mean() for t in at])
    error = np.sqrt(np.maximum(expected * (1 - expected), 1e-6) / drawn.size)
    assert np.all(np.abs(found - expected) <= 4 * error + 1e-9), (at, expected, found)


@pytest.mark.parametrize("name", LAWS)
def test_fleet_sim_draws_the_prompts_of_the_scenario(name: str, tmp_path) -> None:
    """Prompts drawn by fleet-sim's rule keep mean and every decile of the scenario's within 3 % or 2 tokens."""
    scenario = scenario_with(LAWS[name], tmp_path)
    points = lengths.workload_points(scenario, None)
    theirs = fleet_sim_draws(points, 40_000)
    ours = scenario.classes["chat"].tokens.draw(np.random.default_rng(3), 40_000)
    assert theirs.mean() == pytest.approx(ours.mean(), rel=0.03, abs=2)
    steps = np.arange(0.1, 1.0, 0.1) if name != "choice" else [0.2, 0.65, 0.9]
    assert np.allclose(np.quantile(theirs, steps), np.quantile(ours, steps), rtol=0.03, atol=2)
    lo, hi = scenario.classes["chat"].tokens.support
    assert theirs.min() >= lo - 2
    assert theirs.max() <= hi + 1


def test_points_are_a_cdf_in_fleet_sims_form(tmp_path) -> None:
    """Tokens increase strictly, fractions do not decrease, the last one is exactly 1."""
    for law in LAWS.values():
        points = lengths.workload_points(scenario_with(law, tmp_path), None)
        tokens, fractions = zip(*points, strict=True)
        assert all(b > a for a, b in pairwise(tokens))
        assert all(b >= a for a, b in pairwise(fractions))
        assert fractions[-1] == 1.0


def test_classes_are_mixed_by_their_weights(tmp_path) -> None:
    """Two fixed lengths of weight 0.25 and 0.75 give steps of exactly these heights."""
    scenario = scenario_with(LAWS["fixed"], tmp_path)
    chat = scenario.classes["chat"]
    long = chat.model_copy(
        update={"weight": 0.75, "tokens": TypeAdapter(TokenLaw).validate_python({"law": "fixed", "tokens": 800})}
    )
    both = {"chat": chat.model_copy(update={"weight": 0.25}), "long": long}
    points = dict(lengths.workload_points(scenario.model_copy(update={"classes": both}), None))
    assert points[640] == pytest.approx(0.25)
    assert points[1000] == 1.0
