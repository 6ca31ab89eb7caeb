"""Our exported objects in the real fleet-sim: its protocol, its DES, its optimizer, and the same capacity as ours."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from profiles import store
from scenarios import loader
from sim import replicate
from simcap import rundir
from simcap.fleet_sim import export, hardware

pytestmark = pytest.mark.fleet_sim

HIGHCONC = Path(str(loader.locate("highconc")))


def module_of(folder: Path, name: str):
    spec = importlib.util.spec_from_file_location(f"exported_{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run_and_export(folder: Path, rates: list[float], signals: list[str]) -> tuple[Path, object]:
    """Texts of 512 tokens for these signals on MIGraphX behind the lock; the run's result beside the export."""
    data = yaml.safe_load(HIGHCONC.read_text())
    data |= {"name": "single", "stages": [signals], "load": {"rps": rates}}
    data["signals"] = {name: data["signals"][name] for name in signals}
    data["classes"] = {"chat": {"weight": 1, "tokens": {"law": "fixed", "tokens": 512}}}
    file = folder / "single.yaml"
    file.write_text(yaml.safe_dump(data))
    scenario, profile = loader.load(str(file)), store.load("mi300x-published")
    result, _ = replicate.run(scenario, profile, 1)
    command = rundir.Command(str(file), "mi300x-published", 1, report=False)
    rundir.write(rundir.Run(command, scenario, file, store.locate("mi300x-published"), result), folder / "run")
    export.export(str(folder / "run"), folder / "fs", export.Price(2.59, "test"))
    return folder / "fs", result


def crossing(rates: list[float], shares: list[float], level: float = 0.99) -> float:
    """The rate at which the share within the SLO falls through `level`, a straight line between two rates."""
    for (a, sa), (b, sb) in pairwise(zip(rates, shares, strict=True)):
        if sa >= level > sb:
            return a + (b - a) * (sa - level) / (sa - sb)
    raise AssertionError(f"{level} is not crossed: {shares}")


@pytest.mark.parametrize(
    ("signals", "rates"),
    [(["intent"], [280.0, 300.0, 310.0, 320.0]), (["intent", "jailbreak", "user-feedback"], [64.0, 68.0, 72.0, 76.0])],
    ids=["one signal", "three behind a lock"],
)
def test_capacity_agrees_with_ours_within_5_percent(fleet_sim, tmp_path, signals, rates) -> None:
    """One class, one slot, least_loaded: the rate that fleet-sim's DES sustains at 99 % is ours within 5 %."""
    folder, result = run_and_export(tmp_path, rates, signals)
    ours = crossing(rates, [point.slo_attainment.mean for point in result.points])
    module = module_of(folder, "signal_profile")
    shares = []
    wider = [r * f for r in rates for f in (0.97, 1.01)]
    for rate in sorted(wider):
        arrivals = module.arrivals(rate, 100_000, seed=3)
        done = fleet_sim.Fleet(module.fleet_config()).run(arrivals)
        shares.append(done.slo_compliance(module.slo_ms()) * len(done.completed) / len(arrivals))
    theirs = crossing(sorted(wider), shares)
    assert theirs == pytest.approx(ours, rel=0.05), (ours, theirs, shares)


def test_object_is_a_profile_by_fleet_sims_own_check(fleet_sim, tmp_path) -> None:
    """isinstance against its runtime protocol, and the attributes that its DES reads beyond the protocol."""
    export.export("mi300x-published", tmp_path / "fs", export.Price(1.0, "test"))
    for profile in module_of(tmp_path / "fs", "signal_profile").profiles().values():
        assert isinstance(profile, fleet_sim.GpuProfile)
        assert all(hasattr(profile, name) for name in ("chunk", "blk_size", "total_kv_blks", "max_slots"))


def test_two_nodes_take_twice_the_load_of_one(fleet_sim, tmp_path) -> None:
    """At 1.6 times the service rate one node drowns and two keep nearly all within the SLO: n_gpus means nodes."""
    folder, _ = run_and_export(tmp_path, [300.0, 330.0], ["intent"])
    module = module_of(folder, "signal_profile")
    rate = 1.6 / module.profiles()["single-node"].mean_busy_s
    kept = [
        fleet_sim.Fleet(module.fleet_config(n_gpus=n)).run(module.arrivals(rate, 20_000, seed=1)).slo_compliance(50)
        for n in (1, 2)
    ]
    assert kept[0] < 0.1
    assert kept[1] > 0.95


def test_optimizer_sizes_the_fleet_from_our_object(fleet_sim, tmp_path) -> None:
    """At 20 times a node's rate its M/G/c answer is 20 to 30 nodes, keeps the SLO in its check, and costs our price."""
    folder, _ = run_and_export(tmp_path, [300.0, 330.0], ["intent"])
    module = module_of(folder, "signal_profile")
    profile = module.profiles()["single-node"]
    cdf = json.loads((folder / "workload.json").read_text())["cdf"]
    optimizer = fleet_sim.FleetOptimizer(
        gpu_short=profile, gpu_long=profile, B_short=cdf[-1][0], t_slo_ms=module.slo_ms()
    )
    report = optimizer.optimize(cdf, 20 / profile.mean_busy_s, [1.0], n_sim_requests=20_000, verbose=False)
    best = report.best_simulated
    assert best.slo_met
    assert 21 <= best.n_s <= 30
    assert best.n_l == 0
    assert best.cost_per_hr == pytest.approx(best.n_s * 2.59)
    assert best.p99_ttft_short_ms >= 1000 * profile.mean_busy_s


def test_manual_constants_build_fleet_sims_own_class(fleet_sim, tmp_path) -> None:
    """ManualProfile(**json) has one slot at its context and the service time that the fit claims."""
    export.export("mi300x-published", tmp_path / "fs", export.Price(1.0, "test"))
    errors = json.loads((tmp_path / "fs" / "manual_profile.fit.json").read_text())["profiles"]
    for constants in json.loads((tmp_path / "fs" / "manual_profile.json").read_text()):
        profile, stated = fleet_sim.ManualProfile(**constants), errors[constants["name"]]
        assert profile.n_slots(stated["max_ctx"]) == 1
        for point in stated["points"]:
            theirs = profile.service_time(point["tokens"], 1, stated["max_ctx"])
            assert theirs == pytest.approx(point["busy_s"] * (1 + point["service_error"]))


def test_command_line_takes_our_object_once_registered(fleet_sim, tmp_path) -> None:
    """An unknown name is an A100 to its command line; after `register` the name is ours."""
    run_sim = pytest.importorskip("run_sim", reason="fleet-sim's command line is not importable")
    export.export("mi300x-published", tmp_path / "fs", export.Price(1.0, "test"))
    name = "mmbert32k-intent-sdpa_fp16-rocm"
    assert name not in run_sim.GPU_REGISTRY
    module_of(tmp_path / "fs", "signal_profile").register(run_sim.GPU_REGISTRY)
    assert run_sim.GPU_REGISTRY.pop(name).n_slots(8192) == 1


def test_roofline_of_our_gpus_is_the_hand_calculation_and_not_an_a100(fleet_sim, tmp_path) -> None:
    """Llama-3.1-70B, TP 8, fp16: weights over 80 % of bandwidth plus 3 µs a layer; what-if sizes differ from the A100's."""
    hardware.export(["mi300x=2", "mi325x=2", "mi355x=2"], "test", tmp_path / "hw")
    specs = module_of(tmp_path / "hw", "hardware_specs").specs()
    attention = 80 * (2 * 8192 * 8192 + 2 * 8192 * 8 * 128)
    weights = 2 * (128256 * 8192 + attention + 80 * 3 * 8192 * 28672) / 8
    cache_per_token = 2 * 80 * 8 * 128 * 2
    bandwidth = {"mi300x": 5.3e12, "mi325x": 6e12, "mi355x": 8e12}
    memory = {"mi300x": 206_141_652_992, "mi325x": 256 * 2**30, "mi355x": 288 * 2**30}
    builder, config = fleet_sim.ProfileBuilder(), fleet_sim.ServingConfig(tp=8, dtype_bytes=2)
    a100 = builder.build(fleet_sim.A100_SXM, fleet_sim.LLAMA_3_1_70B, config)
    cdf = [(1024, 0.5), (4096, 1.0)]
    for name, spec in specs.items():
        profile = builder.build(spec, fleet_sim.LLAMA_3_1_70B, config)
        assert pytest.approx(weights / (0.8 * bandwidth[name]) + 80 * 3e-6) == profile.W
        assert pytest.approx(config.mean_ctx_tokens * cache_per_token / (0.8 * bandwidth[name]) / 8) == profile.H
        room = int(memory[name] * 0.9) - weights - 411_041_792
        assert profile.total_kv_blks == int(room // (cache_per_token * 16))
        assert profile.cost_per_hr == 16
        ours, theirs = (
            fleet_sim.FleetOptimizer(gpu_short=gpu, gpu_long=gpu, B_short=4096, t_slo_ms=500)
            .sweep_analytical(cdf, 2000.0, [1.0])[0]
            .total_gpus
            for gpu in (profile, a100)
        )
        assert ours < theirs


def test_router_nodes_and_llm_instances_are_planned_on_real_profiles(fleet_sim, tmp_path) -> None:
    """Our node and an MI300X of ours: the cheapest pair keeps 99 % within 200 ms and its price is that of both kinds."""
    run_and_export(tmp_path, [150.0, 250.0], ["intent"])
    hardware.export(["mi300x=2"], "test", tmp_path / "hw")
    spec = module_of(tmp_path / "hw", "hardware_specs").specs()["mi300x"]
    config = fleet_sim.ServingConfig(tp=8, max_slots=64)
    llm = fleet_sim.ProfileBuilder().build(spec, fleet_sim.LLAMA_3_1_70B, config)
    plans = module_of(tmp_path / "fs", "joint_plan").plan(
        llm, llm_max_ctx=8192, rate_rps=500, slo_ms=200, attainment=0.99, requests=4000
    )
    assert {plan.router_nodes for plan in plans} == {2, 4}
    best = plans[0]
    assert best.share >= 0.99
    assert best.cost_per_hr == pytest.approx(best.router_nodes * 2.59 + best.llm_instances * 16)
    slots = best.llm_instances * llm.n_slots(8192)
    assert slots >= 500 * llm.service_time(512, 128, 8192) * 0.95
