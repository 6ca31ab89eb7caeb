"""The directory of one run: every file of DESIGN §5, whole or not at all.

Enters: a `Run` (what was asked, what came out) and a target directory. Leaves: the directory, written under a temporary
name beside the target and renamed onto it; on any error, an interrupt included, nothing is left behind. A directory
that is not ours, that holds another run, or that holds files simcap did not write is never replaced. Only
`manifest.json` knows the time: all else depends on inputs and seed alone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from profiles.errors import InputError
from scenarios.arrivals import Trace
from scenarios.schema import Scenario
from sim.calibration import Asked
from sim.result import Result
from simcap.staging import staged

if TYPE_CHECKING:
    from simcap.trace import TraceFile

MANIFEST_SCHEMA = "simcap.manifest/1"
PACKAGES = ("vllm-sr-simcap", "altair", "numpy", "pyarrow", "pydantic", "scipy", "simpy", "vl-convert-python")


class Table(Protocol):
    """Records of one replication that can be written as one table."""

    def to_table(self) -> Mapping[str, Any]:
        """Column name to array, all of one length."""


@dataclass(frozen=True)
class Command:
    """What the user asked for. `profile` is the name or path in force, whether from the flag or from the scenario."""

    scenario: str
    profile: str
    seed: int
    overrides: tuple[str, ...] = ()
    cost_per_hour: float | None = None
    requests_parquet: bool = False
    report: bool = True
    uncertainty: Asked = "full"
    trace: int | None = None  # requests in trace.json

    def line(self) -> str:
        """The command that reproduces every figure, quoted for a shell."""
        parts = ["simcap", "run", self.scenario, "--profile", self.profile, "--seed", str(self.seed)]
        for override in self.overrides:
            parts += ["--set", override]
        if self.cost_per_hour is not None:
            parts += ["--cost-per-hour", f"{self.cost_per_hour:g}"]
        if self.requests_parquet:
            parts.append("--requests-parquet")
        if not self.report:
            parts.append("--no-report")
        if self.uncertainty != "full":
            parts += ["--uncertainty", self.uncertainty]
        if self.trace is not None:
            parts += ["--trace", "--trace-requests", str(self.trace)]
        return shlex.join(parts)


@dataclass(frozen=True)
class Run:
    """A finished run. `scenario`: as run, with overrides, defaults and profile. `*_file`: the files that were read.

    `records`: (load, replication, records) of each replication, empty unless they were asked for. `engine`: which one
    ran, and why; no figure depends on it. `trace`: steps of the first requests, where they were asked for.
    """

    command: Command
    scenario: Scenario
    scenario_file: Path
    profile_file: Path
    result: Result
    records: Sequence[tuple[float, int, Table]] = ()
    engine: tuple[str, str] | None = None
    trace: TraceFile | None = None


def identity(scenario: str, profile: str, command: Command) -> dict[str, Any]:
    """What makes two runs the same question: a second run of it may replace the first."""
    same = {"scenario": scenario, "profile": profile, "seed": command.seed, "overrides": list(command.overrides)}
    return same if command.uncertainty == "full" else same | {"uncertainty": command.uncertainty}


def default_target(scenario: str, profile: str, command: Command) -> Path:
    """`runs/<scenario>-<profile>-seed<seed>`; overrides add a digest, so that variants do not meet in one place."""
    name = f"{scenario}-{profile}-seed{command.seed}" + ("-simulation" if command.uncertainty == "simulation" else "")
    if command.overrides:
        name += "-set" + hashlib.sha256("\n".join(command.overrides).encode()).hexdigest()[:8]
    return Path("runs") / name


def check_target(target: Path, same: Mapping[str, Any]) -> None:
    """InputError unless `target` is free, or holds a run of the question `same` and nothing else."""
    parent = next(p for p in target.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {target}: {parent} is not a directory that can be written to")
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise InputError(f"--out {target}: exists and is not a directory; choose another")
    present = {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir()}
    if not present:
        return
    manifest = _manifest_of(target)
    if manifest is None:
        raise InputError(f"--out {target}: is not a run directory of simcap and not empty; choose another")
    if manifest.get("run") != same:
        raise InputError(
            f"--out {target}: holds another run ({manifest.get('command')}); choose another directory or remove it"
        )
    foreign = sorted(present - set(manifest.get("outputs", {})) - {"manifest.json"})
    if foreign:
        raise InputError(f"--out {target}: holds {foreign[0]}, which simcap did not write; move it away first")


def _manifest_of(directory: Path) -> dict[str, Any] | None:
    try:
        data = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and data.get("schema") == MANIFEST_SCHEMA else None


def write(run: Run, target: Path) -> list[str]:
    """Write the run directory; returns notes about files that this run does not have."""
    same = identity(run.scenario.name, run.result.profile, run.command)
    check_target(target, same)
    with staged(target, lambda: check_target(target, same)) as directory:
        notes = _fill(run, directory)
        _put_json(directory / "manifest.json", _manifest(run, same, directory, notes))
    return notes


def _fill(run: Run, directory: Path) -> list[str]:
    from simcap.fleet_sim import whatif
    from simcap.table import curve_csv

    result = run.result
    (directory / "result.json").write_bytes(result_json(result))
    (directory / "curve.csv").write_bytes(curve_csv(result))
    (directory / "scenario.resolved.yaml").write_text(scenario_yaml(run.scenario), encoding="utf-8")
    if run.command.requests_parquet:
        _put_requests(run, directory / "requests.parquet")
    if run.trace is not None:
        (directory / "trace.json").write_text(run.trace.model_dump_json(by_alias=True, exclude_none=True) + "\n")
    missing = whatif.why_not(result)
    if missing is None:
        (directory / "fleet_sim").mkdir()
        cost = run.command.cost_per_hour
        _put_json(directory / "fleet_sim" / "capacity_curve.json", whatif.whatif(result, cost))
        _put_json(directory / "fleet_sim" / "capacity_curve.notes.json", whatif.whatif_notes(result, cost))
    if run.command.report:
        from simcap.beside import beside
        from simcap.report import page, plots

        with beside(plots.save_all, result, directory / "plots"):
            (directory / "report.html").write_text(page.render(run, versions()), encoding="utf-8")
    return [] if missing is None else [missing]


def result_json(result: Result) -> bytes:
    """`result.json`: all of the result, with every digit."""
    return (json.dumps(result.model_dump(mode="json", by_alias=True), indent=1, allow_nan=False) + "\n").encode()


def scenario_yaml(scenario: Scenario) -> str:
    """The scenario as a file that loads again to an equal scenario."""
    import yaml

    data = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def _put_requests(run: Run, path: Path) -> None:
    """One row a request of every replication, with its load and replication in the first columns."""
    import pyarrow as pa
    from pyarrow import parquet

    if not run.records:
        raise ValueError("requests.parquet was asked for, but the run kept no records")
    tables = []
    for load, replication, records in run.records:
        columns = dict(records.to_table())
        rows = len(next(iter(columns.values())))
        tables.append(pa.table({"load": [load] * rows, "replication": [replication] * rows} | columns))
    whole = pa.concat_tables(tables).replace_schema_metadata({"schema": "simcap.requests/1"})
    parquet.write_table(whole, path)


def _put_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape the figures."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def _manifest(run: Run, same: Mapping[str, Any], directory: Path, notes: list[str]) -> dict[str, Any]:
    outputs = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        "schema": MANIFEST_SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": run.command.line(),
        "seed": run.command.seed,
        "run": dict(same),
        "engine": None if run.engine is None else dict(zip(("ran", "why"), run.engine, strict=True)),
        "versions": versions(),
        "inputs": {
            "scenario": {"path": str(run.scenario_file), "sha256": _digest(run.scenario_file)},
            "profile": {"path": str(run.profile_file), "sha256": _digest(run.profile_file)},
        }
        | _trace_input(run.scenario),
        "outputs": {str(path.relative_to(directory)): _digest(path) for path in outputs},
        "notes": notes,
    }


def _trace_input(scenario: Scenario) -> dict[str, Any]:
    if not isinstance(scenario.arrivals, Trace):
        return {}
    path = Path(scenario.arrivals.path)
    return {"trace": {"path": str(path), "sha256": _digest(path)}}


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
