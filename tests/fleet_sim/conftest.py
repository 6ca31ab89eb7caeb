"""The real fleet-sim and the router's own files, where they are here; tests say so where they are not.

`SEMANTIC_ROUTER` names a checkout of vllm-project/semantic-router (read at commit 3d48f8c). Without it, fleet-sim is used
if it is installed in this interpreter.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def checkout() -> Path:
    root = os.environ.get("SEMANTIC_ROUTER")
    if not root:
        pytest.skip("the router's own files are not here: set SEMANTIC_ROUTER to a checkout of semantic-router")
    return Path(root)


@pytest.fixture(scope="session")
def fleet_sim() -> ModuleType:
    source = Path(os.environ.get("SEMANTIC_ROUTER", "")) / "src" / "fleet-sim"
    if os.environ.get("SEMANTIC_ROUTER") and str(source) not in sys.path:
        sys.path.insert(0, str(source))
    try:
        return importlib.import_module("fleet_sim")
    except ImportError:
        pytest.skip("fleet-sim is not importable: set SEMANTIC_ROUTER to a checkout of semantic-router, or install it")
