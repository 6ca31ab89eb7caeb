"""Find and read scenarios, and check them against the profile that they will run on.

Enters: a path or a shipped name, `--set` overrides, a profile. Leaves: a `Scenario`, or an `InputError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from profiles.document import load_yaml, nearest
from profiles.errors import InputError
from profiles.schema import Entry, Profile
from scenarios.schema import Scenario

SHIPPED = Path(str(resources.files("scenarios")))


def shipped_names() -> list[str]:
    """Names of the scenarios that ship with simcap."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def locate(name_or_path: str) -> Path:
    """The file behind a path, a shipped name, or `scenarios/NAME.yaml` from anywhere."""
    path = Path(name_or_path)
    if path.exists():
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


def bind(scenario: Scenario, profile: Profile) -> dict[str, Entry]:
    """The profile entry of each signal, after checking that every length the scenario can draw is calibrated."""
    entries: dict[str, Entry] = {}
    for name, signal in scenario.signals.items():
        try:
            entry = profile.entry(signal.model, signal.artifact, signal.provider)
            surface, occupancy = entry.surface(signal.cadence), entry.occupancy_curve()
            for kind in scenario.classes.values():
                if kind.signals == "all" or name in kind.signals:
                    lo, hi = signal.processed_range(*kind.tokens.support)
                    surface.check(lo, hi)
                    occupancy.at([lo, hi])
        except InputError as error:
            raise InputError(f"signals.{name}: {error}") from None
        entries[name] = entry
    if scenario.router.cpu == "from_profile" and profile.router is None:
        raise InputError(
            f"router.cpu: from_profile, but profile {profile.name} has no router figures; "
            "give router.cpu.base_s and router.cpu.per_token_s"
        )
    return entries
