"""GPUs of simcap's hardware catalog as fleet-sim hardware. This file is copied into an export and runs there.

Enters: `hardware.json` beside this file (`simcap export fleet-sim-hardware` wrote both). Leaves: `HardwareSpec` objects
by catalog name. Objects, because fleet-sim's command line takes a GPU name that it does not know for an A100.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEMA = "simcap.fleet-sim-hardware/1"


def specs(folder: Path = HERE) -> dict[str, Any]:
    """fleet-sim's `HardwareSpec` for each GPU of the export. ValueError when the file is of another kind or version."""
    from fleet_sim import HardwareSpec

    data = json.loads((folder / "hardware.json").read_text(encoding="utf-8"))
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{folder}: schema is {data.get('schema')!r}, this file reads {SCHEMA!r}")
    return {name: HardwareSpec(**gpu["spec"]) for name, gpu in data["gpus"].items()}
