"""Wrong requests, found before anything is built, started or written.

Enters: a `Request`. Leaves: its providers in the catalog's order of measuring and the profile's name, or an InputError
that says what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.machine import available_cores
from calibrate.model_zoo.architecture import spec_of
from calibrate.precision import check_precisions
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.entry import ProviderName
from profiles.errors import InputError, nearest

if TYPE_CHECKING:
    from calibrate.request import Request


def check(request: Request) -> tuple[list[ProviderName], str]:
    """The providers, each once, and the profile's name."""
    providers = _providers(request)
    if request.threads > available_cores():
        raise InputError(
            f"--threads {request.threads}: this process may use {available_cores()} cores, and more threads than cores "
            "measure the scheduler"
        )
    if request.out.is_dir():
        raise InputError(
            f"--out {request.out}: is a directory; name a file, such as {request.out / 'cpu.profile.json'}"
        )
    name = profile_name(request.out)
    if request.models and not request.artifacts:
        raise InputError("--artifacts: name fp32, fp16, or both")
    built = [(model, artifact) for model in request.models for artifact in request.artifacts]
    for model, artifact in built:
        spec_of(model, request.seed, artifact=artifact)
    pairs = [*built, *((o.model, o.path.stem) for o in request.own)]
    if not pairs:
        raise InputError("nothing to measure: name models with --models or --model")
    for pair in pairs:
        if pairs.count(pair) > 1:
            raise InputError(f"model {pair[0]!r} as artifact {pair[1]!r} is asked for twice")
    return providers, name


def _providers(request: Request) -> list[ProviderName]:
    for name in request.providers:
        if name not in EXECUTION_PROVIDERS:
            raise InputError(f"--providers: no provider {name!r}; {nearest(name, EXECUTION_PROVIDERS)}")
    chosen = [p for p in EXECUTION_PROVIDERS if p in request.providers]
    if not chosen:
        raise InputError(f"--providers: name at least one of {', '.join(EXECUTION_PROVIDERS)}")
    named: tuple[tuple[str, Mapping[ProviderName, object]], ...] = (
        ("--runtime", request.runtimes),
        ("--option", request.options),
        ("--custom-ops", request.libraries),
    )
    for flag, given in named:
        for provider in given:
            if provider not in chosen and not (flag == "--runtime" and provider == "cpu"):  # drift's reference
                raise InputError(f"{flag} {provider}: {provider} is not among the --providers {', '.join(chosen)}")
    check_precisions(request.precisions, chosen)
    return chosen


def profile_name(out: Path) -> str:
    """The profile's name, after its file: `node-7.profile.json` is `node-7`."""
    stem = out.name.removesuffix(".json").removesuffix(".profile").lower()
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in stem).lstrip("._-")
    if not name:
        raise InputError(f"--out {out}: the profile is named after this file; it needs a letter or a digit")
    return name
