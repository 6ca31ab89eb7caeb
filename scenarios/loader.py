"""Find and read scenarios, and check them against the profile that they will run on.

Enters: a path or a shipped name, `--set` overrides, a profile. Leaves: a `Scenario`, or an `InputError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from profiles.document import exists, line_in, load_yaml, nearest
from profiles.entry import Entry
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import traces
from scenarios.arrivals import Trace
from scenarios.node import Choice, Signal
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from scenarios.workload import CdfFile, FromTrace

SHIPPED = Path(str(resources.files("scenarios")))


def shipped_names() -> list[str]:
    """Names of the scenarios that ship with simcap."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def locate(name_or_path: str) -> Path:
    """The file behind a path, a shipped name, or `scenarios/NAME.yaml` from anywhere."""
    path = Path(name_or_path)
    if exists(path):
        return path
    if name_or_path in shipped_names():
        return SHIPPED / f"{name_or_path}.yaml"
    if path.parent.name in {"", "scenarios"} and path.suffix == ".yaml" and path.stem in shipped_names():
        return SHIPPED / f"{path.stem}.yaml"
    raise InputError(
        f"scenario {name_or_path}: no such file, and none shipped under that name; {nearest(path.stem, shipped_names())}"
    )


def load(name_or_path: str, overrides: Sequence[str] = ()) -> Scenario:
    """Read and validate a scenario. Paths in it are relative to its file; they come back absolute, CDF files read in."""
    file = locate(name_or_path)
    return _settled(load_yaml(file, Scenario, overrides), file.absolute().parent)


def _settled(scenario: Scenario, folder: Path) -> Scenario:
    """The same scenario, independent of the folder that it was read from."""
    changes: dict[str, object] = {}
    if isinstance(scenario.arrivals, Trace):
        path = folder / scenario.arrivals.path
        if not exists(path):
            raise InputError(f"arrivals.path: {path}: no such file (paths are relative to the scenario file)")
        changes["arrivals"] = scenario.arrivals.model_copy(update={"path": str(path)})
    classes = dict(scenario.classes)
    for name, kind in classes.items():
        if isinstance(kind.tokens, CdfFile):
            try:
                law = kind.tokens.model_copy(update={"path": str(folder / kind.tokens.path)}).read()
            except InputError as error:
                raise InputError(f"classes.{name}.tokens.path: {error}") from None
            classes[name] = kind.model_copy(update={"tokens": law})
    return scenario.model_copy(update=changes | {"classes": classes})


def read_trace(scenario: Scenario) -> TraceRows | None:
    """The rows of the scenario's trace, at most `measurement.requests`; None where arrivals are not a trace.

    Read it once a run and hand it on: nothing here remembers it.
    """
    if not isinstance(scenario.arrivals, Trace):
        return None
    lengths = any(isinstance(kind.tokens, FromTrace) for kind in scenario.classes.values())
    return traces.read(scenario.arrivals, list(scenario.classes), scenario.measurement.requests, tokens=lengths)


Bound = dict[str, dict[tuple[str, str], Entry]]
"""signal -> (provider, artifact) -> profile entry, in the signal's provider order."""


def bind(scenario: Scenario, profile: Profile, path: Path | None = None, *, trace: TraceRows | None = None) -> Bound:
    """The profile entries of each signal, after checking that every length the scenario can draw is calibrated.

    `path`: the scenario's file, so that an error can name the line. `trace`: the rows of `read_trace`, if the caller has
    them; else they are read here, because the lengths of a trace are known only then.
    """
    bound: Bound = {}
    lengths = _lengths(scenario, trace)
    for name, signal in scenario.signals.items():
        wanting = [key for key, kind in scenario.classes.items() if kind.signals == "all" or name in kind.signals]
        ranges = [signal.processed_range(*lengths[key]) for key in wanting if key in lengths]
        try:
            entries = _entries(signal, profile)
            for choice in signal.choices:
                _check_lengths(entries[choice.provider, choice.artifact], signal, choice, ranges)
        except InputError as error:
            raise InputError(f"{_where(path, 'signals', name)}: {error}") from None
        bound[name] = entries
    if scenario.router.cpu == "from_profile" and profile.router is None:
        raise InputError(
            f"{_where(path, 'router', 'cpu')}: from_profile, but profile {profile.name} has no router figures; "
            "give router.cpu.base_s and router.cpu.per_token_s"
        )
    return bound


def entries_of(scenario: Scenario, profile: Profile) -> Bound:
    """As `bind` for a scenario that has been bound before: no check of lengths, so no trace is read."""
    return {name: _entries(signal, profile) for name, signal in scenario.signals.items()}


def _entries(signal: Signal, profile: Profile) -> dict[tuple[str, str], Entry]:
    return {
        (choice.provider, choice.artifact): profile.entry(signal.model, choice.artifact, choice.provider)
        for choice in signal.choices
    }


def _lengths(scenario: Scenario, trace: TraceRows | None) -> dict[str, tuple[int, int]]:
    """Smallest and largest token count of each class; a class that never comes in the trace has none."""
    lengths: dict[str, tuple[int, int]] = {}
    for k, (name, kind) in enumerate(scenario.classes.items()):
        if isinstance(kind.tokens, FromTrace):
            trace = trace if trace is not None else read_trace(scenario)
            seen = trace.range_of_tokens(k) if trace is not None else None
            if seen is not None:
                lengths[name] = seen
        else:
            lengths[name] = kind.tokens.support
    return lengths


def _check_lengths(entry: Entry, signal: Signal, choice: Choice, ranges: list[tuple[int, int]]) -> None:
    surface, occupancy = entry.surface(choice.cadence), entry.occupancy_curve()
    if signal.batching:
        surface.check_batch(signal.batching.max_batch)
    for lo, hi in ranges:
        surface.check(lo, hi)
        occupancy.at([lo, hi])


def _where(path: Path | None, *key: str) -> str:
    name = ".".join(key)
    return f"{line_in(path, key)}: {name}" if path else name
