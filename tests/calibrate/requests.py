"""A small request, to change what a test is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrate.artifacts import parse_own
from calibrate.request import Request
from calibrate.run import Rules
from tests.calibrate.tiny import tiny_file

RULES = Rules(budget_s=2, enough=30, at_least=6, loads=2, target=0.2)


def request_for(folder: Path, **more: Any) -> Request:
    """One tiny classifier on the cpu provider at two lengths, in the folder."""
    fields: dict[str, Any] = {
        "models": [],
        "own": more.pop("own", None) or [parse_own(f"intent={tiny_file(folder)}")],
        "providers": ["cpu"],
        "tokens": [16, 48],
        "batches": [1],
        "threads": 1,
        "rules": RULES,
        "seed": 1,
        "cache": folder / "cache",
        "out": folder / "node.profile.json",
    }
    return Request(**{**fields, **more})
