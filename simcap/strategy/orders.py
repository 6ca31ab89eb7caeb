"""Which providers of a profile can serve a scenario, with which artifacts; and the scenario with such an order in it.

Enters: a scenario and a profile. Leaves: `Plan`s without figures (`possible`), and scenarios (`with_order`). Keys that
belong to a provider (artifact, provider, fallbacks, compile, cadence) are replaced; all else of the scenario stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiles.document import nearest
from profiles.entry import Entry
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.loader import bind
from scenarios.schema import Scenario
from simcap.strategy.model import Policy


@dataclass(frozen=True)
class Line:
    """One provider with the artifact that each signal runs on it."""

    provider: str
    artifacts: tuple[tuple[str, str], ...]  # (signal, artifact)

    @property
    def of(self) -> dict[str, str]:
        return dict(self.artifacts)


def possible(scenario: Scenario, profile: Profile) -> tuple[list[Line], dict[str, str]]:
    """All lines that the profile covers, and for each provider without one the reason.

    A provider has a line for each artifact that serves every signal; where none does, one with each signal's fastest.
    """
    known = {entry.model for entry in profile.entries}
    for signal in scenario.signals.values():
        if signal.model not in known:
            raise InputError(
                f"scenario {scenario.name}: profile {profile.name} has no model {signal.model!r}; "
                f"{nearest(signal.model, sorted(known))}"
            )
    lines: list[Line] = []
    reasons: dict[str, str] = {}
    for provider in dict.fromkeys(entry.provider.name for entry in profile.entries):
        fitting, why = _fitting(scenario, profile, provider)
        if why is not None:
            reasons[provider] = why
            continue
        shared = set.intersection(*({e.artifact for e in entries} for entries in fitting.values()))
        if shared:
            lines += [Line(provider, tuple((s, artifact) for s in fitting)) for artifact in sorted(shared)]
        else:
            fastest = {s: min(entries, key=_longest_s) for s, entries in fitting.items()}
            lines.append(Line(provider, tuple((s, e.artifact) for s, e in fastest.items())))
    return lines, reasons


def _fitting(scenario: Scenario, profile: Profile, provider: str) -> tuple[dict[str, list[Entry]], str | None]:
    """The entries of each signal that can serve every length it sees, or why a signal has none."""
    found: dict[str, list[Entry]] = {}
    for name, signal in scenario.signals.items():
        mine = [e for e in profile.entries if e.model == signal.model and e.provider.name == provider]
        if not mine:
            return {}, f"the profile has no entry of {signal.model} on {provider}"
        reasons = {entry.artifact: _unfit(scenario, profile, name, entry) for entry in mine}
        found[name] = [entry for entry in mine if reasons[entry.artifact] is None]
        if not found[name]:
            return {}, "; ".join(dict.fromkeys(reason for reason in reasons.values() if reason))
    return found, None


def _unfit(scenario: Scenario, profile: Profile, name: str, entry: Entry) -> str | None:
    """Why this entry cannot stand for a signal; None when it can."""
    if entry.accuracy is not None and entry.accuracy.rejected:
        return f"{entry.key}: {entry.accuracy.rejected}"
    if entry.ownership is not None and entry.ownership.verdict == "fell_back":
        return f"{entry.key}: the provider did not run it ({entry.ownership.reason or 'it fell back'})"
    alone = _replaced(scenario, name, {"artifact": entry.artifact, "provider": entry.provider.name})
    others = {key: value for key, value in alone.signals.items() if key == name}
    only = alone.model_copy(update={"signals": others})
    try:
        bind(only, profile)
    except InputError as error:
        return str(error).splitlines()[0].removeprefix(f"signals.{name}: ")
    return None


def _longest_s(entry: Entry) -> float:
    """Median seconds of the longest cell, to choose between artifacts."""
    return max(float(cell.law().ppf(0.5)) for cell in (entry.service or entry.paced_service).cells)  # type: ignore[union-attr]  # bound


def _replaced(scenario: Scenario, name: str, keys: Mapping[str, Any]) -> Scenario:
    signal = scenario.signals[name]
    plain = {"fallbacks": (), "compile": None, "cadence": None, "available": True, "failure_probability": 0.0}
    changed = signal.model_copy(update={**plain, **keys})
    return scenario.model_copy(update={"signals": {**scenario.signals, name: changed}})


def with_order(scenario: Scenario, profile: Profile, order: Sequence[Line], policy: Policy | None = None) -> Scenario:
    """The scenario with these providers in this order. `policy`: nodes start with nothing loaded and behave so, or are
    given traffic only when all is ready (`compile_first`); None: all is ready, and nothing is compiled or loaded.
    """  # fmt: skip
    data = scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name, signal in data["signals"].items():
        for key in ("compile", "cadence", "available", "failure_probability"):
            signal.pop(key, None)
        steps = [_step(name, line, scenario, profile, policy, last=line is order[-1]) for line in order]
        signal.update(steps[0])
        signal["fallbacks"] = steps[1:]
        if signal.get("batching") and (policy is not None or steps[1:]):
            del signal["batching"]
    if policy is not None:
        data["replicas"]["start"] = "warm" if policy == "compile_first" else "cold"
        data["replicas"]["faults"] = []
    return Scenario.model_validate(data)


def _step(
    name: str, line: Line, scenario: Scenario, profile: Profile, policy: Policy | None, *, last: bool
) -> dict[str, Any]:
    signal, artifact = scenario.signals[name], line.of[name]
    step: dict[str, Any] = {"artifact": artifact, "provider": line.provider}
    entry = profile.entry(signal.model, artifact, line.provider)
    if policy is not None and compiles(entry):
        step["compile"] = {"programs": "map", "disk_cache": "none"}
        if policy == "fall_back" and not last:
            step["compile"]["cold_shape"] = "fall_back"
        if policy == "compile_first":
            step["compile"]["warmup_tokens"] = list(signal.buckets or ())
    return step


def compiles(entry: Entry) -> bool:
    """Whether an unseen shape compiles while the provider serves."""
    return entry.compile is not None and entry.compile.per_shape
