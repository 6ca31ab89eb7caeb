"""A scenario of the router's configuration: its learned signals on a base scenario's node and traffic.

Enters: a `RouterFile`, a base scenario (node, router CPU, requests, load, SLO), a profile, and the user's word where file
and profile leave a choice. Leaves: YAML text with a comment at every value the file does not say: `assumed` where a
default of the router stands, `base` where the base scenario speaks. Heuristics become a comment: they cost router CPU
only, which `router.cpu` holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from profiles.document import nearest
from profiles.entry import PROVIDER_DEVICE
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.loader import bind
from scenarios.schema import Scenario
from simcap.router_config.document import RouterFile, Routing
from simcap.router_config.inferences import Found, Inference, inferences_of
from simcap.rundir import scenario_yaml

NOT_A_NAME = re.compile(r"[^a-z0-9._-]+")
DEFAULT = "assumed: the router's default"
BASE_SECTIONS = ("node", "router", "classes", "arrivals", "load", "slo", "measurement")


@dataclass(frozen=True)
class Choices:
    """The user's word. `stand_ins`: model in the file -> model in the profile. `gpu_provider`: for `use_cpu: false`."""

    profile_name: str
    recipe: str | None = None
    gpu_provider: str | None = None
    artifact: str | None = None
    stand_ins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """`missing`: what the file does not say and the scenario needs, with who says it now."""

    text: str
    found: Found
    missing: tuple[str, ...]


def scenario_of(file: RouterFile, base: Scenario, profile: Profile, choices: Choices) -> Result:
    """The scenario as commented YAML. Raises InputError, also where the profile cannot answer it."""
    profiles = _chosen(file, choices.recipe)
    found = inferences_of(file, profiles)
    if not found.inferences:
        used = "; ".join(_heuristics(found)) or "none"
        raise InputError(
            f"{file.path}: its decisions run no model in the router (heuristics: {used}{_elsewhere(found)}); they cost "
            "router CPU only, and a scenario needs a learned signal"
        )
    comments = _Comments()
    signals = {name: _signal(item, profile, choices, comments) for name, item in found.inferences.items()}
    scenario = _validated(file, base, signals, choices)
    bind(scenario, profile)
    missing = _missing(file, base, choices)
    return Result(comments.write(scenario_yaml(scenario), _head(file, profiles, found, missing), base), found, missing)


def _chosen(file: RouterFile, recipe: str | None) -> tuple[Routing, ...]:
    if recipe is None:
        if not file.profiles:
            raise InputError(f"{file.path}: no decision that a request can reach")
        return file.profiles
    names = [routing.name for routing in file.profiles]
    if recipe not in names:
        raise InputError(f"--recipe {recipe}: {nearest(recipe, names)}")
    return tuple(routing for routing in file.profiles if routing.name == recipe)


def _signal(item: Inference, profile: Profile, choices: Choices, comments: _Comments) -> dict[str, Any]:
    model = _model(item, profile, choices, comments)
    provider = "cpu" if item.use_cpu.value else choices.gpu_provider
    if provider is None:
        raise InputError(
            f"signal {item.name}: use_cpu is false; say which provider your build has: --gpu-provider rocm"
        )
    if not item.use_cpu.value and PROVIDER_DEVICE.get(provider) != "gpu":
        gpus = [name for name, device in PROVIDER_DEVICE.items() if device == "gpu"]
        raise InputError(f"--gpu-provider {provider}: {nearest(provider, gpus)}")
    artifact = _artifact(item, model, provider, profile, choices, comments)
    if not item.use_cpu.given:
        comments.at(item.name, "provider", f"use_cpu, {DEFAULT}")
    elif not item.use_cpu.value:
        comments.at(item.name, "provider", "the file says use_cpu: false; which provider is your --gpu-provider")
    comments.at(item.name, "lock_domain", "assumed: one mutex over these in the router's ONNX binding")
    comments.at(item.name, "max_tokens", "assumed: the router's limit for this kind of model")
    return {
        "artifact": artifact,
        "provider": provider,
        "model": model,
        "lock_domain": item.lock,
        "max_tokens": item.max_tokens,
    }


def _model(item: Inference, profile: Profile, choices: Choices, comments: _Comments) -> str:
    known = sorted({entry.model for entry in profile.entries})
    wanted = choices.stand_ins.get(item.model, item.model)
    if wanted not in known:
        raise InputError(
            f"signal {item.name} runs {item.model} ({item.path.value}), and profile {profile.name} has no {wanted!r}; "
            f"measure it, or let another stand in for it: --stand-in {item.model}=NAME with one of {', '.join(known)}"
        )
    if wanted != item.model:
        comments.at(item.name, "model", f"assumed: stands in for {item.model}, as you said")
    elif not item.path.given:
        comments.at(item.name, "model", f"{DEFAULT} ({item.path.value})")
    return wanted


def _artifact(
    item: Inference, model: str, provider: str, profile: Profile, choices: Choices, comments: _Comments
) -> str:
    have = sorted({e.artifact for e in profile.entries if e.model == model and e.provider.name == provider})
    if not have:
        raise InputError(f"signal {item.name}: profile {profile.name} has no {model} on {provider}; measure it")
    if choices.artifact in have:
        comments.at(item.name, "artifact", "your --artifact; the file names none")
        return str(choices.artifact)
    if len(have) > 1:
        raise InputError(f"signal {item.name}: {model} on {provider} is there as {', '.join(have)}; say --artifact")
    comments.at(item.name, "artifact", "assumed: the only one in the profile; the file names none")
    return have[0]


def _validated(file: RouterFile, base: Scenario, signals: dict[str, Any], choices: Choices) -> Scenario:
    data = base.model_dump(mode="json", by_alias=True, exclude_none=True)
    data.pop("cache", None)
    for kind in data["classes"].values():
        kind["signals"] = "all"
    data |= {
        "name": NOT_A_NAME.sub("-", f"{file.path.parent.name}-{file.path.stem}".lower()).strip("-._"),
        "question": f"How much traffic does the router configuration {file.path.name} take on one node?",
        "profile": choices.profile_name,
        "lock_domains": {lock: {"order": "fifo"} for lock in sorted({s["lock_domain"] for s in signals.values()})},
        "signals": signals,
        "stages": [list(signals)],
    }
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{file.path}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _missing(file: RouterFile, base: Scenario, choices: Choices) -> tuple[str, ...]:
    """What a scenario needs and the router's file has no key for."""
    lines = [
        f"node, router CPU a request, request classes and lengths, arrivals, load, SLO: as in scenario {base.name}",
        "which ONNX artifact each model runs as; sessions a model (one); what a lock's waiters are served by (fifo)",
        "how often a decision needs a signal: taken as every request, all signals side by side",
    ]
    if file.setting("stores", "response_cache", "enabled") is not False:
        lines.append("how often the response cache hits, and the embedding that asks it: no cache is simulated")
    if choices.recipe is None and len(file.profiles) > 1:
        lines.append("how traffic divides over its recipes: every request runs what any of them uses (see --recipe)")
    return tuple(lines)


def _heuristics(found: Found) -> list[str]:
    return [f"{kind} ({len(names)})" for kind, names in sorted(found.heuristics.items())]


def _elsewhere(found: Found) -> str:
    return "; " + "; ".join(found.elsewhere) if found.elsewhere else ""


def _head(file: RouterFile, profiles: Sequence[Routing], found: Found, missing: Sequence[str]) -> list[str]:
    lines = [f"From the router configuration {file.path.name} ({file.version}), recipes: {_names(profiles)}."]
    lines.append(f"Learned signals its decisions use: {', '.join(found.inferences)}.")
    lines.append(f"Heuristics, router CPU only: {', '.join(_heuristics(found)) or 'none'}.")
    lines += [f"Not in the router: {text}." for text in found.elsewhere]
    if file.unreachable:
        lines.append(f"Recipes that no request can reach, left out: {', '.join(file.unreachable)}.")
    lines.append("The file does not say:")
    lines += [f"- {text}" for text in missing]
    return lines


def _names(profiles: Sequence[Routing]) -> str:
    return ", ".join(routing.name for routing in profiles)


class _Comments:
    """Comments at keys of signals, put into YAML text that has one key a line."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], str] = {}

    def at(self, signal: str, key: str, text: str) -> None:
        self._at[signal, key] = text

    def write(self, text: str, head: Sequence[str], base: Scenario) -> str:
        lines = [f"# {line}" for line in head]
        section = signal = ""
        for line in text.splitlines():
            key, indent = line.strip().partition(":")[0], len(line) - len(line.lstrip())
            if indent == 0 and not line.startswith("-"):
                section = key
                lines += [f"# base: {section} as in scenario {base.name}"] if section in BASE_SECTIONS else []
            elif section == "signals" and indent == 2:
                signal = key
            comment = self._at.get((signal, key)) if section == "signals" and indent == 4 else None
            lines.append(f"{line}  # {comment}" if comment else line)
        return "\n".join(lines) + "\n"
