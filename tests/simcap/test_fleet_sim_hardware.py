"""`simcap export fleet-sim-hardware`: GPUs of the catalog as arguments of fleet-sim's HardwareSpec."""

from __future__ import annotations

import json

import pytest

from profiles.errors import InputError
from profiles.hardware import hardware as of_catalog
from simcap.fleet_sim import hardware

ARGUMENTS = {
    *("name", "mem_bw", "mem_capacity", "fp16_tc_flops", "fp8_tc_flops", "nvlink_bw", "inter_node_bw", "pcie_bw"),
    *("sm_version", "power", "cost_per_hr"),
}


def test_each_gpu_has_the_required_arguments(tmp_path) -> None:
    """Names and units of HardwareSpec; figures of the catalog; the price as given."""
    hardware.export(["mi300x=2.59", "mi325x=1.95", "mi355x=4"], "list", tmp_path / "hw")
    gpus = json.loads((tmp_path / "hw" / "hardware.json").read_text())["gpus"]
    assert set(gpus) == {"mi300x", "mi325x", "mi355x"}
    for name, gpu in gpus.items():
        assert set(gpu["spec"]) == ARGUMENTS
        assert gpu["spec"]["mem_bw"] == of_catalog(name).bandwidth_bytes_per_s.value
        assert isinstance(gpu["spec"]["mem_capacity"], int)
    assert gpus["mi300x"]["spec"]["cost_per_hr"] == 2.59


def test_origin_and_doubt_travel_with_every_figure(tmp_path) -> None:
    """The MI355X rate that nobody confirmed says so; each source that is named is listed."""
    hardware.export(["mi355x=4"], "list", tmp_path / "hw")
    data = json.loads((tmp_path / "hw" / "hardware.json").read_text())
    origins = data["gpus"]["mi355x"]["origins"]
    assert origins["fp16_tc_flops"]["origin"] == "assumed"
    assert "confirm" in origins["fp16_tc_flops"]["doubt"]
    assert {o["source"] for o in origins.values() if "source" in o} == set(data["sources"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["mi300=2"], "did you mean 'mi300x'"),
        (["mi300x"], "expected GPU=USD"),
        (["mi300x=-1"], "zero or more"),
        (["cpu=1"], "catalog has no"),
    ],
)
def test_wrong_gpus_and_prices_are_refused_by_name(given, said, tmp_path) -> None:
    """An unknown GPU, a missing or negative price, a device without the figures: an error and no directory."""
    with pytest.raises(InputError, match=said):
        hardware.export(given, "list", tmp_path / "hw")
    assert not (tmp_path / "hw").exists()
