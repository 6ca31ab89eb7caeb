"""Prediction: the recording's requests (arrivals, classes, lengths, needs) with service times from the profile alone.

Many replications give the predicted figures as they would scatter over runs of this very length: their mean is the prediction,
their 2.5 and 97.5 % quantiles the interval. In each, service times are drawn anew from a plausible profile
(`profiles.plausible`: what other samples might have given, and what each cell has moved by between merged runs) on a machine
whose speed lies anywhere in the band in which a run counts; so the interval speaks of another run on this machine that
counts.

Cadence: as the signal says, else `tight` for clients that never pause and `paced` for all other loads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import profiles.plausible
from calibrate.in_place import Cadence
from profiles.schema import Profile
from profiles.spread import spread_of
from scenarios.loader import entries_of
from scenarios.schema import Scenario
from sim.engine import Asked, simulate
from sim.node import NodeSpec
from sim.streams import Streams
from simcap.validate.live import figures
from simcap.validate.live.law import arrivals_of, work_of
from simcap.validate.live.recording import Recording
from simcap.validate.live.speed import back_to_back, draw_speed

Floats = NDArray[np.float64]
REPLICATIONS = 100
FIRST = 1_000_000  # replications of predictions share no stream with the runs that were played


@dataclasses.dataclass(frozen=True)
class Predicted:
    """mean, lo, hi: by figure."""

    mean: figures.Figures
    lo: figures.Figures
    hi: figures.Figures


@dataclasses.dataclass(frozen=True)
class Plausible:
    """One replication's profile, and its machine's speed: above 1 it is slower."""

    profile: Profile
    slow: float
    streams: Streams


def plausible_of(profile: Profile, seed: int) -> list[Plausible]:
    """One for each of REPLICATIONS; the same for every point."""
    spread = spread_of(profile)
    found = []
    for r in range(REPLICATIONS):
        streams = Streams(seed, FIRST + r)
        slow = draw_speed(streams.generator("machine"))
        # side 0: how the runs differ as a whole is in the speed already
        drawn = profiles.plausible.Plausible(profile, spread, 0.0, streams.generator).profile()
        found.append(Plausible(drawn, slow, streams))
    return found


def predict(
    scenario: Scenario,
    node: NodeSpec,
    recording: Recording,
    plausible: Sequence[Plausible],
    *,
    cores: int,
    engine: Asked = "auto",
) -> Predicted:
    """The figures of this recording as the profile has them."""
    bare, arrivals = dataclasses.replace(node, variants=()), arrivals_of(recording)
    found: list[figures.Figures] = []
    for one in plausible:
        own, share = _draw(scenario, one.profile, recording, one.streams)
        records = simulate(bare, work_of(recording, own * one.slow, share), arrivals, one.streams, engine=engine)
        found.append(figures.of_records(records, cores))
    table = {name: np.array([one[name] for one in found]) for name in figures.FIGURES}
    return Predicted(
        mean={name: float(values.mean()) for name, values in table.items()},
        lo={name: float(np.percentile(values, 2.5)) for name, values in table.items()},
        hi={name: float(np.percentile(values, 97.5)) for name, values in table.items()},
    )


def _draw(scenario: Scenario, profile: Profile, recording: Recording, streams: Streams) -> tuple[Floats, Floats]:
    """(n, S) service seconds and occupancy of the needed inferences."""
    load = recording.played.load
    own, share = np.zeros(load.needed.shape), np.ones(load.needed.shape)
    bound = entries_of(scenario, profile)
    cadence: Cadence = "tight" if back_to_back(load) else "paced"
    for s, (name, signal) in enumerate(scenario.signals.items()):
        entry, rows = bound[name][signal.provider, signal.artifact], load.needed[:, s]
        tokens = load.tokens[rows, s]
        u = streams.generator(f"service:{name}").random(load.times_s.size)[rows]
        own[rows, s] = entry.surface(signal.cadence or cadence).sample(tokens, u)
        share[rows, s] = entry.occupancy_curve().at(tokens)
    return own, share
