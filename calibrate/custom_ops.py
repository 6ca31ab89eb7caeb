"""Libraries of custom operators, such as the router's CK flash attention for ROCm: found, tried, and named in the profile.

Enters: `[PROVIDER=]PATH` (without a provider: rocm, which the router's library is for), a launcher. Leaves: a `Library` by
provider, known to register in that provider's runtime; or an InputError, in the loader's words when it is theirs. What is
measured without such a library is another artifact (SDPA instead of flash attention) and stands beside it in one run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from calibrate.artifacts import digest_of
from calibrate.launch import Launch
from calibrate.plan import Library
from calibrate.provider_options import BASE, LIMIT_S, small_model
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.entry import ProviderName
from profiles.errors import InputError, MeasurementError

TAKERS: tuple[ProviderName, ...] = ("rocm", "cuda", "cpu")
"""Providers whose kernels a library can add to. MIGraphX and OpenVINO compile whole subgraphs and take no foreign kernel."""


def parse_library(argument: str) -> tuple[ProviderName, Library]:
    """`rocm=/opt/libck.so` or only the path taken apart; InputError that names what is wrong."""
    left, equals, right = argument.partition("=")
    name, path = (left, right) if equals and "/" not in left else ("rocm", argument)
    provider = next((p for p in TAKERS if p == name), None)
    if provider is None:
        raise InputError(
            f"--custom-ops {argument!r}: provider {name!r} takes no custom operators; {', '.join(TAKERS)} do"
        )
    if not path or not Path(path).is_file():
        raise InputError(f"--custom-ops {argument!r}: {path or 'nothing'} is not a file")
    found = Path(path).resolve()
    return provider, Library(str(found), digest_of([found])[0])


def parse_libraries(arguments: Sequence[str]) -> dict[ProviderName, Library]:
    found: dict[ProviderName, Library] = {}
    for provider, library in map(parse_library, arguments):
        if provider in found:
            raise InputError(f"--custom-ops: {provider} has two libraries; a session registers one here")
        found[provider] = library
    return found


def try_library(provider: ProviderName, library: Library, launch: Launch) -> None:
    """Register it in a session of its own; InputError in the loader's words when that fails."""
    with tempfile.TemporaryDirectory(prefix="simcap-") as folder:
        model = Path(folder) / "small.onnx"
        model.write_bytes(small_model())
        job: Mapping[str, object] = {
            "op": "options",
            "model": str(model),
            "provider": EXECUTION_PROVIDERS[provider],
            "threads": 1,
            "base": BASE.get(provider, {}),
            "candidates": {},
            "custom_ops": library.path,
        }
        outcome = launch(job, LIMIT_S)
    if outcome.status == "failed":
        raise InputError(f"--custom-ops {provider}={library.path}: {outcome.reason}")
    if outcome.status != "done":
        raise MeasurementError(f"--custom-ops {provider}={library.path}: loading it {outcome.status}: {outcome.reason}")
