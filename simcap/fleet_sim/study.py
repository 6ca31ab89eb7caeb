"""`simcap study`: a run with all that it was made from, so that another person gets the same bytes.

Enters: a run directory. Leaves: `inputs/` (scenario, profile, trace), `results/` (the run's files), and `study.json`: the
workload, serving profile and topology by name and digest, numbers counted by origin (measured, published, modeled, assumed
kept apart), versions. `check` reads a study, refuses changed or missing files by name, runs it again and compares bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiles import store
from profiles.document import read_text
from profiles.errors import FindingError, InputError
from scenarios import loader
from scenarios.arrivals import Trace
from scenarios.schema import Scenario
from sim import replicate
from simcap import rundir
from simcap.fleet_sim import folder, run_source
from simcap.table import curve_csv

SCHEMA = "simcap.study/1"
MANIFEST = "study.json"
SCENARIO, PROFILE, TRACE = "inputs/scenario.yaml", "inputs/profile.json", "inputs/trace"
REPRODUCED = ("result.json", "curve.csv")

Progress = Callable[[int, int], None]


def make(directory: Path, target: Path) -> list[str]:
    """Bundle a run; returns the names of the files. Raises InputError for a run that is stale or not whole."""
    run = run_source.read(directory)
    files = {PROFILE: _profile_file(run).read_bytes()}
    trace = run.scenario.arrivals.path if isinstance(run.scenario.arrivals, Trace) else None
    scenario = run.scenario.model_copy(update={"profile": None})
    if trace is not None:
        files[TRACE] = _same_trace(run, Path(trace))
        scenario = _with_trace(scenario, "trace")
    files[SCENARIO] = rundir.scenario_yaml(scenario).encode()
    for name in sorted(run.manifest["outputs"]):
        files[f"results/{name}"] = (directory / name).read_bytes()
    for name, content in files.items():
        if name.startswith("results/") and folder.digest(content) != run.manifest["outputs"][name.partition("/")[2]]:
            raise InputError(f"{directory / name.partition('/')[2]}: was changed after the run; run it again")
    folder.write(target, files, _manifest(run, files, trace), MANIFEST)
    return sorted([*files, MANIFEST])


def _profile_file(run: run_source.RunSource) -> Path:
    recorded = Path(run.manifest["inputs"]["profile"]["path"])
    return recorded if recorded.is_file() else store.locate(str(run.scenario.profile))


def _same_trace(run: run_source.RunSource, path: Path) -> bytes:
    content = path.read_bytes() if path.is_file() else b""
    if folder.digest(content) != run.manifest["inputs"]["trace"]["sha256"]:
        raise InputError(f"{path}: is not the trace that the run was made with; run it again")
    return content


def _with_trace(scenario: Scenario, path: str) -> Scenario:
    if not isinstance(scenario.arrivals, Trace):
        raise ValueError("a scenario without a trace")
    return scenario.model_copy(update={"arrivals": scenario.arrivals.model_copy(update={"path": path})})


def _manifest(run: run_source.RunSource, files: dict[str, bytes], trace: str | None) -> dict[str, Any]:
    node, replicas = run.scenario.node, run.scenario.replicas
    return {
        "schema": SCHEMA,
        "question": run.result.question,
        "answer": run.result.capacity.sentence,
        "seed": run.seed,
        "uncertainty": run.result.uncertainty.asked if run.result.uncertainty else "simulation",
        "workload": {
            "classes": sorted(run.scenario.classes),
            "arrivals": run.scenario.arrivals.process,
            "sha256": folder.digest(files.get(TRACE, files[SCENARIO])),
            "trace_path": trace,
        },
        "serving_profile": {
            "name": run.profile.name,
            "created": run.profile.created,
            "sha256": folder.digest(files[PROFILE]),
            "numbers_by_origin": run.result.profile_origins,
        },
        "topology": {
            "replicas": replicas.count,
            "balancer": replicas.balancer,
            "gpus": node.gpus,
            "partition": node.partition,
            "cpu_workers": node.cpu_workers,
            "signals": sorted(run.scenario.signals),
            "lock_domains": sorted(run.scenario.lock_domains),
        },
        "inputs": [item.model_dump(mode="json", exclude_none=True) for item in run.result.inputs],
        "versions": run.manifest["versions"],
    }


def check(target: Path, progress: Progress | None = None) -> list[str]:
    """Run a study again; returns what was compared. InputError: not a whole study. FindingError: other bytes came out."""
    manifest = _read(target)
    scenario = loader.load(str(target / SCENARIO))
    profile, asked = store.load(str(target / PROFILE)), manifest.get("uncertainty", "simulation")
    result, _ = replicate.run(scenario, profile, int(manifest["seed"]), progress=progress, uncertainty=asked)
    made = {"result.json": rundir.result_json(result), "curve.csv": curve_csv(result)}
    recorded = manifest["workload"]["trace_path"]
    if recorded is not None and isinstance(scenario.arrivals, Trace):
        here, there = (json.dumps(path)[1:-1].encode() for path in (scenario.arrivals.path, recorded))
        made["result.json"] = made["result.json"].replace(here, there)  # a note names the file that was read
    different = [name for name in REPRODUCED if made[name] != (target / "results" / name).read_bytes()]
    if different:
        changed = {
            name: f"{then} then, {now} now"
            for name, now in rundir.versions().items()
            if (then := manifest["versions"].get(name)) != now
        }
        why = (
            "; ".join(f"{name}: {text}" for name, text in changed.items())
            or "the versions of all packages are the same"
        )
        raise FindingError(f"{target}: {', '.join(different)} came out different ({why})")
    return [f"results/{name}" for name in REPRODUCED]


def _read(target: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(read_text(target / MANIFEST))
    except ValueError as error:
        raise InputError(f"{target / MANIFEST}: not JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise InputError(f"{target}: is not a study ({MANIFEST} is not of schema {SCHEMA})")
    for name, digest in manifest["files"].items():
        path = target / name
        if not path.is_file() or folder.digest(path.read_bytes()) != digest:
            raise InputError(f"{path}: is missing or was changed; the study is no longer whole")
    return manifest
