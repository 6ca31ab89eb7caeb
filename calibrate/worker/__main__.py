"""Start of the worker: `python -I <this directory>`; a job as JSON on standard input, results on a descriptor of their own.

Isolated mode hides our packages on purpose, so this file loads its own directory as the package `simcap_worker`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path


def _main() -> int:
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "simcap_worker", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"the worker's directory {here} cannot be loaded")
    package = importlib.util.module_from_spec(spec)
    sys.modules["simcap_worker"] = package
    spec.loader.exec_module(package)
    code: int = importlib.import_module("simcap_worker.serve").main()
    return code


if __name__ == "__main__":
    sys.exit(_main())
