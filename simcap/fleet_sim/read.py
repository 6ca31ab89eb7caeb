"""`simcap import fleet-sim`: a workload of fleet-sim (CDF, trace, fleet file) as the traffic of a scenario.

Enters: the file, and a base scenario that says the rest: node, signals, stages, SLO. Leaves: the base with the file's
classes, arrivals and load. fleet-sim's lengths are prompt and answer together; the router reads the prompt, `prompt_share`
of each (fleet-sim itself takes 0.8). A CDF has no rate, so the load is the user's; a trace has its own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from profiles.document import exists, nearest, read_text
from profiles.errors import InputError
from scenarios.arrivals import Load, Poisson, Trace
from scenarios.loader import read_trace
from scenarios.schema import RequestClass, Scenario
from scenarios.workload import Cdf, CdfFile, FromTrace

Kind = Literal["cdf", "fleet", "trace"]
FIRST = 65536  # characters that are looked at to tell what a file is
NOT_A_NAME = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class Wanted:
    """What the file does not say. `rates`: rps for lengths alone, multiples of its own rate for a trace."""

    base: Scenario
    rates: tuple[float, ...] | None
    prompt_share: float
    min_tokens: int
    like: str | None = None


@dataclass(frozen=True)
class Imported:
    """The scenario, and what a reader of it should know."""

    scenario: Scenario
    kind: Kind
    notes: tuple[str, ...]


def kind_of(path: Path) -> Kind:
    """What the file is, by its first character and keys. Raises InputError for a file that cannot be read."""
    if not exists(path):
        raise InputError(f"{path}: no such file")
    with path.open("rb") as stream:
        start = stream.read(FIRST)
    if path.suffix == ".json" or start.lstrip()[:1] == b"[":
        data = _json(path)
        return "fleet" if isinstance(data, dict) and "pools" in data else "cdf"
    return "trace"


def read(path: Path, wanted: Wanted, out: Path) -> Imported:
    """The scenario to write at `out`. Raises InputError."""
    kind = kind_of(path)
    if kind == "trace":
        return _of_trace(path, wanted, out)
    if wanted.rates is None:
        raise InputError(f"{path}: fleet-sim's lengths have no rate; give the load: --rps 5,10,20")
    if kind == "fleet":
        classes, notes = _classes_of_fleet(path, wanted)
    else:
        classes, notes = {"request": _class(_law(path, wanted), 1.0, wanted)}, ()
    changes = {"classes": classes, "arrivals": Poisson(process="poisson"), "load": _load("rps", wanted.rates)}
    return Imported(_scenario(path, wanted, changes), kind, notes)


def _of_trace(path: Path, wanted: Wanted, out: Path) -> Imported:
    stored = os.path.relpath(path.absolute(), out.absolute().parent)
    changes = {
        "classes": {"request": RequestClass(weight=1.0, tokens=FromTrace(law="trace"), signals=_signals(wanted))},
        "arrivals": Trace(process="trace", path=str(path)),
        "load": _load("rate_scale", wanted.rates or (1.0,)),
    }
    scenario = _scenario(path, wanted, changes)
    rows = read_trace(scenario)
    if rows is None or rows.tokens is None:
        raise ValueError("a trace without its rows")
    rate = (len(rows) - 1) / float(rows.times_s[-1]) if rows.times_s[-1] > 0 else float("nan")
    notes = [f"{len(rows)} requests of {rows.tokens.min()} to {rows.tokens.max()} tokens at {rate:.4g} a second"]
    if not rows.at_end:
        notes.append(f"the trace has more; measurement.requests ({scenario.measurement.requests}) ends it there")
    arrivals = Trace(process="trace", path=stored)
    return Imported(scenario.model_copy(update={"arrivals": arrivals}), "trace", tuple(notes))


def _classes_of_fleet(path: Path, wanted: Wanted) -> tuple[dict[str, RequestClass], tuple[str, ...]]:
    """A class for each pool's own workload, with its share of the rate."""
    data = _json(path)
    pools = [str(pool.get("id", pool.get("pool_id"))) for pool in _list(path, data, "pools") if isinstance(pool, dict)]
    workloads = data.get("workloads")
    if not isinstance(workloads, dict) or not workloads:
        raise InputError(f"{path}: has pools and no workloads, so no lengths; import its CDF or trace instead")
    shares = {
        pool: float(item.get("lam_frac", 1 / len(workloads))) if isinstance(item, dict) else 0.0
        for pool, item in workloads.items()
    }
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise InputError(f"{path}: lam_frac of workloads sums to {sum(shares.values()):g}; a mix of classes needs 1")
    classes = {}
    for pool, item in workloads.items():
        if pool not in pools:
            raise InputError(f"{path}: workloads.{pool}: no such pool; {nearest(pool, pools)}")
        if not isinstance(item, dict) or not isinstance(item.get("cdf"), str):
            raise InputError(f"{path}: workloads.{pool}.cdf: expected the name of a CDF file")
        law = _law(_beside(path, item["cdf"]), wanted)
        classes[_name(pool)] = _class(law, shares[pool], wanted)
    gpus = ", ".join(f"{pool.get('n_gpus')} × {pool.get('gpu')}" for pool in data["pools"])
    return classes, (f"its pools ({gpus}) serve the LLM; a scenario is about the router in front of them",)


def _beside(fleet: Path, name: str) -> Path:
    """fleet-sim opens the name as it stands; a fleet file that was moved keeps its CDFs beside it or one folder up."""
    tried = [Path(name), fleet.parent / name, fleet.parent.parent / name]
    for path in tried:
        if exists(path):
            return path
    raise InputError(f"{fleet}: {name}: no such file (tried {', '.join(map(str, tried))})")


def _law(path: Path, wanted: Wanted) -> Cdf:
    """The file's points as prompt tokens, in the scenario itself, so that it needs no second file."""
    return CdfFile(law="cdf_file", path=str(path), prompt_share=wanted.prompt_share, min=wanted.min_tokens).read()


def _class(law: Cdf, weight: float, wanted: Wanted) -> RequestClass:
    return RequestClass(weight=weight, tokens=law, signals=_signals(wanted))


def _signals(wanted: Wanted) -> Any:
    """Which signals a request needs, as in the base scenario."""
    classes = wanted.base.classes
    if wanted.like is not None:
        if wanted.like not in classes:
            raise InputError(
                f"--like {wanted.like}: no such class in the base scenario; {nearest(wanted.like, classes)}"
            )
        return classes[wanted.like].signals
    found = {kind.signals for kind in classes.values()}
    if len(found) > 1:
        raise InputError(
            f"the classes of the base scenario need different signals; say --like which: {', '.join(classes)}"
        )
    return found.pop()


def _load(kind: str, points: Sequence[float]) -> Load:
    try:
        return Load.model_validate({kind: list(points)})
    except ValidationError as error:
        raise InputError(f"load: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _scenario(path: Path, wanted: Wanted, changes: dict[str, Any]) -> Scenario:
    question = f"{wanted.base.question} With the traffic of {path.name}."
    data = wanted.base.model_copy(update={**changes, "name": _name(path.stem), "question": question})
    try:
        return Scenario.model_validate(data.model_dump(mode="json", by_alias=True, exclude_none=True))
    except ValidationError as error:
        raise InputError(f"{path}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _name(text: str) -> str:
    return NOT_A_NAME.sub("-", text.lower()).strip("-._") or "imported"


def _json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None


def _list(path: Path, data: Any, key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list) or not value:
        raise InputError(f"{path}: {key}: expected a list that is not empty")
    return value
