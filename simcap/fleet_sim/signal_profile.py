"""Signal models as profile objects for fleet-sim, by table look-up. This file is copied into an export and runs there.

Enters: `signal_profile.json` beside this file (`simcap export fleet-sim` wrote both). Leaves: objects with fleet-sim's
profile protocol. Imports numpy alone; fleet-sim only in the functions that build its objects. Seconds, tokens, USD.

What fleet-sim calls a GPU is here one server with ONE slot: a router node (from a run), or one session alone on its
device (from a profile). `busy_s` is how long a text of so many tokens keeps it from the next one. A text is a
request's prompt, so `l_in` tokens count and `l_out` does not; signals have no decode phase. Between the table's lengths
the logarithm of seconds is linear in the logarithm of tokens; outside them the answer is a ValueError, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
SCHEMA = "simcap.fleet-sim-profile/1"
WHOLE_TEXT = 1 << 30  # tokens a prefill chunk: a signal reads its text in one inference
ROUNDING = 1  # tokens: fleet-sim splits a length in prompt and answer by int(), one off the length meant


class SignalProfile:
    """One server for fleet-sim. `table`: one entry of `profiles` in signal_profile.json."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.name = str(table["name"])
        self.cost_per_hr = float(table["cost_per_hr"])
        self.chunk, self.blk_size = WHOLE_TEXT, WHOLE_TEXT
        self.max_slots, self.total_kv_blks = 1, 1  # no KV cache: one text, one block
        self.mean_busy_s = table["mean_busy_s"]
        self._tokens = np.asarray(table["tokens"], dtype=float)
        self._busy = np.log(np.asarray(table["busy_s"], dtype=float))
        self._alone = np.log(np.asarray(table["alone_s"], dtype=float))

    def busy_s(self, tokens: float) -> float:
        """Seconds that a text keeps the server from the next one; its reciprocal is the rate that fills the server."""
        return self._at(self._busy, tokens)

    def outside_s(self, tokens: float) -> float:
        """Seconds of a request's latency during which the server already takes the next one (0 for one session)."""
        return max(self._at(self._alone, tokens) - self.busy_s(tokens), 0.0)

    def iter_latency(self, n_active: int, mean_seq_len: float | None = None) -> float:
        """A signal has no decode iteration: 0 with a length. Without one fleet-sim's optimizer asks for one prefill of a
        typical text, to add to the wait: the mean over the exported workload, or over the table for a profile.
        """
        return 0.0 if mean_seq_len is not None else float(self.mean_busy_s)

    def prefill_iter_latency(
        self, chunk_tokens: int, kv_history_tokens: float, n_active: int, mean_seq_len: float | None = None
    ) -> float:
        """The whole inference. fleet-sim passes half of the prompt's length as the mean history: that names the text."""
        return self.busy_s(2 * kv_history_tokens)

    def n_slots(self, max_ctx: int) -> int:
        return 1

    def service_time(self, l_in: int, l_out: int, max_ctx: int) -> float:
        return self.busy_s(l_in)

    def throughput(self, max_ctx: int, mean_l_in: float, mean_l_out: float) -> float:
        return 1.0 / self.busy_s(mean_l_in)

    def _at(self, values: np.ndarray[Any, np.dtype[np.float64]], tokens: float) -> float:
        lo, hi = self._tokens[0], self._tokens[-1]
        if not lo - ROUNDING <= tokens <= hi + ROUNDING:
            raise ValueError(
                f"{self.name}: a text of {tokens:g} tokens is outside the exported range of {lo:g} to {hi:g} tokens; "
                "export a run whose classes reach that far, or keep the workload inside"
            )
        return float(np.exp(np.interp(np.log(np.clip(tokens, lo, hi)), np.log(self._tokens), values)))


def read(folder: Path = HERE) -> dict[str, Any]:
    """The exported tables. ValueError when the file is of another kind or version."""
    data: dict[str, Any] = json.loads((folder / "signal_profile.json").read_text(encoding="utf-8"))
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{folder}: schema is {data.get('schema')!r}, this file reads {SCHEMA!r}")
    return data


def profiles(folder: Path = HERE) -> dict[str, SignalProfile]:
    """Every exported profile by name."""
    return {name: SignalProfile(table) for name, table in read(folder)["profiles"].items()}


def register(registry: MutableMapping[str, Any], folder: Path = HERE) -> None:
    """Add the objects to a registry of fleet-sim, such as `run_sim.GPU_REGISTRY`, which else answers with an A100."""
    registry.update(profiles(folder))


def slo_ms(folder: Path = HERE) -> float:
    """The run's SLO in ms less the latency that lies outside the server's slot: what fleet-sim is to keep."""
    return float(read(folder)["slo"]["fleet_sim_ms"])


def fleet_config(n_gpus: int | None = None, folder: Path = HERE) -> Any:
    """fleet-sim's `FleetConfig` of fleet.json with our objects in it. `n_gpus`: router nodes instead of the run's.

    `least_loaded`: fleet-sim's default balancer counts only waiting requests and would fill the first node alone.
    """
    from fleet_sim import FleetConfig, PoolConfig

    fleet, known = json.loads((folder / "fleet.json").read_text(encoding="utf-8")), profiles(folder)
    pools = [
        PoolConfig(p["id"], known[p["gpu"]], n_gpus or p["n_gpus"], p["max_ctx"], lb_strategy="least_loaded")
        for p in fleet["pools"]
    ]
    return FleetConfig(pools=pools, router_type="LeastLoadedRouter")


def arrivals(rate_rps: float, requests: int, seed: int, folder: Path = HERE) -> Any:
    """fleet-sim's Poisson arrivals with the lengths of workload.json."""
    from fleet_sim.workload import CdfWorkload, PoissonWorkload

    points = json.loads((folder / "workload.json").read_text(encoding="utf-8"))["cdf"]
    lengths = CdfWorkload(points, seed=seed)
    return PoissonWorkload(rate_rps, lengths, n_requests=requests, seed=seed).generate()
