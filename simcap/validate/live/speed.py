"""How fast the machine was during a point, by the sentinel, and how fast it may be in a run that counts.

Enters: a recording and the profile's sentinel; the spread between the runs that the profile was merged from. Leaves: `Speed`;
draws of a factor on all service times. Above 1 the machine is slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrate.live import Load
from profiles.schema import Sentinel
from profiles.spread import Spread
from simcap.validate.live.recording import Recording

SPEED_BAND = 0.10
"""The sentinel may be so much slower or faster than in calibration; beyond it the machine has moved."""

TRIES = 1000


@dataclass(frozen=True)
class Speed:
    """The sentinel's median over that in calibration. during: its CPU time while the load ran. together: one on each core at
    once, before and after the load; others on the machine show there.
    """

    during: float
    together: float


def speed_of(recording: Recording, sentinel: Sentinel | None) -> Speed | None:
    """None for a profile without a sentinel."""
    record, load = recording.played.record, recording.played.load
    if sentinel is None or not record.pulses:
        return None
    reference = sentinel.tight_s if back_to_back(load) else sentinel.paced_s
    together = [float(np.median(look.together)) / 1e9 for look in record.sentinels]
    return Speed(
        during=float(np.median(record.pulses)) / 1e9 / reference.value,
        together=float(np.mean(together)) / sentinel.together_s.value,
    )


def back_to_back(load: Load) -> bool:
    """Clients that never pause; every other load leaves idle gaps."""
    return load.clients > 0 and not np.any(load.times_s > 0)


def draw_speed(spread: Spread, rng: np.random.Generator) -> float:
    """The speed of another run that counts, so within SPEED_BAND.

    From the spread between merged runs by Student's t, exp(t s sqrt(1 + 1/K)) with K - 1 degrees of freedom; a profile of one
    run knows nothing of other runs, and then every speed of the band is as likely.
    """
    lo, hi = math.log(1 - SPEED_BAND), math.log(1 + SPEED_BAND)
    if spread.runs >= 2:
        scale = spread.machine * math.sqrt(1 + 1 / spread.runs)
        for _ in range(TRIES):
            drawn = scale * float(rng.standard_t(spread.runs - 1))
            if lo <= drawn <= hi:
                return math.exp(drawn)
    return math.exp(float(rng.uniform(lo, hi)))
