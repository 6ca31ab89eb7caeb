"""`simcap export fleet-sim-hardware`: GPUs of our catalog as fleet-sim `HardwareSpec` objects.

Enters: catalog names with a price each, and the source of the prices. Leaves: `hardware.json` (arguments of HardwareSpec,
with the origin of every figure), `hardware_specs.py` (builds the objects in fleet-sim's interpreter), `register.py`.
fleet-sim's roofline reads bandwidth, memory, FP16 and FP8 rates, power and price. Its links and its SM version are read by
none of its formulas (commit 3d48f8c) and our catalog has none: they are 0. Its factors for real bandwidth (0.80) and for
overhead a layer (3 µs) were found on NVIDIA GPUs and are left as they are: assumed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from profiles.errors import InputError, nearest
from profiles.hardware import Hardware, Spec, load
from simcap.fleet_sim import folder
from simcap.fleet_sim.export import Price
from simcap.fleet_sim.hardware_specs import SCHEMA

MANIFEST = "export.json"
MANIFEST_SCHEMA = "simcap.fleet-sim-hardware-export/1"
FROM_CATALOG = {
    "mem_bw": "bandwidth_bytes_per_s",
    "mem_capacity": "memory_bytes",
    "fp16_tc_flops": "fp16_dense_flops",
    "power": "board_power_w",
}
NOT_IN_CATALOG = ("nvlink_bw", "inter_node_bw", "pcie_bw", "sm_version")
NO_FP8 = 0.0  # fleet-sim's own word for a GPU without FP8

SNIPPET = """\
from fleet_sim import LLAMA_3_1_70B, ProfileBuilder, ServingConfig
from hardware_specs import specs
print({name: ProfileBuilder().build(spec, LLAMA_3_1_70B, ServingConfig(tp=8)).W for name, spec in specs().items()})
"""


def prices(given: Sequence[str], source: str) -> dict[str, Price]:
    """`mi300x=2.59` as prices by catalog name. Raises InputError."""
    found: dict[str, Price] = {}
    for text in given:
        name, _, amount = text.partition("=")
        try:
            found[name] = Price(float(amount), source)
        except ValueError:
            raise InputError(f"--cost-per-hour {text}: expected GPU=USD, as in mi300x=2.59") from None
    if not found:
        raise InputError("--cost-per-hour GPU=USD is missing: which GPUs, and what an hour of one costs")
    return found


def export(given: Sequence[str], source: str, target: Path) -> list[str]:
    """Write the directory; returns the names of its files. Raises InputError."""
    wanted = prices(given, source)
    catalog = load()
    gpus = {}
    for name, price in wanted.items():
        if name not in catalog.hardware:
            raise InputError(f"unknown hardware {name!r}; {nearest(name, catalog.hardware)}")
        gpus[name] = _gpu(name, catalog.hardware[name], price)
    sources = {key: item.model_dump(mode="json", exclude_none=True) for key, item in catalog.sources.items()}
    named = {figure.get("source") for gpu in gpus.values() for figure in gpu["origins"].values()}
    document = {"schema": SCHEMA, "gpus": gpus, "sources": {k: v for k, v in sources.items() if k in named}}
    files = {
        "hardware.json": folder.json_bytes(document),
        "hardware_specs.py": (resources.files("simcap.fleet_sim") / "hardware_specs.py").read_bytes(),
        "register.py": SNIPPET.encode(),
    }
    manifest = {"schema": MANIFEST_SCHEMA, "cost_source": source, "cost_per_gpu_hour_usd": _usd(wanted)}
    folder.write(target, files, manifest, MANIFEST)
    return sorted([*files, MANIFEST])


def _usd(wanted: dict[str, Price]) -> dict[str, float]:
    return {name: price.usd_per_gpu_hour for name, price in wanted.items()}


def _gpu(name: str, device: Hardware, price: Price) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": device.name}
    origins: dict[str, Any] = {}
    for field, ours in FROM_CATALOG.items():
        figure = getattr(device, ours)
        if device.kind != "gpu" or not isinstance(figure, Spec):
            raise InputError(f"hardware {name}: the catalog has no {ours}, and fleet-sim's roofline needs it")
        spec[field] = int(figure.value) if field == "mem_capacity" else figure.value
        origins[field] = _origin(figure)
    spec["fp8_tc_flops"] = device.fp8_dense_flops.value if device.fp8_dense_flops else NO_FP8
    if device.fp8_dense_flops:
        origins["fp8_tc_flops"] = _origin(device.fp8_dense_flops)
    spec |= dict.fromkeys(NOT_IN_CATALOG, 0)
    spec["cost_per_hr"] = price.usd_per_gpu_hour
    origins["cost_per_hr"] = {"origin": "assumed", "doubt": f"price given by the user: {price.source}"}
    return {
        "spec": spec,
        "origins": origins,
        "not_in_catalog": dict.fromkeys(NOT_IN_CATALOG, "0: not in the catalog, read by no formula of fleet-sim"),
    }


def _origin(figure: Spec) -> dict[str, Any]:
    return figure.model_dump(mode="json", exclude_none=True, exclude={"value", "n", "lo", "hi"})
