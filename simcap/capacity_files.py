"""The directory that `simcap capacity --out` writes: `capacity.json`, `scenario.resolved.yaml`, `manifest.json`.

Enters: what was asked, and the answer. Leaves: the directory; each file whole or not at all, the manifest last. The same
guard as for runs: a directory that is not ours, or that holds another question, is never written to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from profiles.store import write_whole
from scenarios.schema import Scenario
from sim.search_result import CapacitySearch
from simcap import rundir


class Target:
    """A directory to write to, checked before anything runs. `command`: the command line that asks the same again.

    `asked`: what makes two searches the same question, beside scenario, profile, seed and overrides. `files`: those that
    were read, scenario and profile.
    """

    def __init__(
        self,
        directory: Path,
        scenario: Scenario,
        profile: str,
        seed: int,
        overrides: Sequence[str],
        command: str,
        asked: Mapping[str, Any],
        files: tuple[Path, Path],
    ) -> None:
        self._directory, self._scenario, self._files = directory, scenario, files
        self._seed, self._command = seed, command
        self._same = {
            "search": "capacity",
            "scenario": scenario.name,
            "profile": profile,
            "seed": seed,
            "overrides": list(overrides),
            **asked,
        }
        rundir.check_target(directory, self._same)

    def write(self, result: CapacitySearch) -> None:
        """Write the three files."""
        outputs = {
            "capacity.json": (result.model_dump_json(by_alias=True, indent=1) + "\n").encode(),
            "scenario.resolved.yaml": rundir.scenario_yaml(self._scenario).encode(),
        }
        manifest = {
            "schema": rundir.MANIFEST_SCHEMA,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": self._seed,
            "command": self._command,
            "run": self._same,
            "versions": rundir.versions(),
            "inputs": {
                name: {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
                for name, path in zip(("scenario", "profile"), self._files, strict=True)
            },
            "outputs": {name: hashlib.sha256(content).hexdigest() for name, content in outputs.items()},
        }
        rundir.check_target(self._directory, self._same)
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, content in outputs.items():
            write_whole(self._directory / name, content)
        write_whole(self._directory / "manifest.json", (json.dumps(manifest, indent=1) + "\n").encode())
