"""The plan of a calibration as a file, `simcap.plan/1`: the options of `simcap calibrate` under the same names.

Enters: YAML. Leaves: a frozen model, and the values as the command line spells them. Paths are relative to the plan's folder.
A key that is left out has the command's own default; a flag given beside the plan goes before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from profiles.document import Strict, load_yaml
from profiles.entry import ProviderName

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Words = Annotated[tuple[str, ...], Field(min_length=1)]
Counts = Annotated[tuple[Count, ...], Field(min_length=1)]


class PlanFile(Strict):
    """Models x artifacts x providers x tokens x batch x concurrency, and how to measure them.

    `models`: of the zoo; `model`: your own files by name, with the task after a colon where outputs do not tell it
    (`e:embedding`). `option`: provider options by provider; `runtime`: interpreters; `custom_ops`: libraries by provider.
    """

    schema_version: Literal["simcap.plan/1"] = Field(alias="schema")
    gpu: str
    models: Words | None = None
    model: dict[str, str] | None = None
    artifacts: Words | None = None
    providers: Words | None = None
    tokens: Counts | None = None
    batch: Counts | None = None
    concurrency: Counts | None = None
    precision: Words | None = None
    runtime: dict[ProviderName, str] | None = None
    option: dict[ProviderName, dict[str, str | int | float]] | None = None
    custom_ops: dict[ProviderName, str] | None = None
    gate: dict[str, float] | None = None
    strict: bool | None = None
    threads: Count | None = None
    budget: str | int | float | None = None
    cell_limit: str | int | float | None = None
    cell_memory: str | int | None = None
    cadence: Words | None = None
    out: str | None = None
    seed: Annotated[int, Field(ge=0)] | None = None


def flags_of(path: Path) -> dict[str, Any]:
    """The file's values by option name, as text; InputError that names file, line and key when it is wrong."""
    plan, here = load_yaml(path, PlanFile), path.resolve().parent
    found: dict[str, Any] = {}
    for key in ("models", "artifacts", "providers", "tokens", "batch", "concurrency", "precision", "cadence"):
        if (values := getattr(plan, key)) is not None:
            found[key] = ",".join(map(str, values))
    for key in ("gpu", "threads", "budget", "cell_limit", "cell_memory", "seed"):
        if (value := getattr(plan, key)) is not None:
            found[key] = str(value)
    for key in ("model", "runtime", "custom_ops"):
        if (files := getattr(plan, key)) is not None:
            found[key] = [f"{name}={here / file}" for name, file in files.items()]
    if plan.option is not None:
        found["option"] = [f"{p}.{name}={value}" for p, given in plan.option.items() for name, value in given.items()]
    if plan.gate is not None:
        found["gate"] = [f"{name}={least}" for name, least in plan.gate.items()]
    if plan.strict is not None:
        found["strict"] = plan.strict
    if plan.out is not None:
        found["out"] = str(here / plan.out)
    return found
