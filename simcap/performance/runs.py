"""The finished runs that a performance report is made from.

Enters: run directories that `simcap run` wrote. Leaves: `Finished` runs and the one profile they share, or an `InputError`
that names the directory and what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from profiles import store
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import loader
from scenarios.schema import Scenario
from scenarios.workload import FromTrace
from sim.result import Result
from simcap.validate.record import digest

Kind = Literal["high concurrency", "long context", "co-resident models"]
KINDS: tuple[Kind, ...] = ("high concurrency", "long context", "co-resident models")

LONG_TOKENS = 2048
MANY_SIGNALS = 5


@dataclass(frozen=True)
class Finished:
    """One run. `command`: the line that gives it again."""

    directory: Path
    result: Result
    scenario: Scenario
    command: str

    @property
    def kind(self) -> Kind:
        """Co-resident with another tenant or from MANY_SIGNALS signals on; else long context above LONG_TOKENS tokens."""
        scenario = self.scenario
        if scenario.node.co_tenants or len(scenario.signals) >= MANY_SIGNALS:
            return "co-resident models"
        return "long context" if self.longest > LONG_TOKENS else "high concurrency"

    @property
    def longest(self) -> int:
        """Tokens of the longest inference that its classes can lead to."""
        laws = [kind.tokens for kind in self.scenario.classes.values() if not isinstance(kind.tokens, FromTrace)]
        most = max((law.support[1] for law in laws), default=0)
        return max(signal.processed_range(most, most)[1] for signal in self.scenario.signals.values()) if most else 0

    def load(self, overrides: Sequence[str]) -> Scenario:
        """The scenario as it ran, with further overrides."""
        return loader.load(str(self.directory / "scenario.resolved.yaml"), overrides)


def read(directories: Sequence[Path]) -> tuple[list[Finished], Profile, Path]:
    """The runs, their profile and its file."""
    runs = [_one(directory) for directory in directories]
    files = {}
    for run, directory in zip(runs, directories, strict=True):
        files[_profile_of(directory, run)] = directory
    first, *others = files
    if others:
        raise InputError(
            f"{files[others[0]]} ran on profile {others[0].name}, {files[first]} on {first.name}: "
            "a performance report is about one profile"
        )
    names = [run.result.scenario for run in runs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two runs are of scenario {twice.pop()}: give one of each")
    return runs, store.load(str(first)), first


def _one(directory: Path) -> Finished:
    manifest = _manifest(directory)
    for name in ("result.json", "scenario.resolved.yaml"):
        if not (directory / name).is_file():
            raise InputError(f"{directory}: holds no {name}; give a directory that simcap run wrote")
    try:
        result = Result.model_validate_json((directory / "result.json").read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the file"
        raise InputError(f"{directory / 'result.json'}: is no simcap.result/1 ({where}: {problem['msg']})") from None
    scenario = loader.load(str(directory / "scenario.resolved.yaml"))
    return Finished(directory, result, scenario, str(manifest.get("command", "")))


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / "manifest.json"
    if not path.is_file():
        raise InputError(f"{directory}: holds no manifest.json; give a directory that simcap run wrote")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: is no JSON ({error})") from None
    return data if isinstance(data, dict) else {}


def _profile_of(directory: Path, run: Finished) -> Path:
    """The file that the run used: by name or path as it ran, and only if its bytes are the same."""
    said = _manifest(directory).get("inputs", {}).get("profile", {})
    name = run.scenario.profile or run.result.profile
    for candidate in (name, str(said.get("path", ""))):
        try:
            file = store.locate(candidate)
        except InputError:
            continue
        if digest(file) != said.get("sha256"):
            raise InputError(f"{directory}: profile {candidate} has changed since the run; run it again")
        return file
    raise InputError(f"{directory}: its profile {name} is not here any more; run it again")
