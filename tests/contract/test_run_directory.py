"""The files of a run directory keep their names, columns and schemas."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import factories
import jsonschema
import pytest
import tiny
from pyarrow import parquet

from profiles.document import load_json
from scenarios import loader
from sim.result import Result
from simcap import rundir
from simcap.fleet_sim import whatif
from simcap.table import curve_csv

COLUMNS = (
    "offered_rps,throughput_rps,goodput_rps,"
    "latency_mean_ms,latency_mean_ms_lo,latency_mean_ms_hi,latency_p50_ms,latency_p50_ms_lo,latency_p50_ms_hi,"
    "latency_p90_ms,latency_p90_ms_lo,latency_p90_ms_hi,latency_p95_ms,latency_p95_ms_lo,latency_p95_ms_hi,"
    "latency_p99_ms,latency_p99_ms_lo,latency_p99_ms_hi,slo_attainment,slo_attainment_lo,slo_attainment_hi,"
    "utilisation_device,utilisation_cpu,utilisation_lock,queue_wait_p99_ms,vram_peak_bytes,compile_stall_s,"
    "fallback_fraction,failed_fraction,bottleneck,load_kind,load,verdict,saturated"
)

# fleet-sim's WhatifResult, written out by hand: what its reader requires, and nothing that it does not know.
WHATIF = {
    "type": "object",
    "additionalProperties": False,
    "required": ["points", "slo_break_lam"],
    "properties": {
        "points": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": [
                    "lam",
                    "fleet_p99_ttft_ms",
                    "fleet_slo_compliance",
                    "fleet_mean_utilisation",
                    "annual_cost_kusd",
                ],
                "properties": {
                    "lam": {"type": "number", "exclusiveMinimum": 0},
                    "fleet_p99_ttft_ms": {"type": "number", "exclusiveMinimum": 0},
                    "fleet_slo_compliance": {"type": "number", "minimum": 0, "maximum": 1},
                    "fleet_mean_utilisation": {"type": "number", "minimum": 0, "maximum": 1},
                    "annual_cost_kusd": {"type": "number", "minimum": 0},
                },
            },
        },
        "slo_break_lam": {"type": ["number", "null"]},
    },
}


def make_run(directory: Path, result: Result, **command: Any) -> rundir.Run:
    scenario_file, profile_file = tiny.write(directory)
    asked = rundir.Command(str(scenario_file), str(profile_file), 1, **({"report": False} | command))
    scenario = loader.load(str(scenario_file)).model_copy(update={"profile": str(profile_file)})
    return rundir.Run(asked, scenario, scenario_file, profile_file, result, [(5.0, 0, factories.Records())])


def test_curve_has_exactly_the_columns_that_readers_rely_on() -> None:
    header = curve_csv(factories.result()).decode().splitlines()[0]
    assert header == COLUMNS


def test_curve_holds_the_figures_of_the_result_in_milliseconds_with_nine_digits() -> None:
    result = factories.result()
    rows = list(csv.DictReader(curve_csv(result).decode().splitlines()))
    assert len(rows) == len(result.points)
    for row, point in zip(rows, result.points, strict=True):
        mean = point.latency_s["p95"].mean
        assert mean is not None
        assert row["latency_p95_ms"] == f"{mean * 1000:.9g}"
        assert float(row["utilisation_lock"]) == pytest.approx(point.utilisation["lock:sequence"].mean, rel=1e-8)
        assert float(row["utilisation_device"]) == pytest.approx(point.utilisation["device:gpu"].mean, rel=1e-8)
        assert (row["verdict"], row["saturated"]) == (point.verdict, str(point.saturated).lower())


def test_what_a_run_did_not_model_is_blank_and_not_zero() -> None:
    row = next(csv.DictReader(curve_csv(factories.result()).decode().splitlines()))
    assert (row["vram_peak_bytes"], row["compile_stall_s"], row["fallback_fraction"]) == ("", "", "")
    assert row["failed_fraction"] == "0"


def test_a_run_directory_holds_these_files_and_the_manifest_digests_them(tmp_path: Path) -> None:
    run, target = make_run(tmp_path, factories.result(), requests_parquet=True), tmp_path / "out"
    assert rundir.write(run, target) == []
    manifest = json.loads((target / "manifest.json").read_text())
    files = {str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()} - {"manifest.json"}
    assert files == {
        "result.json",
        "curve.csv",
        "requests.parquet",
        "scenario.resolved.yaml",
        "fleet_sim/capacity_curve.json",
        "fleet_sim/capacity_curve.notes.json",
    }
    assert manifest["schema"] == "simcap.manifest/1"
    assert manifest["outputs"] == {f: hashlib.sha256((target / f).read_bytes()).hexdigest() for f in files}
    assert manifest["inputs"]["scenario"]["sha256"] == hashlib.sha256(run.scenario_file.read_bytes()).hexdigest()
    assert manifest["command"].startswith("simcap run ")


def test_result_json_reads_back_to_an_equal_result(tmp_path: Path) -> None:
    result = factories.result()
    rundir.write(make_run(tmp_path, result), tmp_path / "out")
    assert load_json(tmp_path / "out" / "result.json", Result) == result


def test_the_resolved_scenario_loads_again_and_equals_the_one_that_ran(tmp_path: Path) -> None:
    run = make_run(tmp_path, factories.result())
    rundir.write(run, tmp_path / "out")
    assert loader.load(str(tmp_path / "out" / "scenario.resolved.yaml")) == run.scenario


@pytest.mark.parametrize("name", loader.shipped_names())
def test_every_shipped_scenario_survives_being_resolved(name: str, tmp_path: Path) -> None:
    scenario = loader.load(name)
    path = tmp_path / "scenario.resolved.yaml"
    path.write_text(rundir.scenario_yaml(scenario))
    assert loader.load(str(path)) == scenario


def test_requests_parquet_has_the_columns_of_the_records(tmp_path: Path) -> None:
    rundir.write(make_run(tmp_path, factories.result(), requests_parquet=True), tmp_path / "out")
    table = parquet.read_table(tmp_path / "out" / "requests.parquet")
    assert table.to_pydict() == {
        "load": [5.0, 5.0],
        "replication": [0, 0],
        "arrival_s": [0.1, 0.25],
        "latency_s": [0.05, 0.0625],
    }


def test_same_result_gives_the_same_bytes_except_for_the_time_in_the_manifest(tmp_path: Path) -> None:
    run = make_run(tmp_path, factories.result(), requests_parquet=True)
    first, second = tmp_path / "a", tmp_path / "b"
    rundir.write(run, first)
    rundir.write(run, second)
    for path in (p for p in first.rglob("*") if p.is_file() and p.name != "manifest.json"):
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes()


@pytest.mark.parametrize("cost", [None, 8.5])
def test_the_capacity_curve_is_what_fleet_sim_reads(cost: float | None, tmp_path: Path) -> None:
    result = factories.result()
    rundir.write(make_run(tmp_path, result, cost_per_hour=cost), tmp_path / "out")
    data = json.loads((tmp_path / "out" / "fleet_sim" / "capacity_curve.json").read_text())
    jsonschema.validate(data, WHATIF)
    assert [p["lam"] for p in data["points"]] == [p.load for p in result.points]
    assert data["slo_break_lam"] == result.capacity.hi
    assert {p["annual_cost_kusd"] for p in data["points"]} == {0.0 if cost is None else 8.5 * 8760 / 1000}


def test_an_unknown_cost_is_said_beside_the_curve_and_a_known_one_is_not_called_unknown() -> None:
    unknown = whatif.whatif_notes(factories.result(), None)
    assert any("0 stands for unknown" in note for note in unknown["notes"])
    known = whatif.whatif_notes(factories.result(), 8.5)
    assert not any("unknown" in note for note in known["notes"])
    assert known["points"][0]["fleet_p99_ttft_ms"]["lo"] is not None


def test_a_load_that_is_no_rate_has_no_fleet_sim_curve_and_the_note_says_why(tmp_path: Path) -> None:
    run = make_run(tmp_path, factories.result(kind="burst_size", loads=(1.0, 10.0)))
    notes = rundir.write(run, tmp_path / "out")
    assert not (tmp_path / "out" / "fleet_sim").exists()
    assert len(notes) == 1
    assert "burst_size" in notes[0]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["notes"] == notes
