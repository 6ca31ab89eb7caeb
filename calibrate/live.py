"""Play a load for real: a scenario's sessions, lock domains and threads in the provider's runtime, step by step timed.

Enters: a scenario, the file and threads behind each signal, a `Load` (who needs what, when). Leaves: `Played`: the times
of every step in seconds from the start, and what the sentinel and the system saw meanwhile. What the host does not play
(fallbacks, compiles, batching, windows, several replicas, router work, …) is refused by `unplayable`, not left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.artifacts import Artifact
from calibrate.launch import Launch
from calibrate.results import LiveRecord
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.errors import InputError, MeasurementError
from scenarios.node import RouterCpu
from scenarios.schema import Scenario

Floats = NDArray[np.float64]

LEAST_SENTINEL_S = 0.4
PULSE_S = 0.5
LATE_S, LATE_SHARE = 0.005, 0.25
"""The generator may be late by so many seconds at p99, or by this share of the mean gap between arrivals, whichever is more."""
OVERHEAD_S = 120.0  # a worker's start and loading all sessions, at most


@dataclass(frozen=True)
class Hosted:
    """What stands behind a signal: an ONNX file, provider options, intra-op threads of each session."""

    artifact: Artifact
    threads: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Load:
    """needed: (n, S). tokens: (n, S) that one inference sees. times_s: (n,) arrivals of an open loop, or thinking times of
    `clients` clients of a closed one (0: open).
    """

    needed: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    times_s: Floats
    clients: int = 0


@dataclass(frozen=True)
class Played:
    """arrived, answered: (n,). The rest: (n, S), NaN where a signal was not needed. cpu_s: CPU seconds of the inference's
    own thread, which is all of its work where a session has one thread.
    """

    load: Load
    arrived: Floats
    answered: Floats
    ready: Floats
    locked: Floats
    started: Floats
    ended: Floats
    cpu_s: Floats
    record: LiveRecord

    @property
    def latency(self) -> Floats:
        return self.answered - self.arrived

    @property
    def late_s(self) -> Floats:
        """(n,) by how much the load generator was late; zeros in a closed loop, which has no timetable."""
        return np.zeros_like(self.arrived) if self.load.clients else self.arrived - self.load.times_s


def lagged(played: Played) -> str | None:
    """A sentence when the load generator was too late for the load to be what was asked for."""
    if played.load.clients or played.load.times_s.size < 2:
        return None
    gap = float(np.mean(np.diff(played.load.times_s)))
    late, allowed = float(np.percentile(played.late_s, 99)), max(LATE_S, LATE_SHARE * gap)
    if late <= allowed:
        return None
    return f"the load generator lagged: {1000 * late:.1f} ms at p99, where {1000 * allowed:.1f} ms are allowed"


def unplayable(scenario: Scenario) -> list[str]:
    """What the scenario asks for and the host does not play, in words."""
    signals = scenario.signals.values()
    asked = {
        "node.memory": scenario.node.memory is not None,
        "node.co_tenants": bool(scenario.node.co_tenants),
        "node.gpus": scenario.node.gpu_devices > 1,
        "cache": scenario.cache is not None,
        "limits": scenario.limits.model_fields_set != set(),
        "replicas": scenario.replicas.count > 1 or bool(scenario.replicas.faults) or scenario.replicas.start == "cold",
        "router.cpu (give {base_s: 0})": scenario.router.cpu != RouterCpu(base_s=0.0),
        "signals.*.fallbacks": any(s.fallbacks for s in signals),
        "signals.*.compile": any(s.compile for s in signals),
        "signals.*.batching": any(s.batching for s in signals),
        "signals.*.windows": any(s.windows for s in signals),
        "signals.*.queue_limit": any(s.queue_limit is not None for s in signals),
        "signals.*.available": not all(s.available for s in signals),
        "signals.*.failure_probability": any(s.failure_probability for s in signals),
        f"arrivals.process {scenario.arrivals.process}": scenario.arrivals.process == "burst",
    }
    return [what for what, present in asked.items() if present]


def check_playable(scenario: Scenario) -> None:
    if found := unplayable(scenario):
        raise InputError(f"scenario {scenario.name}: a live host does not play {', '.join(found)}; leave it out")


class Host:
    """A scenario's node, to be started for one load after the other. `sentinel`: a signal and tokens, looked at before and
    after each load, alone and on `width` cores at once.
    """

    def __init__(
        self,
        scenario: Scenario,
        hosted: Mapping[str, Hosted],
        launch: Launch,
        *,
        sentinel: tuple[Hosted, int],
        width: int,
        seed: int,
    ) -> None:
        check_playable(scenario)
        self._launch, self._seed, self._hosted = launch, seed, hosted
        self._providers = {name: signal.provider for name, signal in scenario.signals.items()}
        names, domains = list(scenario.signals), list(scenario.lock_domains)
        one, tokens = sentinel
        self._job: dict[str, Any] = {
            "op": "live",
            "seed": seed,
            "signals": [
                {
                    **self._session(hosted[name], scenario.signals[name].provider),
                    "sessions": scenario.signals[name].sessions,
                    "domain": domains.index(d) if (d := scenario.signals[name].lock_domain) else None,
                }
                for name in names
            ],
            "domains": [{"width": d.width, "order": d.order} for d in scenario.lock_domains.values()],
            "stages": [[names.index(s) for s in stage.signals] for stage in scenario.walk],
            "sentinel": {
                **self._session(one, scenario.signals[names[0]].provider),
                "tokens": tokens,
                "batch": 1,
                "width": width,
                "seconds": LEAST_SENTINEL_S,
                "every_s": PULSE_S,
            },
        }

    def session(self, signal: str) -> dict[str, Any]:
        """What a worker needs to make a session of this signal."""
        return self._session(self._hosted[signal], self._providers[signal])

    def _session(self, hosted: Hosted, provider: str) -> dict[str, Any]:
        return {
            "model": str(hosted.artifact.path),
            "provider": EXECUTION_PROVIDERS[provider],  # type: ignore[index]  # names of one list, checked by the scenario
            "provider_options": dict(hosted.options),
            "threads": hosted.threads,
            "max_id": hosted.artifact.max_id,
            "seed": self._seed,
        }

    def play(self, load: Load, limit_s: float) -> Played:
        """Play it in a fresh process; MeasurementError when it did not end within `limit_s` seconds of traffic."""
        with tempfile.TemporaryDirectory(prefix="simcap-") as folder:
            arrays, out = Path(folder) / "load.npz", Path(folder) / "steps.npz"
            np.savez(arrays, needed=load.needed, tokens=load.tokens, times_s=load.times_s)
            job = {**self._job, "arrays": str(arrays), "out": str(out), "clients": load.clients, "wait_s": limit_s}
            outcome = self._launch(job, limit_s + OVERHEAD_S)
            record = next((r for r in outcome.records if isinstance(r, LiveRecord)), None)
            if record is None:
                raise MeasurementError(f"the live host brought nothing: {outcome.status}: {outcome.reason}")
            with np.load(out) as steps:
                return Played(load=load, record=record, **{name: steps[name] for name in steps.files})
