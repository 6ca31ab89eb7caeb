"""How many router nodes and how many LLM instances keep one time to first token. This file is copied into an export.

Enters: `signal_latency.json` beside this file (the latency that `simcap run` simulated at each load of one node), a
profile object of fleet-sim for the LLM, rate and SLO. Leaves: the cheapest pair, and every pair looked at. A request
first waits for its signals, then for a free slot of the LLM, then for its prefill:
    time to first token = signal latency (drawn from the simulated distribution) + wait + ceil(l_in / chunk) * prefill.
The budget of the LLM is thus reduced by a distribution, not by a constant. LLM slots are served first come, first served,
instances * n_slots of them, each for the profile's service time: fleet-sim's own optimizer checks its answers that way, and
not with its `Fleet`, which divides a request's time by the slots once more. Seconds, USD an hour. numpy alone.
"""

from __future__ import annotations

import heapq
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
SCHEMA = "simcap.signal-latency/1"
PROMPT_SHARE = 0.8  # fleet-sim takes this share of a length as the prompt
MOST_GPUS = 100_000


@dataclass(frozen=True)
class Plan:
    """`share`: of requests whose first token comes within the SLO. `node_rps`: load of one router node, as simulated.

    An instance is what the LLM's profile object stands for: as many GPUs as its tensor parallelism, its price for all.
    """

    router_nodes: int
    llm_instances: int
    share: float
    cost_per_hr: float
    node_rps: float
    signal_p99_s: float


def plan(
    llm: Any,
    *,
    llm_max_ctx: int,
    rate_rps: float,
    slo_ms: float,
    attainment: float,
    requests: int = 20_000,
    seed: int = 1,
    folder: Path = HERE,
) -> list[Plan]:
    """Every pair that keeps the SLO, cheapest first; one for each load of a node that was simulated. Empty: none does.

    `llm`: any profile object of fleet-sim. `llm_max_ctx`: context of its pool. ValueError when nothing was simulated.
    """
    data = json.loads((folder / "signal_latency.json").read_text(encoding="utf-8"))
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{folder}: schema is {data.get('schema')!r}, this file reads {SCHEMA!r}")
    requests_of = _Requests(folder, llm, llm_max_ctx, rate_rps, requests, seed)
    found: dict[int, Plan] = {}
    for point in sorted(data["points"], key=lambda item: -float(item["node_rps"])):
        nodes = math.ceil(rate_rps / point["node_rps"])
        if nodes in found:
            continue
        signal = requests_of.signal_s(point["levels"], point["seconds"])
        gpus = _fewest(requests_of, signal, slo_ms / 1000, attainment)
        if gpus is not None:
            share = float(np.mean(requests_of.first_token_s(signal, gpus) <= slo_ms / 1000))
            cost = nodes * float(data["node_cost_per_hr"]) + gpus * float(llm.cost_per_hr)
            p99 = float(np.interp(0.99, point["levels"], point["seconds"]))
            found[nodes] = Plan(nodes, gpus, share, cost, float(point["node_rps"]), p99)
    return sorted(found.values(), key=lambda item: (item.cost_per_hr, item.router_nodes))


class _Requests:
    """One stream of requests, the same for every pair that is tried."""

    def __init__(self, folder: Path, llm: Any, max_ctx: int, rate_rps: float, requests: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        points = json.loads((folder / "workload.json").read_text(encoding="utf-8"))["cdf"]
        tokens, fractions = np.array([t for t, _ in points]), np.array([f for _, f in points])
        lengths = np.interp(rng.uniform(size=requests), fractions, tokens).astype(int)
        prompts = np.maximum((lengths * PROMPT_SHARE).astype(int), 1)
        answers = np.maximum(lengths - prompts, 1)
        self.arrived = np.cumsum(rng.exponential(1 / rate_rps, size=requests))
        self._u = rng.uniform(size=requests)
        self._slots = int(llm.n_slots(max_ctx))
        pairs = list(zip(prompts.tolist(), answers.tolist(), strict=True))
        self._service = np.array([llm.service_time(i, o, max_ctx) for i, o in pairs])
        self.prefill_s = np.array(
            [
                math.ceil(i / llm.chunk) * llm.prefill_iter_latency(llm.chunk, i / 2, self._slots, float(i + o))
                for i, o in pairs
            ]
        )

    def signal_s(self, levels: list[float], seconds: list[float]) -> Any:
        """A signal latency for each request."""
        return np.interp(self._u, levels, seconds)

    def first_token_s(self, signal: Any, gpus: int) -> Any:
        """Seconds from arrival to first token with this many GPUs."""
        ready = self.arrived + signal
        free = [0.0] * (gpus * self._slots)
        waited = np.empty(ready.size)
        for k in np.argsort(ready, kind="stable"):
            begin = max(free[0], ready[k])
            heapq.heapreplace(free, begin + self._service[k])
            waited[k] = begin - ready[k]
        return signal + waited + self.prefill_s


def _fewest(requests: _Requests, signal: Any, slo_s: float, attainment: float) -> int | None:
    """The fewest GPUs that keep the SLO; None where not even an endless number does."""

    def kept(gpus: int) -> bool:
        return bool(np.mean(requests.first_token_s(signal, gpus) <= slo_s) >= attainment)

    if np.mean(signal + requests.prefill_s <= slo_s) < attainment:
        return None
    lo, hi = 0, 1
    while not kept(hi):
        lo, hi = hi, 2 * hi
        if hi > MOST_GPUS:
            return None
    while hi - lo > 1:
        middle = (lo + hi) // 2
        lo, hi = (lo, middle) if kept(middle) else (middle, hi)
    return hi
