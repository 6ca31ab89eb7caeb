"""Which class each request has and how long its text is: drawn by the scenario's laws, or read from the trace.

Enters: scenario, streams, n, the trace's rows where arrivals are a trace. Leaves: class numbers and token counts, (n,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from scenarios.workload import FromTrace
from sim.streams import Streams

Ints = NDArray[np.int64]


def draw_requests(scenario: Scenario, streams: Streams, n: int, trace: TraceRows | None = None) -> tuple[Ints, Ints]:
    """Class number and token count of each request. What the trace holds is the same in every replication."""
    kinds = list(scenario.classes.values())
    if trace is not None and trace.class_of is not None:
        class_of = trace.class_of[:n].astype(np.int64)
    else:
        weights = np.array([kind.weight for kind in kinds], dtype=float)
        class_of = streams.generator("class").choice(len(kinds), size=n, p=weights / weights.sum()).astype(np.int64)
    tokens = np.zeros(n, dtype=np.int64)
    for k, (name, kind) in enumerate(scenario.classes.items()):
        if isinstance(kind.tokens, FromTrace):
            assert trace is not None and trace.tokens is not None  # noqa: S101, PT018 - read with the trace, see loader
            lengths = trace.tokens[:n].astype(np.int64)
        else:
            lengths = kind.tokens.draw(streams.generator(f"tokens:{name}"), n)
        tokens = np.where(class_of == k, lengths, tokens)
    return class_of, tokens
