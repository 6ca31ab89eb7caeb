"""`simcap export fleet-sim`: a directory that a fleet-sim user imports and plans with.

Enters: a run directory or a profile, the price of one GPU-hour with its source. Leaves: `signal_profile.py` and `.json`
(the objects), `manual_profile.json`, `gpu_profile.json` and `manual_profile.fit.json` (the nearest constants and their
error), `register.py` (three lines); from a run also `capacity_curve.json` with `capacity_curve.notes.json` (intervals,
price), `fleet.json`, `workload.json`, and `joint_plan.py` with `signal_latency.json` (router nodes and LLM GPUs together).
`export.json` says from what, with digests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from profiles import store
from profiles.errors import InputError
from scenarios.loader import read_trace
from scenarios.schema import Scenario
from simcap.fleet_sim import folder, latency, lengths, manual, run_source, tables, whatif
from simcap.fleet_sim.signal_profile import SCHEMA as PROFILE_SCHEMA
from simcap.fleet_sim.tables import Progress, Table

SCHEMA = "simcap.fleet-sim-export/1"
MANIFEST = "export.json"
SMALLEST_CONTEXT = 512  # fleet-sim accepts no pool below it

FROM_RUN = """\
import signal_profile, fleet_sim
fleet = fleet_sim.Fleet(signal_profile.fleet_config())
print(fleet.run(signal_profile.arrivals(rate_rps={rate:g}, requests=20000, seed=1)).summary(signal_profile.slo_ms()))
"""
FROM_PROFILE = """\
import run_sim, signal_profile
signal_profile.register(run_sim.GPU_REGISTRY)
print(sorted(run_sim.GPU_REGISTRY))
"""


@dataclass(frozen=True)
class Price:
    """USD for one hour of one GPU (of the whole node where no signal runs on a GPU), and who says so."""

    usd_per_gpu_hour: float
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.usd_per_gpu_hour < float("inf"):
            raise InputError(f"--cost-per-hour {self.usd_per_gpu_hour}: expected USD an hour, zero or more")
        if not self.source.strip():
            raise InputError("--cost-source: say where the price is from (a page, an offer, an assumption of yours)")


def export(source: str, target: Path, price: Price, progress: Progress | None = None) -> list[str]:
    """Write the directory; returns the names of its files. Raises InputError."""
    folder.check(target, MANIFEST, SCHEMA)
    path = Path(source)
    files, made_from = _of_run(path, price, progress) if run_source.is_run(path) else _of_profile(source, price)
    files["signal_profile.py"] = _module("signal_profile.py")
    manifest = {
        "schema": SCHEMA,
        "from": made_from,
        "cost_per_gpu_hour_usd": price.usd_per_gpu_hour,
        "cost_source": price.source,
    }
    folder.write(target, files, manifest, MANIFEST)
    return sorted([*files, MANIFEST])


def _module(name: str) -> bytes:
    return (resources.files("simcap.fleet_sim") / name).read_bytes()


def _of_profile(source: str, price: Price) -> tuple[dict[str, bytes], dict[str, Any]]:
    file, profile = store.locate(source), store.load(source)
    found = tables.of_profile(profile)
    entries = {table.name: _entry(table, float(np.mean(table.busy_s)), price.usd_per_gpu_hour) for table in found}
    files = _profiles(entries, found, price.usd_per_gpu_hour)
    files["register.py"] = FROM_PROFILE.encode()
    return files, {"profile": profile.name, "sha256": folder.digest(file.read_bytes())}


def _of_run(directory: Path, price: Price, progress: Progress | None) -> tuple[dict[str, bytes], dict[str, Any]]:
    run = run_source.read(directory)
    missing = whatif.why_not(run.result)
    if missing is not None:
        raise InputError(f"{directory}: {missing}; run a scenario whose load is rps or rate_scale")
    table = tables.of_run(run.scenario, run.profile, run.seed, progress)
    trace = read_trace(run.scenario)
    points = lengths.workload_points(run.scenario, trace)
    mean = lengths.mean_over(run.scenario, trace, np.array(table.tokens, dtype=float), np.array(table.busy_s))
    node_cost = price.usd_per_gpu_hour * _gpus(run.scenario)
    extra = {"slo": _slo(run.scenario, table)}
    files = _profiles({table.name: _entry(table, mean, node_cost)}, [table], node_cost, extra)
    fleet_cost = node_cost * run.scenario.replicas.count
    notes = whatif.whatif_notes(run.result, fleet_cost)
    files |= {
        "capacity_curve.json": folder.json_bytes(whatif.whatif(run.result, fleet_cost)),
        "capacity_curve.notes.json": folder.json_bytes({**notes, "cost_source": price.source}),
        "signal_latency.json": folder.json_bytes(latency.document(run.result, run.scenario.replicas.count, node_cost)),
        "joint_plan.py": _module("joint_plan.py"),
        "fleet.json": folder.json_bytes(_fleet(run.scenario, table, points)),
        "workload.json": folder.json_bytes({"cdf": [[t, f] for t, f in points], "prompt_share": lengths.PROMPT_SHARE}),
        "register.py": FROM_RUN.format(rate=_rate(run)).encode(),
    }
    made_from = {
        "run": run.manifest["run"],
        "seed": run.seed,
        "inputs": {name: item["sha256"] for name, item in sorted(run.manifest["inputs"].items())},
        "result": run.manifest["outputs"]["result.json"],
    }
    return files, made_from


def _rate(run: run_source.RunSource) -> float:
    """A load to show: the highest that kept the SLO, else the lowest tried."""
    kept = [point for point in run.result.points if point.load == run.result.capacity.lo]
    return whatif.rate_of((kept or run.result.points)[0])


def _gpus(scenario: Scenario) -> int:
    """GPUs that a node pays for; a node without any signal on a GPU is paid as one."""
    on_gpu = any(choice.device == "gpu" for signal in scenario.signals.values() for choice in signal.choices)
    return scenario.node.gpus if on_gpu else 1


def _slo(scenario: Scenario, table: Table) -> dict[str, float]:
    """What of the SLO is left for the part of the latency that fleet-sim sees: the rest is taken off at its largest."""
    outside = max(max(a - b, 0.0) for a, b in zip(table.alone_s, table.busy_s, strict=True))
    left = scenario.slo.latency_s - outside
    if left <= 0:
        raise InputError(
            f"scenario {scenario.name}: an idle node alone takes {outside * 1000:.1f} ms beyond the slot that fleet-sim "
            f"sees, more than the SLO of {scenario.slo.latency_ms:g} ms; there is no capacity to export"
        )
    return {
        "latency_ms": scenario.slo.latency_ms,
        "attainment": scenario.slo.attainment,
        "outside_ms": outside * 1000,
        "fleet_sim_ms": left * 1000,
    }


def _fleet(scenario: Scenario, table: Table, points: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """fleet-sim's fleet in both of its spellings (`id` for its files, `pool_id` for its HTTP interface)."""
    pool = {
        "id": "router",
        "pool_id": "router",
        "gpu": table.name,
        "n_gpus": scenario.replicas.count,
        "max_ctx": max(points[-1][0], SMALLEST_CONTEXT),
    }
    return {
        "name": scenario.name,
        "_comment": f"{table.name} is an object in signal_profile.py; fleet-sim's command line takes unknown names for an A100",
        "pools": [pool],
        "router": "least_loaded",
        "workloads": {"router": {"cdf": "workload.json", "lam_frac": 1.0}},
    }


def _entry(table: Table, mean_busy_s: float, cost_per_hr: float) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": table.name,
        "what": table.what,
        "cost_per_hr": cost_per_hr,
        "tokens": list(table.tokens),
        "busy_s": list(table.busy_s),
        "alone_s": list(table.alone_s),
        "mean_busy_s": mean_busy_s,
        "origins": table.origins,
    }
    if table.busy_lo is not None and table.busy_hi is not None:
        entry |= {"busy_s_lo": list(table.busy_lo), "busy_s_hi": list(table.busy_hi)}
    return entry


def _profiles(
    entries: dict[str, dict[str, Any]], found: Sequence[Table], cost: float, extra: dict[str, Any] | None = None
) -> dict[str, bytes]:
    fits = {table.name: manual.nearest(table) for table in found}
    only = len(found) == 1
    exact = [manual.constants(fit, name, cost) for name, fit in fits.items()]
    api = [manual.api_form(fit, name, cost) for name, fit in fits.items()]
    errors = {
        table.name: {
            "max_ctx": fits[table.name].context,
            "largest_service_error": max(map(abs, fits[table.name].service_error)),
            "points": [
                {"tokens": t, "busy_s": b, "service_error": s, "ttft_error": f}
                for t, b, s, f in zip(
                    table.tokens, table.busy_s, fits[table.name].service_error, fits[table.name].ttft_error, strict=True
                )
            ],
        }
        for table in found
    }
    return {
        "signal_profile.json": folder.json_bytes({"schema": PROFILE_SCHEMA, "profiles": entries, **(extra or {})}),
        "manual_profile.json": folder.json_bytes(exact[0] if only else exact),
        "gpu_profile.json": folder.json_bytes(api[0] if only else api),
        "manual_profile.fit.json": folder.json_bytes(
            {"schema": "simcap.manual-profile-fit/1", "l_in_frac": 1.0, "l_out_frac": 0.0, "profiles": errors}
        ),
    }
