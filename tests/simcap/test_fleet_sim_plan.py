"""Router nodes and LLM instances together: the budget is reduced by a distribution, and the cheapest pair wins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from factories import point

from simcap.fleet_sim import joint_plan, latency


@dataclass
class FixedLlm:
    """An LLM whose every request holds a slot for `hold_s` and has its first token after `first_s`."""

    first_s: float = 0.1
    hold_s: float = 0.5
    slots: int = 4
    cost_per_hr: float = 10.0
    chunk: int = 1 << 20

    def n_slots(self, max_ctx: int) -> int:
        return self.slots

    def service_time(self, l_in: int, l_out: int, max_ctx: int) -> float:
        return self.hold_s

    def prefill_iter_latency(self, chunk: int, history: float, active: int, mean: float | None = None) -> float:
        return self.first_s


def write(folder: Path, points: list[tuple[float, list[float], list[float]]], node_cost: float = 1.0) -> Path:
    data = {
        "schema": joint_plan.SCHEMA,
        "node_cost_per_hr": node_cost,
        "points": [{"node_rps": rate, "levels": levels, "seconds": seconds} for rate, levels, seconds in points],
    }
    (folder / "signal_latency.json").write_text(json.dumps(data))
    (folder / "workload.json").write_text(json.dumps({"cdf": [[99, 0.0], [100, 1.0]]}))
    return folder


def ask(
    folder: Path, slo_ms: float, attainment: float = 0.99, rate: float = 100.0, **llm: float
) -> list[joint_plan.Plan]:
    return joint_plan.plan(
        FixedLlm(**llm), llm_max_ctx=4096, rate_rps=rate, slo_ms=slo_ms, attainment=attainment, folder=folder
    )


def test_signal_latency_is_added_as_a_distribution(tmp_path) -> None:
    """90 % of signals take 10 ms and 10 % take 300: with slots to spare, 90 % have a first token within 150 ms. A constant
    p99 of 300 ms would have said that nothing can keep 90 % there.
    """
    folder = write(tmp_path, [(50.0, [0.0, 0.9, 0.9000001, 1.0], [0.01, 0.01, 0.3, 0.3])])
    (best,) = ask(folder, 150, attainment=0.89)
    assert best.share == pytest.approx(0.9, abs=0.01)
    assert ask(folder, 150, attainment=0.95) == []
    assert ask(folder, 450, attainment=0.99)[0].share > 0.99


def test_instances_suffice_for_the_load_and_no_more(tmp_path) -> None:
    """100 a second for 0.5 s each are 50 slots busy: at least 13 instances of 4; one fewer than the answer misses."""
    folder = write(tmp_path, [(50.0, [0.0, 1.0], [0.01, 0.01])])
    (best,) = ask(folder, 300)
    assert 13 <= best.llm_instances <= 18
    requests = joint_plan._Requests(folder, FixedLlm(), 4096, 100.0, 20_000, 1)
    signal = requests.signal_s([0.0, 1.0], [0.01, 0.01])
    shares = [np.mean(requests.first_token_s(signal, best.llm_instances - k) <= 0.3) for k in (0, 1)]
    assert shares[0] >= 0.99 > shares[1]


def test_router_nodes_are_those_that_keep_each_node_at_a_simulated_load(tmp_path) -> None:
    """100 a second at 40 a node are 3 nodes, at 20 a node 5; the price counts both kinds."""
    folder = write(tmp_path, [(40.0, [0.0, 1.0], [0.05, 0.05]), (20.0, [0.0, 1.0], [0.01, 0.01])], node_cost=2.0)
    plans = ask(folder, 400)
    assert {plan.router_nodes for plan in plans} == {3, 5}
    assert all(p.cost_per_hr == pytest.approx(2 * p.router_nodes + 10 * p.llm_instances) for p in plans)
    assert [p.cost_per_hr for p in plans] == sorted(p.cost_per_hr for p in plans)


def test_more_router_nodes_can_save_llm_instances(tmp_path) -> None:
    """Signals of 390 ms leave nothing of 500 for a queue; of 10 ms they do: the calmer router needs fewer instances."""
    folder = write(tmp_path, [(100.0, [0.0, 1.0], [0.39, 0.39]), (10.0, [0.0, 1.0], [0.01, 0.01])])
    by_nodes = {plan.router_nodes: plan.llm_instances for plan in ask(folder, 500)}
    assert by_nodes[10] < by_nodes[1]


def test_distribution_is_the_results_histogram(tmp_path) -> None:
    """Levels are its cumulated shares, seconds the upper ends of its filled bins; a saturated load is left out."""
    from types import SimpleNamespace

    points = (point(10.0), point(44.0))
    result = SimpleNamespace(points=points, scenario="s", profile="p", profile_origins={"measured": 1})
    (only,) = latency.document(result, 2, 3.0)["points"]
    assert only["node_rps"] == 5.0
    counts, edges = np.array(points[0].histogram), np.array(points[0].histogram_edges_s)
    at = edges[np.searchsorted(np.cumsum(counts) / counts.sum(), 0.5) + 1]
    step = np.searchsorted(only["seconds"], at)
    assert only["levels"][step] >= 0.5 > only["levels"][step - 1] - 1e-12
    assert only["levels"][-1] == 1.0
