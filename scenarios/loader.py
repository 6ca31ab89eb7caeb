"""Find and read scenarios, and check them against the profile that they will run on.

Enters: a path or a shipped name, `--set` overrides, a profile. Leaves: a `Scenario`, or an `InputError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from profiles.document import exists, line_in, load_yaml, nearest
from profiles.errors import InputError
from profiles.schema import Entry, Profile
from scenarios.node import Choice, Signal
from scenarios.schema import Scenario

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
    """Read and validate a scenario."""
    return load_yaml(locate(name_or_path), Scenario, overrides)


Bound = dict[str, dict[tuple[str, str], Entry]]
"""signal -> (provider, artifact) -> profile entry, in the signal's provider order."""


def bind(scenario: Scenario, profile: Profile, path: Path | None = None) -> Bound:
    """The profile entries of each signal, after checking that every length the scenario can draw is calibrated.

    `path`: the scenario's file, so that an error can name the line.
    """
    bound: Bound = {}
    for name, signal in scenario.signals.items():
        kinds = [kind for kind in scenario.classes.values() if kind.signals == "all" or name in kind.signals]
        ranges = [signal.processed_range(*kind.tokens.support) for kind in kinds]
        try:
            entries = {
                (choice.provider, choice.artifact): profile.entry(signal.model, choice.artifact, choice.provider)
                for choice in signal.choices
            }
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
