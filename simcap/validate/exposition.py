"""Two Prometheus text dumps of one running router, as what was observed between them.

Enters: dumps of the router's `/metrics`. Leaves: for each signal type the counts of its latency histogram between the two,
their sum in seconds, and how many requests they come from. What the router records (pkg/observability/metrics/
signal_decision_plugin_metrics.go and pkg/classification at commit 3d48f8c): the histogram
`llm_signal_extraction_latency_seconds{signal_type}` and the counter `llm_signal_extraction_total{signal_type, signal_name}`,
in one call. The latency runs from the start of the signal to its result, waiting for the binding's lock included.
`jailbreak` and `pii` record each request once under the name `<type>_evaluated` and once more for every rule that matched;
`embedding`, `complexity` and `reask` record matches only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiles.document import read_text
from profiles.errors import InputError, UnavailableError

HISTOGRAM = "llm_signal_extraction_latency_seconds"
COUNTER = "llm_signal_extraction_total"
START = "process_start_time_seconds"
ONCE_MORE_FOR_MATCHES = ("jailbreak", "pii")
MATCHES_ONLY = ("embedding", "complexity", "reask")


@dataclass
class Counts:
    """One signal type in one dump. `cumulative`: upper edge in seconds -> observations up to it."""

    cumulative: dict[float, float] = field(default_factory=dict)
    count: float | None = None
    sum_s: float | None = None
    by_name: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Dump:
    """`signals`: by signal type. `taken_s`: when, in seconds since 1970, where the dump says; `started_s`: the process."""

    path: Path
    signals: dict[str, Counts]
    taken_s: float | None
    started_s: float | None


@dataclass(frozen=True)
class Observed:
    """One signal type between two dumps. `edges_s`: upper edges, the last one endless; `counts`: in each bucket.

    `requests`: how many requests they come from; None where only matches were recorded. `extra`: observations beyond one
    a request, None where the dumps do not tell.
    """

    signal_type: str
    edges_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float
    requests: int | None
    extra: int | None

    @property
    def observations(self) -> int:
        return sum(self.counts)


def read(path: Path) -> Dump:
    """The dump in a file; InputError where it is none of a router."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        raise UnavailableError(
            "reading Prometheus dumps needs prometheus-client: pip install prometheus-client"
        ) from None
    text = read_text(path)
    try:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except (ValueError, IndexError, KeyError) as error:
        raise InputError(f"{path}: is not a Prometheus text dump: {error}") from None
    return _dump(path, samples)


def _dump(path: Path, samples: Iterable[Any]) -> Dump:
    signals: dict[str, Counts] = {}
    taken: list[float] = []
    started: float | None = None
    seen: set[tuple[object, ...]] = set()
    for sample in samples:
        if sample.name == START:
            started = float(sample.value)
        if not sample.name.startswith(HISTOGRAM) and sample.name != COUNTER:
            continue
        kind = sample.labels.get("signal_type")
        if kind is None:
            raise InputError(f"{path}: {sample.name} has no label signal_type; is it of a semantic router?")
        key = (sample.name, kind, sample.labels.get("le"), sample.labels.get("signal_name"))
        if key in seen:
            raise InputError(
                f"{path}: {sample.name} of {kind!r} stands twice; give the dump of one router, not of several"
            )
        seen.add(key)
        _add(path, signals.setdefault(kind, Counts()), sample)
        if sample.timestamp is not None:
            taken.append(float(sample.timestamp))
    signals = {kind: counts for kind, counts in signals.items() if counts.cumulative}
    if not signals:
        raise InputError(f"{path}: holds no {HISTOGRAM}; is it the /metrics of a semantic router?")
    for kind, counts in signals.items():
        _check(path, kind, counts)
    return Dump(path, signals, max(taken, default=None), started)


def _add(path: Path, counts: Counts, sample: Any) -> None:
    value = float(sample.value)
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{path}: {sample.name}{sample.labels} is {value}, expected a number of 0 or more")
    if sample.name == COUNTER:
        counts.by_name[sample.labels.get("signal_name", "")] = value
    elif sample.name.endswith("_bucket"):
        counts.cumulative[_edge(path, sample.labels.get("le", ""))] = value
    elif sample.name.endswith("_count"):
        counts.count = value
    elif sample.name.endswith("_sum"):
        counts.sum_s = value


def _edge(path: Path, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{path}: a bucket of {HISTOGRAM} has le={text!r}, expected a number or +Inf") from None


def _check(path: Path, kind: str, counts: Counts) -> None:
    edges = sorted(counts.cumulative)
    values = [counts.cumulative[edge] for edge in edges]
    if edges[-1] != math.inf or counts.sum_s is None or counts.count is None:
        raise InputError(f"{path}: the histogram of {kind!r} lacks its +Inf bucket, _sum or _count; the dump is cut")
    if values != sorted(values) or values[-1] != counts.count:
        raise InputError(f"{path}: the buckets of {kind!r} do not add up to its count; the dump is damaged")


def between(before: Dump, after: Dump) -> dict[str, Observed]:
    """What was observed from one dump to the other, by signal type; a type that has no new observation is left out."""
    if before.started_s is not None and after.started_s is not None and before.started_s != after.started_s:
        raise InputError(
            f"{after.path}: the router was started anew between the dumps ({START} differs); take both from one process"
        )
    found = dict(_differences(before, after))
    if not found:
        raise InputError(f"{after.path}: no signal was extracted between {before.path} and it; wait for requests")
    return found


def _differences(before: Dump, after: Dump) -> Iterator[tuple[str, Observed]]:
    for kind, old in before.signals.items():
        if kind not in after.signals:
            raise InputError(
                f"{after.path}: signal type {kind!r} of {before.path} is missing: swapped, or started anew?"
            )
        if set(old.cumulative) != set(after.signals[kind].cumulative):
            raise InputError(f"{after.path}: the buckets of {kind!r} are not those of {before.path}; two versions?")
    for kind, new in after.signals.items():
        old = before.signals.get(kind, Counts(dict.fromkeys(new.cumulative, 0.0), 0.0, 0.0))
        edges = tuple(sorted(new.cumulative))
        grown = [new.cumulative[edge] - old.cumulative[edge] for edge in edges]
        counts = [int(high - low) for low, high in zip([0.0, *grown[:-1]], grown, strict=True)]
        if min(counts) < 0:
            raise InputError(
                f"{after.path}: the counts of {kind!r} are lower than in {before.path}: swapped, or the router was started anew"
            )
        if sum(counts):
            requests, extra = _requests(kind, old, new, sum(counts))
            grown_s = (new.sum_s or 0.0) - (old.sum_s or 0.0)
            yield kind, Observed(kind, edges, tuple(counts), grown_s, requests, extra)


def _requests(kind: str, old: Counts, new: Counts, observations: int) -> tuple[int | None, int | None]:
    """How many requests the observations come from, and how many are beyond one a request."""
    if kind in MATCHES_ONLY:
        return None, None
    if kind not in ONCE_MORE_FOR_MATCHES:
        return observations, 0
    evaluated = [name for name in new.by_name if name.endswith(f"{kind}_evaluated")]  # a routing scope stands before it
    if not evaluated:
        return None, None
    requests = int(sum(new.by_name[name] - old.by_name.get(name, 0.0) for name in evaluated))
    return (requests, observations - requests) if 0 < requests <= observations else (None, None)


def seconds_between(before: Dump, after: Dump, given: float | None) -> float:
    """Time between the dumps: as given, else by the time stamps of their samples."""
    if given is not None:
        return given
    if before.taken_s is None or after.taken_s is None:
        raise InputError(
            "the dumps have no time stamps (the router writes none): say how far apart they were taken with --seconds"
        )
    if after.taken_s <= before.taken_s:
        raise InputError(f"{after.path}: was taken before {before.path}; swap --before and --after")
    return after.taken_s - before.taken_s
