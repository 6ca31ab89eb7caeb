"""Compare what was played with what is simulated, point by point and run by run.

Enters: scenario, profile, recordings. Leaves: one `Judged` a recording with two errors for each figure: `law`, the simulator
fed with the measured work of each inference, and `prediction`, from the profile alone. error = simulated / measured - 1.
Whether a prediction counts is decided before it is looked at, by the sentinel, by who else was on the machine, and by the
load; what does not count is shown with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiles.schema import Profile
from scenarios.schema import Scenario
from sim.node import node_of
from simcap.validate.live import figures
from simcap.validate.live.law import Basis, own_work, replay
from simcap.validate.live.predict import Predicted, plausible_of, predict
from simcap.validate.live.recording import Recording
from simcap.validate.live.speed import SPEED_BAND, Speed, speed_of

HIGHEST_SHARE = 0.5
"""Open loads above this share of saturation are unstable on a small machine: equal runs differ up to fourfold in p99."""

OTHERS_CORES = 0.1
"""Mean cores that others may use while a point is played."""


@dataclass(frozen=True)
class Judged:
    """interval: 95 % of each measured figure, within this run. law: None where own work is not identifiable. equal_shares: the
    same with equal shares instead of the measured run queues, where the profile has those. counted: whether the prediction
    counts.
    """

    recording: Recording
    measured: figures.Figures
    interval: Mapping[str, tuple[float, float]]
    law: figures.Figures | None
    law_basis: Basis | None
    equal_shares: figures.Figures | None
    prediction: Predicted
    speed: Speed | None
    remarks: tuple[str, ...]

    @property
    def counted(self) -> bool:
        return not self.remarks

    def error(self, of: Mapping[str, float], figure: str) -> float:
        return of[figure] / self.measured[figure] - 1


def judge(
    scenario: Scenario,
    profile: Profile,
    recordings: Sequence[Recording],
    threads: Mapping[str, int],
    *,
    cores: int,
    seed: int,
) -> list[Judged]:
    """All recordings, in their order."""
    node, plausible = node_of(scenario, profile), plausible_of(profile, seed)
    found = []
    for recording in recordings:
        known = own_work(scenario, threads, cores, recording)
        own, basis = known or (recording.played.ended - recording.played.started, None)
        work = own * np.array([threads[s] for s in scenario.signals])
        law = equal = None
        if basis is not None:
            law = figures.of_records(replay(node, recording, own, threads, cores), cores)
            if node.run_queues is not None:
                plain = dataclasses.replace(node, run_queues=None)
                equal = figures.of_records(replay(plain, recording, own, threads, cores), cores)
        speed = speed_of(recording, profile.sentinel)
        found.append(
            Judged(
                recording=recording,
                measured=figures.of_played(recording.played, float(np.nansum(work)), cores),
                interval=figures.bootstrap(recording.played, work, cores, seed),
                law=law,
                law_basis=basis,
                equal_shares=equal,
                prediction=predict(scenario, node, recording, plausible, cores=cores),
                speed=speed,
                remarks=tuple(_remarks(recording, speed)),
            )
        )
    return found


def _remarks(recording: Recording, speed: Speed | None) -> list[str]:
    """Why this prediction does not count; nothing when it does."""
    found = []
    if speed is None:
        found.append("no sentinel in the profile")
    elif abs(speed.during - 1) > SPEED_BAND:
        found.append("machine moved")
    others = recording.played.record.other_cores
    if others is not None and others > OTHERS_CORES:
        found.append(f"others used {others:.2f} cores")
    if recording.point.loop == "open" and recording.point.share > HIGHEST_SHARE:
        found.append("unstable here")
    return found
