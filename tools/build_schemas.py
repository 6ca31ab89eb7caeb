"""Write the JSON Schemas of our file formats to docs/reference/schema/.

Usage: python tools/build_schemas.py [--out DIR]. tests/contract/test_schemas.py compares what stands there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import BaseModel

from calibrate.plan_file import PlanFile
from profiles.json_schema import dumps
from profiles.schema import Profile
from profiles.store import write_whole
from scenarios.schema import Scenario
from sim.result import Result
from simcap.comparison import Comparison
from simcap.performance.model import Performance
from simcap.strategy.model import Strategy
from simcap.trace import TraceFile
from simcap.validate.record import Validation
from simcap.whatif.study import WhatIf

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference" / "schema"
FORMATS: dict[str, type[BaseModel]] = {
    "profile": Profile,
    "scenario": Scenario,
    "result": Result,
    "comparison": Comparison,
    "validation": Validation,
    "whatif": WhatIf,
    "strategy": Strategy,
    "performance": Performance,
    "plan": PlanFile,
    "trace": TraceFile,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the JSON Schemas of our file formats.")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder to write to")
    out: Path = parser.parse_args().out
    for name, model in FORMATS.items():
        write_whole(out / f"{name}.schema.json", dumps(model).encode())
        print(f"wrote {out / name}.schema.json")


if __name__ == "__main__":
    main()
