"""Prometheus text dumps as the router writes them, with latencies that a test chose or drew."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # prometheus.DefBuckets
NAMES = {"pii": "pii_evaluated", "jailbreak": "jailbreak_evaluated"}


def dump(
    latencies_s: Mapping[str, np.ndarray], *, matched: Mapping[str, np.ndarray] | None = None, started: float = 1.7e9
) -> str:
    """`latencies_s`: signal type -> latency of each request. `matched`: those recorded once more for a rule."""
    lines = [
        "# HELP llm_signal_extraction_latency_seconds Latency of signal extraction by type in seconds",
        "# TYPE llm_signal_extraction_latency_seconds histogram",
    ]
    extra = matched or {}
    for kind, once in latencies_s.items():
        both = np.concatenate([once, extra.get(kind, np.empty(0))])
        label = f'signal_type="{kind}"'
        name = "llm_signal_extraction_latency_seconds"
        lines += [f'{name}_bucket{{{label},le="{edge:g}"}} {int((both <= edge).sum())}' for edge in BUCKETS]
        lines.append(f'{name}_bucket{{{label},le="+Inf"}} {both.size}')
        lines += [f"{name}_sum{{{label}}} {both.sum():.9g}", f"{name}_count{{{label}}} {both.size}"]
    lines += [
        "# HELP llm_signal_extraction_total Total number of signal extractions by type and name",
        "# TYPE llm_signal_extraction_total counter",
    ]
    for kind, once in latencies_s.items():
        label = f'signal_type="{kind}"'
        lines.append(f'llm_signal_extraction_total{{signal_name="{NAMES.get(kind, "other")}",{label}}} {once.size}')
        if kind in extra:
            lines.append(f'llm_signal_extraction_total{{signal_name="a_rule",{label}}} {extra[kind].size}')
    lines += [
        "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {started:.12g}",
    ]
    return "\n".join(lines) + "\n"
