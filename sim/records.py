"""What a run leaves: one row a request and one row a job (a request's inference for one signal), as arrays.

Times are seconds of simulated time; NaN where a step did not happen. Metrics read these afterwards; nothing reads them
during the run. Of a request that was sent again the records tell the last attempt; `entered - arrived` is what the
attempts before it and the pauses between took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from sim.node import NodeSpec
from sim.tracks import FAILURES, STALLS, Lost, Tracks
from sim.work import Work

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """What happened besides requests. Times in seconds, memory in bytes.

    steps_down: (variant, reason) -> count. compiles: time, replica, variant, tokens, seconds. memory: time, replica,
    device, bytes in use. watermarks: the same, each crossing upwards. lost: inferences that nobody waited for. holds:
    variant, start, end of a session held by who was not on the device.
    """

    steps_down: Mapping[tuple[int, str], int] = field(default_factory=dict)
    compiles: tuple[tuple[float, int, int, int, float], ...] = ()
    memory: tuple[tuple[float, int, int, float], ...] = ()
    lost: tuple[Lost, ...] = ()
    holds: tuple[tuple[int, float, float], ...] = ()
    watermarks: tuple[tuple[float, int, int, float], ...] = ()


@dataclass(frozen=True)
class Records:
    """n requests by S signals. Steps of a request: arrived -> entered -> router_started -> router_ended -> answered.

    Steps of a job: ready (its stage started) -> locked (its lock domain is held) -> started (its session is held and it
    is on the device, for the last time) -> ended. own_s: seconds of own work on the device; share: the
    occupancy used (0 for those that ride along in a batch); device: its number. variant: which step of the
    provider order ran it, -1 for none. stalls: kind -> (n, S) seconds with a session and not on the device. failure:
    position in `sim.tracks.FAILURES`, 0 for none.
    """

    node: NodeSpec
    work: Work
    arrived: Floats  # (n,)
    entered: Floats
    router_started: Floats
    router_ended: Floats
    answered: Floats
    failure: Ints
    retries: Ints
    replica: Ints
    ready: Floats  # (n, S)
    locked: Floats
    started: Floats
    ended: Floats
    own_s: Floats
    share: Floats
    device: Ints
    variant: Ints
    stalls: Mapping[str, Floats]
    events: Events

    @property
    def failed(self) -> NDArray[np.bool_]:
        """(n,) whether the request failed for good."""
        return np.asarray(self.failure != 0)

    @property
    def latency(self) -> Floats:
        """(n,) seconds from arrival to answer, or to the moment of failing."""
        return self.answered - self.arrived

    def to_table(self) -> dict[str, NDArray[np.generic]]:
        """Flat columns for a Parquet file, one row a request, job columns as `<signal>_<step>`."""
        table: dict[str, NDArray[np.generic]] = {"class_of": self.work.class_of, "tokens": self.work.tokens}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray) and value.ndim == 1:
                table[each.name] = value
        for s, signal in enumerate(self.node.signals):
            for step in ("ready", "locked", "started", "ended", "own_s", "variant"):
                table[f"{signal}_{step}"] = getattr(self, step)[:, s]
            for kind, seconds in self.stalls.items():
                table[f"{signal}_{kind}_s"] = seconds[:, s]
        return table


def records_of(node: NodeSpec, work: Work, tracks: Tracks, end: float) -> Records:
    """Arrays of everything on the tracks; a request without an answer has failed at the end of time, unfinished."""
    shape = work.needed.shape
    answered, failure = np.array(tracks.answered), np.array(tracks.failure)
    unfinished = np.isnan(answered) & ~np.isnan(np.array(tracks.arrived))
    answered[unfinished] = end
    failure[unfinished] = FAILURES.index("unfinished")
    stalls = {kind: np.zeros(shape) for kind in STALLS}
    for (kind, job), seconds in tracks.stalls.items():
        stalls[kind][divmod(job, shape[1])] = seconds
    return Records(
        node=node,
        work=work,
        arrived=np.array(tracks.arrived),
        entered=np.array(tracks.entered),
        router_started=np.array(tracks.router_started),
        router_ended=np.array(tracks.router_ended),
        answered=answered,
        failure=failure,
        retries=np.array(tracks.retries),
        replica=np.array(tracks.replica),
        ready=np.array(tracks.ready).reshape(shape),
        locked=np.array(tracks.locked).reshape(shape),
        started=np.array(tracks.started).reshape(shape),
        ended=np.array(tracks.ended).reshape(shape),
        own_s=np.array(tracks.own_s).reshape(shape),
        share=np.array(tracks.share).reshape(shape),
        device=np.array(tracks.device).reshape(shape),
        variant=np.array(tracks.variant).reshape(shape),
        stalls=stalls,
        events=Events(
            steps_down=dict(tracks.steps_down),
            compiles=tuple(tracks.compiles),
            memory=tuple(tracks.memory),
            lost=tuple(tracks.lost),
            holds=tuple(tracks.holds),
            watermarks=tuple(tracks.watermarks),
        ),
    )
