"""Files of the router project through our importers, and lengths and rates through both tools and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from profiles import store
from scenarios import loader
from sim.engine import run_once
from simcap.fleet_sim import lengths, read
from simcap.router_config import document, scenario

pytestmark = pytest.mark.fleet_sim

STAND_INS = {"mmbert-embed-32k-2d-matryoshka": "mmbert32k-intent", "mmbert32k-modality": "mmbert32k-intent"}
SETTINGS = ("classes.document.tokens.max=8192", "measurement.requests=200", "load.rps=[0.1]")
CONFIGS = {
    "config/config.yaml": {"intent", "jailbreak", "embedding", "complexity", "user-feedback"},
    "config/recipes/balance/config.yaml": {"intent", "fact-check", "user-feedback", "embedding", "complexity", "reask"},
    "config/recipes/privacy/config.yaml": {"jailbreak", "pii", "embedding", "complexity", "kb"},
    "config/recipes/feedback/config.yaml": {"intent", "fact-check", "user-feedback", "reask"},
    "config/recipes/knowledge/config.yaml": {"kb"},
    "config/recipes/agent/config.yaml": {"intent", "pii", "embedding", "complexity"},
    "deploy/openshift/config-openshift.yaml": {"intent"},
    "e2e/config/config.hallucination.yaml": {"intent", "fact-check"},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_router_configurations_become_scenarios_that_run(name, checkout, tmp_path) -> None:
    """The signals that its decisions use (read by hand) are there, and the scenario answers 200 requests."""
    base, profile = loader.load("longctx", SETTINGS), store.load("mi300x-published")
    choices = scenario.Choices("mi300x-published", gpu_provider="rocm", artifact="sdpa_fp16", stand_ins=STAND_INS)
    made = scenario.scenario_of(document.load(checkout / name), base, profile, choices)
    assert CONFIGS[name] <= set(made.found.inferences)
    assert "keyword" not in made.found.inferences
    (tmp_path / "router.yaml").write_text(made.text)
    records = run_once(loader.load(str(tmp_path / "router.yaml")), profile, 1, 0.1)
    assert np.isfinite(records.answered).all()
    assert records.arrived.size == 200


def test_a_recipe_of_heuristics_alone_is_said_to_cost_router_cpu_only(checkout) -> None:
    """The accuracy recipe asks keywords and context length: no scenario, and the message says why."""
    base, profile = loader.load("longctx"), store.load("mi300x-published")
    file = document.load(checkout / "config/recipes/accuracy/config.yaml")
    with pytest.raises(scenario.InputError, match=r"heuristics: context \(1\); keyword \(3\)"):
        scenario.scenario_of(file, base, profile, scenario.Choices("mi300x-published"))


@pytest.mark.parametrize("name", ["azure", "lmsys", "lmsys_multiturn", "agent_heavy"])
def test_cdf_round_trip_keeps_lengths(name, checkout, tmp_path) -> None:
    """CDF -> scenario -> export gives each of fleet-sim's points back within one token, fractions to 1e-12."""
    file = checkout / "src/fleet-sim/data" / f"{name}_cdf.json"
    wanted = read.Wanted(loader.load("highconc"), (10.0,), 0.8, 1)
    made = read.read(file, wanted, tmp_path / "x.yaml").scenario
    data = json.loads(file.read_text())
    theirs = [point for point in (data["cdf"] if isinstance(data, dict) else data) if point[1] > 0]
    back = [point for point in lengths.workload_points(made, None) if point[1] > 0]
    assert [f for _, f in back] == pytest.approx([f for _, f in theirs], abs=1e-12)
    assert max(abs(a - b) for (a, _), (b, _) in zip(back, theirs, strict=True)) <= 1


@pytest.mark.parametrize(
    "name", ["batch_spike_requests.csv", "generic_chat_mix.jsonl", "router_decisions.semantic_router.jsonl"]
)
def test_traces_keep_token_counts_and_rates(name, fleet_sim, checkout, tmp_path) -> None:
    """What our simulator lets arrive are the prompts and gaps that fleet-sim's own loader reads from the file."""
    from fleet_sim.workload import TraceWorkload

    file = checkout / "src/fleet-sim/examples/trace_samples" / name
    theirs = TraceWorkload(str(file), fmt="semantic_router").generate()
    made = read.read(file, read.Wanted(loader.load("highconc"), None, 0.8, 1), tmp_path / "x.yaml").scenario
    made = made.model_copy(update={"arrivals": made.arrivals.model_copy(update={"path": str(file)})})
    records = run_once(made, store.load("mi300x-published"), 1, 1.0)
    assert records.work.tokens.tolist() == [request.l_in for _, request in theirs]
    gaps = np.array([time for time, _ in theirs]) - theirs[0][0]
    assert np.allclose(records.arrived - records.arrived[0], gaps, atol=1e-6)


def test_fleet_file_of_the_project_becomes_classes_by_share(checkout, tmp_path) -> None:
    """Three pools of 60, 25 and 15 % are three classes of these weights."""
    file = checkout / "src/fleet-sim/examples/multi_model_fleet.json"
    made = read.read(file, read.Wanted(loader.load("highconc"), (10.0,), 0.8, 1), tmp_path / "x.yaml").scenario
    assert {name: kind.weight for name, kind in made.classes.items()} == {
        "llama70b": 0.6,
        "llama8b": 0.25,
        "codellama": 0.15,
    }
