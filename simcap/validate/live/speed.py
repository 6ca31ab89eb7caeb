"""How fast the machine was during a point, by the sentinel, and how fast it may be in a run that counts.

Enters: a recording and the profile's sentinel. Leaves: `Speed`; draws of a factor on all service times. Above 1 the machine is
slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrate.live import Load
from profiles.schema import Sentinel
from simcap.validate.live.recording import Recording

SPEED_BAND = 0.10
"""The sentinel may be so much slower or faster than in calibration; beyond it the machine has moved."""


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


def draw_speed(rng: np.random.Generator) -> float:
    """The speed of a run that counts: anywhere in the band, since nothing says where.

    The spread between merged runs would be the other choice. It knows three or four moments of the machine, and intervals made
    of it covered 80 % of what was measured instead of 95 % (docs/explanation/live-validation.md).
    """
    return math.exp(float(rng.uniform(math.log(1 - SPEED_BAND), math.log(1 + SPEED_BAND))))
