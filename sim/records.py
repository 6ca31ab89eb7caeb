"""What a run leaves: one row a request and one row a job (a request's inference for one signal), as arrays.

Times are seconds of simulated time; NaN where a step did not happen. Metrics read these afterwards; nothing reads them
during the run. Of a request that was sent again the records tell the last attempt; `entered - arrived` is what the
attempts before it and the pauses between took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

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


def records_of(node: NodeSpec, work: Work, tracks: Tracks, end: float, places: slice = slice(None)) -> Records:
    """Arrays of what is on the tracks; a request without an answer has failed at the end of time, unfinished.

    `places`: of some requests only, whose rows `work` holds. The events are taken off the tracks.
    """
    shape = n, signals = work.needed.shape
    first = places.start or 0
    jobs = slice(first * signals, (first + n) * signals)
    answered, failure = np.array(tracks.answered[places]), np.array(tracks.failure[places])
    unfinished = np.isnan(answered) & ~np.isnan(np.array(tracks.arrived[places]))
    answered[unfinished] = end
    failure[unfinished] = FAILURES.index("unfinished")
    stalls = {kind: np.zeros(shape) for kind in STALLS}
    for kind, job in [key for key in tracks.stalls if jobs.start <= key[1] < jobs.stop]:
        stalls[kind][divmod(job - jobs.start, signals)] = tracks.stalls.pop((kind, job))

    def by_job(column: list[float] | list[int]) -> Any:
        return np.array(column[jobs]).reshape(shape)

    return Records(
        node=node,
        work=work,
        arrived=np.array(tracks.arrived[places]),
        entered=np.array(tracks.entered[places]),
        router_started=np.array(tracks.router_started[places]),
        router_ended=np.array(tracks.router_ended[places]),
        answered=answered,
        failure=failure,
        retries=np.array(tracks.retries[places]),
        replica=np.array(tracks.replica[places]),
        ready=by_job(tracks.ready),
        locked=by_job(tracks.locked),
        started=by_job(tracks.started),
        ended=by_job(tracks.ended),
        own_s=by_job(tracks.own_s),
        share=by_job(tracks.share),
        device=by_job(tracks.device),
        variant=by_job(tracks.variant),
        stalls=stalls,
        events=_take_events(tracks),
    )


def _take_events(tracks: Tracks) -> Events:
    events = Events(
        steps_down=dict(tracks.steps_down),
        compiles=tuple(tracks.compiles),
        memory=tuple(tracks.memory),
        lost=tuple(tracks.lost),
        holds=tuple(tracks.holds),
        watermarks=tuple(tracks.watermarks),
    )
    for taken in (tracks.compiles, tracks.memory, tracks.lost, tracks.holds, tracks.watermarks):
        taken.clear()
    tracks.steps_down.clear()
    return events
