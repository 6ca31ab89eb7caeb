"""The hardware catalog: complete, sourced, and honest about what is doubtful."""

import pytest

from profiles import hardware
from profiles.errors import InputError

FIGURES = (
    "compute_units",
    "memory_bytes",
    "bandwidth_bytes_per_s",
    "fp16_dense_flops",
    "fp8_dense_flops",
    "board_power_w",
)


def test_it_knows_the_devices_that_the_design_names() -> None:
    """Every device that a user may name for calibration or an export is there."""
    assert list(hardware.catalog()) == ["mi210", "mi250x", "mi300x", "mi325x", "mi355x", "h100", "h200", "cpu"]


@pytest.mark.parametrize("name", ["mi210", "mi250x", "mi300x", "mi325x", "mi355x", "h100", "h200"])
def test_each_gpu_has_its_figures(name: str) -> None:
    """A GPU lacks a figure only where the device lacks the thing: CDNA2 has no FP8."""
    device = hardware.hardware(name)
    absent = [figure for figure in FIGURES if getattr(device, figure) is None]
    assert absent == (["fp8_dense_flops"] if device.architecture == "CDNA2" else [])


def test_figures_from_memory_are_marked() -> None:
    """Nothing of trust D passes as published, and each says what to confirm."""
    for device in hardware.catalog().values():
        for name in FIGURES:
            figure = getattr(device, name)
            if figure is not None and figure.trust == "D":
                assert figure.origin == "assumed"
                assert "confirm" in (figure.doubt or "")


def test_fp16_of_mi300x_is_the_dense_figure() -> None:
    """Several pages print the FP8 figure of MI300X as FP16; the catalog holds 1307.4 TFLOPS."""
    figure = hardware.hardware("mi300x").fp16_dense_flops
    assert figure is not None
    assert figure.value == 1307.4e12


def test_partitions_of_mi300x_share_out_its_dies() -> None:
    """Devices times dies a device is 8 XCDs in every mode, and 38 compute units go with each."""
    device = hardware.hardware("mi300x")
    assert [p.mode for p in device.partitions] == ["SPX", "DPX", "QPX", "CPX"]
    for partition in device.partitions:
        assert partition.devices * partition.dies_per_device == device.dies
        assert partition.compute_units_per_device == 38 * partition.dies_per_device


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    """A typing error ends in the name that was meant."""
    with pytest.raises(InputError, match="did you mean 'mi300x'"):
        hardware.hardware("mi30x")
