"""Law error: the simulator gets the seconds of work that the live run itself measured, so that only queues, locks and
sharing are on trial.

What a job's own work is, and how it can be known: where the node never holds more inferences than the cores serve at full
speed (a pool of N workers on N cores), it is end - start. Where more can run than there are cores, end - start holds the
waiting for a core too; then it is the CPU time of the inference's thread, which the system counts only while the thread is on
a core. That needs sessions of one thread: with more, the CPU time of the others is not seen, and a law error on shared cores
is not identifiable (`own_work` says so). CPU time still holds what caches and memory slow down; so the law on trial is who
gets a core when, and not what sharing a cache costs. Enters: scenario, profile (structure only), recording. Leaves: seconds,
records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scenarios.schema import Scenario
from scenarios.threads import most_threads
from sim.arrivals import Arrivals, ClosedLoop, OpenLoop
from sim.engine import simulate
from sim.node import NodeSpec
from sim.records import Records
from sim.streams import Streams
from sim.work import Work
from simcap.validate.live.recording import Recording

Floats = NDArray[np.float64]
Basis = Literal["end - start", "CPU time"]


def own_work(
    scenario: Scenario, threads: Mapping[str, int], cores: int, recording: Recording
) -> tuple[Floats, Basis] | None:
    """(n, S) seconds of each inference's own work and how it is known; None where it is not identifiable."""
    played = recording.played
    if most_threads(scenario, threads) <= cores:
        return played.ended - played.started, "end - start"
    if all(count == 1 for count in threads.values()):
        return played.cpu_s, "CPU time"
    return None


def work_of(recording: Recording, own_s: Floats, share: Floats) -> Work:
    """The requests of a recording with these seconds of work. share: (S,) or (n, S) of the device."""
    load = recording.played.load
    n = load.times_s.size
    return Work(
        class_of=recording.class_of,
        tokens=load.tokens.max(axis=1),
        router_s=np.zeros(n),
        needed=load.needed,
        service_s=np.where(load.needed, np.nan_to_num(own_s), 0.0),
        occupancy=np.where(load.needed, np.broadcast_to(share, load.needed.shape), 1.0),
        processed=load.tokens,
    )


def arrivals_of(recording: Recording) -> Arrivals:
    """An open loop by when requests truly came, so that the generator's lateness is not the node's."""
    load = recording.played.load
    if load.clients:
        return ClosedLoop(load.clients, load.times_s)
    return OpenLoop(np.maximum.accumulate(recording.played.arrived))


def replay(node: NodeSpec, recording: Recording, own_s: Floats, threads: Mapping[str, int], cores: int) -> Records:
    """The recording's requests through the simulated node with their measured work."""
    share = np.minimum(np.array([threads[s] for s in node.signals]) / cores, 1.0)
    bare = dataclasses.replace(node, variants=())  # provider, artifact and weights play no part here
    work = work_of(recording, own_s, share)
    return simulate(bare, work, arrivals_of(recording), Streams(0, recording.run), engine="auto")
