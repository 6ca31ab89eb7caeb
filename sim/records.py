"""What a run leaves: one row a request and one row a job (a request's inference for one signal), as arrays.

Times are seconds of simulated time; NaN where a step did not happen. Metrics read these afterwards; nothing reads them
during the run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from sim.node import NodeSpec, Work

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Records:
    """n requests by S signals. Steps of a request: arrived -> router_started -> router_ended -> answered.

    Steps of a job: ready (its stage started) -> locked (its lock domain is held) -> started (its session is held and it
    is on the device) -> ended.
    """

    node: NodeSpec
    work: Work
    arrived: Floats  # (n,)
    router_started: Floats
    router_ended: Floats
    answered: Floats
    failed: NDArray[np.bool_]
    ready: Floats  # (n, S)
    locked: Floats
    started: Floats
    ended: Floats

    @property
    def latency(self) -> Floats:
        """(n,) seconds from arrival to answer."""
        return self.answered - self.arrived

    def to_table(self) -> dict[str, NDArray[np.generic]]:
        """Flat columns for a Parquet file, one row a request, job columns as `<signal>_<step>`."""
        table: dict[str, NDArray[np.generic]] = {"class_of": self.work.class_of, "tokens": self.work.tokens}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray) and value.ndim == 1:
                table[field.name] = value
        for s, signal in enumerate(self.node.signals):
            for step in ("ready", "locked", "started", "ended"):
                table[f"{signal}_{step}"] = getattr(self, step)[:, s]
            table[f"{signal}_service_s"] = self.work.service_s[:, s]
            table[f"{signal}_occupancy"] = self.work.occupancy[:, s]
        return table
