"""`simcap export fleet-sim`: every file has the form that fleet-sim reads, written out here by hand."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tiny

from profiles import store
from profiles.errors import InputError
from simcap.cli import main
from simcap.fleet_sim import export, manual, tables

PRICE = ["--cost-per-hour", "2.5", "--cost-source", "an offer"]


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    scenario, profile = tiny.write(folder)
    call("run", str(scenario), "--profile", str(profile), "--out", str(folder / "run"), "--no-report", "--quiet")
    return folder / "run"


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("export") / "fs"
    assert call("export", "fleet-sim", str(run), "--out", str(target), *PRICE) == 0
    return target


def load_module(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("exported_signal_profile", folder / "signal_profile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def test_manual_profile_has_the_arguments_of_fleet_sims_class(exported) -> None:
    """Exactly the names W, H, … with whole numbers where fleet-sim counts."""
    data = read(exported, "manual_profile.json")
    names = {"name", "W", "H", "chunk", "blk_size", "total_kv_blks", "max_slots", "cost_per_hr", "calibration_ctx"}
    assert set(data) == names
    assert all(isinstance(data[key], int) for key in ("chunk", "blk_size", "total_kv_blks", "max_slots"))
    assert data["W"] >= 0
    assert data["H"] >= 0
    assert data["W"] + data["H"] > 0


def test_gpu_profile_has_the_fields_of_its_http_interface(exported) -> None:
    """The eight fields of GpuProfileOut, in milliseconds, equal to the constants in seconds."""
    data, seconds = read(exported, "gpu_profile.json"), read(exported, "manual_profile.json")
    assert set(data) == {
        *("name", "W_ms", "H_ms_per_slot", "chunk", "blk_size", "total_kv_blks", "max_slots", "cost_per_hr")
    }
    assert data["W_ms"] == pytest.approx(1000 * seconds["W"])


def test_curve_has_the_fields_of_a_what_if_result(exported, run) -> None:
    """Five numbers a point, one point a load, the price of the node for a year, the break where ours fails."""
    data, result = read(exported, "capacity_curve.json"), read(run, "result.json")
    assert set(data) == {"points", "slo_break_lam"}
    fields = {"lam", "fleet_p99_ttft_ms", "fleet_slo_compliance", "fleet_mean_utilisation", "annual_cost_kusd"}
    assert all(set(point) == fields for point in data["points"])
    assert [point["lam"] for point in data["points"]] == [point["load"] for point in result["points"]]
    assert data["points"][0]["annual_cost_kusd"] == pytest.approx(2.5 * 8760 / 1000)
    assert data["slo_break_lam"] == result["capacity"]["hi"]


def test_intervals_and_price_source_stand_beside_the_curve(exported) -> None:
    """The sidecar has lo and hi of each point and says who named the price."""
    notes = read(exported, "capacity_curve.notes.json")
    assert notes["cost_source"] == "an offer"
    p99 = notes["points"][0]["fleet_p99_ttft_ms"]
    assert p99["lo"] <= p99["mean"] <= p99["hi"]


def test_fleet_file_speaks_both_of_fleet_sims_spellings(exported) -> None:
    """`id` and `pool_id` name one pool of at least one GPU and 512 tokens, whose workload is the file beside it."""
    data = read(exported, "fleet.json")
    (pool,) = data["pools"]
    assert pool["id"] == pool["pool_id"] == "router"
    assert isinstance(pool["n_gpus"], int)
    assert pool["n_gpus"] >= 1
    assert pool["max_ctx"] >= 512
    assert data["router"] == "least_loaded"
    assert data["workloads"] == {"router": {"cdf": "workload.json", "lam_frac": 1.0}}
    assert pool["gpu"] in read(exported, "signal_profile.json")["profiles"]


def test_workload_ends_at_one(exported) -> None:
    """[[tokens, fraction], …] with whole tokens; 128-token prompts are lengths of 160."""
    points = read(exported, "workload.json")["cdf"]
    assert points == [[159, 0.0], [160, 1.0]]


def test_object_needs_neither_simcap_nor_fleet_sim(exported) -> None:
    """A bare interpreter with numpy imports the file and gets a time from it."""
    code = (
        "import sys; sys.modules.update(simcap=None, profiles=None, scenarios=None, sim=None, fleet_sim=None)\n"
        "import signal_profile\n"
        "(profile,) = signal_profile.profiles().values()\n"
        "print(profile.service_time(128, 32, 4096))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=exported, capture_output=True, text=True, check=True)
    assert float(done.stdout) > 0


def test_object_answers_from_the_table(exported) -> None:
    """At a length of the table the service time is the table's; one slot; no decode; l_out does not count."""
    module, table = load_module(exported), read(exported, "signal_profile.json")["profiles"]["tiny-node"]
    profile = module.profiles()["tiny-node"]
    tokens, busy = table["tokens"][0], table["busy_s"][0]
    assert profile.service_time(tokens, 1, 4096) == pytest.approx(busy)
    assert profile.service_time(tokens, 900, 4096) == profile.service_time(tokens, 1, 4096)
    assert profile.prefill_iter_latency(profile.chunk, tokens / 2, 1, float(tokens)) == pytest.approx(busy)
    assert profile.iter_latency(1, 100.0) == 0.0
    assert profile.iter_latency(1) == pytest.approx(table["mean_busy_s"])
    assert profile.n_slots(100_000) == 1
    assert profile.throughput(4096, tokens, 1) == pytest.approx(1 / busy)


def test_object_refuses_lengths_outside_its_table(exported) -> None:
    """Two tokens beyond either end is a ValueError that names the range; one token is fleet-sim's rounding."""
    profile = load_module(exported).profiles()["tiny-node"]
    assert profile.busy_s(129) == profile.busy_s(128) == profile.busy_s(127)
    for tokens in (126, 130):
        with pytest.raises(ValueError, match="outside the exported range of 128 to 128"):
            profile.busy_s(tokens)


def test_table_of_a_node_is_the_mean_of_its_only_law(exported) -> None:
    """One signal behind one lock: a full node needs the law's mean a request, an idle one that and the router CPU."""
    table = read(exported, "signal_profile.json")["profiles"]["tiny-node"]
    median = np.exp(np.interp(np.log(128), np.log([64, 256]), np.log([0.004, 0.012])))
    mean = median * (0.5 * (0.8 + 1) / 2 + 0.5 * (1 + 1.3) / 2)
    assert table["busy_s_lo"][0] <= mean <= table["busy_s_hi"][0]
    assert table["alone_s"][0] == pytest.approx(mean + 0.001, rel=0.02)


def test_slo_for_fleet_sim_leaves_out_what_it_cannot_see(exported) -> None:
    """100 ms less the millisecond of router CPU."""
    data = read(exported, "signal_profile.json")["slo"]
    assert data["fleet_sim_ms"] == pytest.approx(99.0, abs=0.3)
    assert data["fleet_sim_ms"] + data["outside_ms"] == pytest.approx(data["latency_ms"])


def test_same_run_gives_the_same_bytes(exported, run, tmp_path) -> None:
    """A second export differs in no byte."""
    call("export", "fleet-sim", str(run), "--out", str(tmp_path / "again"), *PRICE)
    names = sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (exported / name).read_bytes(), name


def test_profile_exports_a_session_for_each_entry(tmp_path) -> None:
    """The shipped profile gives one object an entry with service times, of the mean of its law."""
    export.export("mi300x-published", tmp_path / "fs", export.Price(2.0, "test"))
    data = read(tmp_path / "fs", "signal_profile.json")["profiles"]
    profile = store.load("mi300x-published")
    assert len(data) == sum(entry.service is not None for entry in profile.entries)
    entry = profile.entry("mmbert32k-intent", "sdpa_fp16", "rocm")
    cell = next(cell for cell in entry.service.cells if cell.tokens == 2048)
    table = data["mmbert32k-intent-sdpa_fp16-rocm"]
    assert table["busy_s"][table["tokens"].index(2048)] == pytest.approx(cell.law().mean)


def test_manual_fit_states_its_error_at_every_length(tmp_path) -> None:
    """fleet-sim's formula, worked out here from the constants, is off by exactly the error that the sidecar states."""
    table = tables.of_profile(store.load("mi300x-published"))[0]
    fit = manual.nearest(table)
    for tokens, busy, stated in zip(table.tokens, table.busy_s, fit.service_error, strict=True):
        iterations = -(-tokens // fit.chunk) + 1
        theirs = iterations * (fit.w_s + fit.h_s * (tokens + 1) / fit.context)
        assert theirs / busy - 1 == pytest.approx(stated, abs=1e-9)
    assert max(map(abs, fit.service_error)) < 0.25


def test_price_and_its_source_are_required(run, tmp_path, capsys) -> None:
    """Without either, exit code 2 and the flag by name; nothing is written."""
    assert call("export", "fleet-sim", str(run), "--out", str(tmp_path / "x")) == 2
    assert "--cost-per-hour" in capsys.readouterr().err
    assert call("export", "fleet-sim", str(run), "--out", str(tmp_path / "x"), *PRICE[:2]) == 2
    assert "--cost-source" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_run_whose_profile_changed_is_stale(tmp_path, capsys) -> None:
    """The profile of the run is edited afterwards: exit code 2, the file by name, no export."""
    scenario, profile = tiny.write(tmp_path)
    call("run", str(scenario), "--profile", str(profile), "--out", str(tmp_path / "run"), "--no-report", "--quiet")
    profile.write_text(profile.read_text().replace("two cells", "2 cells"))
    assert call("export", "fleet-sim", str(tmp_path / "run"), "--out", str(tmp_path / "fs"), *PRICE) == 2
    assert "digest differs" in capsys.readouterr().err
    assert not (tmp_path / "fs").exists()


def test_foreign_files_are_not_replaced(exported, run, tmp_path) -> None:
    """A directory with a file of the user's is refused and left alone."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(InputError, match="did not write"):
        export.export(str(run), tmp_path / "mine", export.Price(1.0, "test"))
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_trace_comes_through_import_run_and_export_with_its_counts_and_rate(tmp_path) -> None:
    """fleet-sim's trace in, simcap run, export out: each prompt length with its share, the curve at the trace's own rates."""
    scenario, profile = tiny.write(tmp_path)
    rows = "\n".join(f"{k * 0.05:.2f},{(100, 200, 200)[k % 3]},7" for k in range(300))
    (tmp_path / "log.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}\n")
    made, run = tmp_path / "made.yaml", tmp_path / "run"
    names = ["--base", str(scenario), "--rate-scale", "1,2", "--out", str(made)]
    assert call("import", "fleet-sim", str(tmp_path / "log.csv"), *names) == 0
    given = ["--profile", str(profile), "--out", str(run), "--no-report", "--quiet"]
    assert call("run", str(made), *given) == 0
    assert call("export", "fleet-sim", str(run), "--out", str(tmp_path / "fs"), *PRICE) == 0
    points = read(tmp_path / "fs", "workload.json")["cdf"]
    assert points == [[124, 0.0], [125, pytest.approx(1 / 3)], [249, pytest.approx(1 / 3)], [250, 1.0]]
    lam = [point["lam"] for point in read(tmp_path / "fs", "capacity_curve.json")["points"]]
    assert lam == [pytest.approx(20.0), pytest.approx(40.0)]
    assert any(
        "mean rate of the replayed trace" in n for n in read(tmp_path / "fs", "capacity_curve.notes.json")["notes"]
    )
