"""Rows of a table of published figures, in the columns of profiles/data/mi300x_published.csv.

Enters: a CSV file, shipped or the user's. Leaves: `PublishedRow`s in seconds and requests a second, with the role that
each figure had in the making of the profile. A user's file needs the columns of NEEDED; others may be left out.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from profiles import store
from profiles.document import nearest, read_text
from profiles.errors import InputError
from profiles.schema import Profile

Role = Literal["check", "solved", "fitted", "outlier", "copied", "other source", "nominal length", "given"]
"""`check` was used by no fit; `solved` and `fitted` made the profile; `copied` is in it as published; `given` is a user's."""

COLUMNS = [
    "source_key",
    "source",
    "url",
    "date",
    "trust",
    "hardware",
    "runtime",
    "provider",
    "model",
    "artifact",
    "tokens",
    "batch",
    "concurrency",
    "models",
    "metric",
    "value",
    "use",
    "doubt",
]
NEEDED = ("provider", "artifact", "tokens", "concurrency", "models", "metric", "value")
SHIPPED = ("mi300x_published.csv", "mi300x_published_checks.csv")
METRICS: dict[str, tuple[str, float]] = {
    "latency_p50_ms": ("p50", 1e-3),
    "latency_p95_ms": ("p95", 1e-3),
    "latency_p99_ms": ("p99", 1e-3),
    "latency_ms": ("mean", 1e-3),
    "latency_avg_ms": ("mean", 1e-3),
    "throughput_items_per_s": ("throughput", 1.0),
}
"""Metric of the table -> figure of a load point, and the factor to seconds or requests a second."""
OUT_OF_MEMORY = "OOM"
PROVIDERS = {f"{name}ExecutionProvider": name.lower() for name in ("ROCM", "MIGraphX", "CPU", "CUDA", "OpenVINO")}
HEADS = ("intent", "jailbreak", "pii", "feedback", "fact")
MODELS = dict(
    zip(
        HEADS,
        ("mmbert32k-intent", "mmbert32k-jailbreak", "mmbert32k-pii", "mmbert32k-user-feedback", "mmbert32k-fact-check"),
        strict=True,
    )
)
ANY_HEAD = "mmbert32k-intent"  # the table says `classifier`; the profile holds the same figures under each head
FILES = {"model_sdpa_migraphx.onnx": "sdpa_fp16", "model_sdpa_fp16.onnx": "sdpa_fp16", "model_token_sdpa.onnx": "fp32"}
ROLES: tuple[tuple[str, Role], ...] = (
    ("fitted: service", "solved"),
    ("fitted", "fitted"),
    ("router overhead", "fitted"),
    ("occupancy", "fitted"),
    ("outlier", "outlier"),
    ("service", "copied"),
    ("other source", "other source"),
    ("nominal length", "nominal length"),
    ("check", "check"),
    ("doubt: occupancy on migraphx", "check"),
)


@dataclass(frozen=True)
class PublishedRow:
    """One figure: what was run, and what was published. `value` in seconds or requests a second."""

    experiment: str
    provider: str
    model: str
    artifact: str
    tokens: int
    concurrency: int
    models: int
    figure: str
    value: float
    role: Role
    doubt: str

    @property
    def where(self) -> str:
        what = "three classifiers" if self.models == 3 else self.model
        return f"{what}, {self.artifact} on {self.provider}, {self.tokens} tokens, concurrency {self.concurrency}"


def shipped() -> list[PublishedRow]:
    """Every comparable figure that ships with simcap."""
    return [row for name in SHIPPED for row in read(store.SHIPPED / name, ours=True)]


def read(path: Path, *, ours: bool = False) -> list[PublishedRow]:
    """The comparable rows of a file. `ours`: rows of other metrics are passed over, and `use` says the role."""
    reader = csv.DictReader(read_text(path).splitlines())
    found = reader.fieldnames or []
    if missing := [name for name in NEEDED if name not in found]:
        raise InputError(f"{path}: column {missing[0]!r} is missing; it needs {', '.join(NEEDED)}")
    if unknown := [name for name in found if name not in COLUMNS]:
        raise InputError(f"{path}: column {unknown[0]!r} is not one of the table; {nearest(unknown[0], COLUMNS)}")
    rows = [_row(path, reader.line_num, raw, ours=ours) for raw in reader]
    kept = [row for row in rows if row is not None]
    if not kept:
        raise InputError(f"{path}: no figures to compare; metrics known: {', '.join(METRICS)}")
    return kept


def _row(path: Path, line: int, raw: dict[str, str | None], *, ours: bool) -> PublishedRow | None:
    text = {name: (raw.get(name) or "").strip() for name in COLUMNS}
    where = f"{path}:{line}"
    if raw.get(None) is not None or any(raw.get(name) is None for name in NEEDED):  # type: ignore[call-overload]
        raise InputError(f"{where}: has more or fewer fields than the first line")
    role = next((role for start, role in ROLES if text["use"].startswith(start)), None) if ours else "given"
    if ours and (text["metric"] not in METRICS or text["value"] == OUT_OF_MEMORY or role is None):
        return None
    if text["metric"] not in METRICS:
        raise InputError(f"{where}: metric is {text['metric']!r}; {nearest(text['metric'], METRICS)}")
    figure, factor = METRICS[text["metric"]]
    if text["batch"] not in {"", "1"}:
        raise InputError(f"{where}: batch is {text['batch']!r}; only figures of batch 1 can be compared")
    models = _count(where, "models", text["models"])
    if models not in {1, 3}:
        raise InputError(f"{where}: models is {models}; 1 (one session) or 3 (intent, jailbreak and pii side by side)")
    provider = PROVIDERS.get(text["provider"], text["provider"])
    if provider not in PROVIDERS.values():
        raise InputError(f"{where}: provider is {text['provider']!r}; {nearest(provider, PROVIDERS)}")
    return PublishedRow(
        experiment=text["source_key"] or path.name,
        provider=provider,
        model=_model(text["model"]),
        artifact=FILES.get(text["artifact"].partition(" ")[0], text["artifact"]),
        tokens=_count(where, "tokens", text["tokens"]),
        concurrency=_count(where, "concurrency", text["concurrency"]),
        models=models,
        figure=figure,
        value=_positive(where, text["value"]) * factor,
        role=role or "given",
        doubt=text["doubt"],
    )


def _model(text: str) -> str:
    """The model's name in our profiles; one of ours stays, a head is found by its word, else any head stands for it."""
    if text.startswith("mmbert32k-"):
        return text
    return next((MODELS[head] for head in HEADS if head in text.lower()), ANY_HEAD)


def _count(where: str, column: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{where}: {column} is {text!r}, expected a whole number of 1 or more")
    return int(text)


def _positive(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise InputError(f"{where}: value is {text!r}, expected a number above 0")
    return value


def known(profile: Profile, row: PublishedRow) -> bool:
    """Whether the profile holds the row's models, file and provider at all."""
    wanted = [MODELS[head] for head in HEADS[:3]] if row.models == 3 else [row.model]
    held = {(e.model, e.artifact, e.provider.name) for e in profile.entries if e.service or e.paced_service}
    return all((model, row.artifact, row.provider) in held for model in wanted)
