"""Number formats that a provider converts a model to while it loads it.

Enters: names (`fp16`, `bf16`), artifacts, what each build said about its options. Leaves: further artifacts, such as
`fp32-as-bf16`, for the providers whose build knows the option; notes on those that do not. Sources of the options:
MIGraphX's provider options by version; OpenVINO's `precision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibrate.artifacts import Artifact, Precision, converted
from calibrate.provider_options import Known
from profiles.entry import ProviderName
from profiles.errors import InputError, nearest

OPTIONS: dict[str, dict[ProviderName, dict[str, str]]] = {
    "fp16": {"migraphx": {"migraphx_fp16_enable": "1"}, "openvino": {"precision": "FP16"}},
    "bf16": {"migraphx": {"migraphx_bf16_enable": "1"}},
}
"""Name -> provider -> what tells it to convert."""


def check_precisions(names: Sequence[str], providers: Sequence[ProviderName]) -> None:
    """InputError for an unknown name, and for one that none of the providers converts to."""
    for name in names:
        if name not in OPTIONS:
            raise InputError(f"--precision: no precision {name!r}; {nearest(name, OPTIONS)}")
        if not any(provider in OPTIONS[name] for provider in providers):
            raise InputError(f"--precision {name}: of the providers only {', '.join(OPTIONS[name])} convert to it")


def with_precisions(
    artifacts: Sequence[Artifact], names: Sequence[str], known: Mapping[ProviderName, Known]
) -> tuple[list[Artifact], list[str]]:
    """The artifacts and their conversions, and notes on builds that do not know one.

    A provider that does not load keeps its conversions: its cells then say why nothing ran.
    """
    found, notes = list(artifacts), []
    for name in names:
        options = {}
        for provider, wanted in OPTIONS[name].items():
            if provider not in known:
                continue
            refused = [r for r in known[provider].records if not r.accepted and wanted.get(r.name) == r.value]
            if refused:
                said = "; ".join(f"{r.name}={r.value} ({r.reason})" for r in refused)
                notes.append(f"{provider}: {name} was not measured: this build refuses {said}")
            else:
                options[provider] = wanted
        if options:
            found += [converted(a, Precision(name, options)) for a in artifacts]
    return found, notes


def options_of(provider: ProviderName, names: Sequence[str]) -> dict[str, str]:
    """What a build must take to convert; where two precisions need one option, the last one's value."""
    return {k: v for name in names for k, v in OPTIONS[name].get(provider, {}).items()}


def asked_options(
    wanted: Mapping[ProviderName, Mapping[str, str]], names: Sequence[str]
) -> dict[ProviderName, dict[str, str]]:
    """Options whose effect is worth a look: those the person named, and those of the conversions."""
    found = {provider: dict(options) for provider, options in wanted.items()}
    for name in names:
        for provider, options in OPTIONS[name].items():
            found[provider] = {**options, **found.get(provider, {})}
    return found
