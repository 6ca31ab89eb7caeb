"""A run directory read back, with proof that it is whole and that its profile is still the one it was made with.

Enters: a directory that `simcap run` wrote. Leaves: result, scenario, profile. An input or output whose digest is not
the one in `manifest.json` is an InputError: an export of stale figures would carry a wrong origin.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiles import store
from profiles.document import load_json, read_text
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import loader
from scenarios.schema import Scenario
from sim.result import Result
from simcap.rundir import MANIFEST_SCHEMA


@dataclass(frozen=True)
class RunSource:
    directory: Path
    manifest: dict[str, Any]
    result: Result
    scenario: Scenario
    profile: Profile
    seed: int


def is_run(path: Path) -> bool:
    """Whether this is a directory with a manifest, as against a profile."""
    return path.is_dir()


def read(directory: Path) -> RunSource:
    """Read and check a run directory. Raises InputError."""
    manifest = _manifest(directory)
    for name in ("result.json", "scenario.resolved.yaml"):
        _same(directory / name, manifest.get("outputs", {}).get(name), f"{directory}: run it again")
    scenario = loader.load(str(directory / "scenario.resolved.yaml"))
    profile_file = _profile_file(scenario, manifest, directory)
    return RunSource(
        directory=directory,
        manifest=manifest,
        result=load_json(directory / "result.json", Result),
        scenario=scenario,
        profile=store.load(str(profile_file)),
        seed=int(manifest["seed"]),
    )


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / "manifest.json"
    try:
        data = json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if (
        not isinstance(data, dict)
        or data.get("schema") != MANIFEST_SCHEMA
        or "result.json" not in data.get("outputs", {})
    ):
        raise InputError(f"{directory}: is not a run directory of simcap run")
    return data


def _profile_file(scenario: Scenario, manifest: dict[str, Any], directory: Path) -> Path:
    if scenario.profile is None:
        raise InputError(f"{directory}: scenario.resolved.yaml names no profile; run it again")
    recorded = manifest.get("inputs", {}).get("profile", {})
    shipped = store.SHIPPED / f"{scenario.profile}.profile.json"
    path = shipped if scenario.profile in store.shipped_names() else Path(recorded.get("path", scenario.profile))
    _same(path, recorded.get("sha256"), f"{directory}: run it again with the profile as it is now")
    return path


def _same(path: Path, digest: str | None, cure: str) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such file, and the run was made with it; {cure}")
    if digest is None or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise InputError(f"{path}: is not the file that the run was made with (its digest differs); {cure}")
