"""Play the points of the runs that are not on disk yet, each in a fresh process.

Enters: scenario, profile, host, folder, which points. Leaves: recordings in the folder. Within a run the closed points come
in random order, then the open ones; the saturation is the throughput of the most clients in run 1.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from calibrate.live import Host, Played, lagged
from profiles.errors import FindingError
from profiles.schema import Profile
from scenarios.schema import Scenario
from simcap.validate.live.points import Point, requests_for
from simcap.validate.live.recording import Folder, Recording

PATIENCE = 6.0  # a point is given up after so many times its expected length, and half a minute


@dataclass(frozen=True)
class Plan:
    """clients: of the closed points. shares: of the saturation, for the open ones. seconds: a closed point takes about so
    long, an open one `open_seconds`. parallel: inferences that run at full speed at once.
    """

    clients: Sequence[int]
    shares: Sequence[float]
    runs: int
    seconds: float
    open_seconds: float
    parallel: int
    seed: int


def play_missing(
    scenario: Scenario, profile: Profile, host: Host, folder: Folder, plan: Plan, say: Callable[[str], None]
) -> list[str]:
    """Play what is not there; returns why points were refused, which are not kept."""
    refused = []
    for run in range(1, plan.runs + 1):
        closed = [Point("closed", clients=c) for c in plan.clients]
        opened = list(plan.shares)
        rng = random.Random(f"{plan.seed}/{run}")  # noqa: S311 - an order of measurement is no secret
        rng.shuffle(closed)
        rng.shuffle(opened)
        for point in closed:
            refused += _play(scenario, profile, host, folder, plan, point, run, say)
        if not opened:
            continue
        saturation = saturation_of(folder)
        for share in opened:
            point = Point("open", share=share, rps=share * saturation)
            refused += _play(scenario, profile, host, folder, plan, point, run, say)
    return refused


def saturation_of(folder: Folder) -> float:
    """Requests a second of the first run's point with the most clients."""
    closed = [r for r in folder.read() if r.point.loop == "closed" and r.run == 1]
    if not closed:
        raise FindingError("no closed point was played in run 1, so no saturation is known to take shares of")
    return throughput(max(closed, key=lambda r: r.point.clients).played)


def throughput(played: Played) -> float:
    """Answers a second from the first arrival to the last answer."""
    return played.answered.size / float(np.max(played.answered) - np.min(played.arrived))


def _play(
    scenario: Scenario,
    profile: Profile,
    host: Host,
    folder: Folder,
    plan: Plan,
    point: Point,
    run: int,
    say: Callable[[str], None],
) -> list[str]:
    if folder.file(point, run).is_file():
        return []
    seconds = plan.seconds if point.loop == "closed" else plan.open_seconds
    wanted = requests_for(scenario, profile, point, plan.seed, run, seconds=seconds, parallel=plan.parallel)
    say(f"run {run}: {point.label}, {wanted.work.tokens.size} requests")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    played = host.play(wanted.load, PATIENCE * seconds + 30)
    if (reason := lagged(played)) is not None:
        return [f"{point.label}, run {run}: refused: {reason}; leave the machine idle and go on with the same command"]
    folder.save(Recording(point, run, wanted.work.class_of, played, started))
    return []
