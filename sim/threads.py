"""By which law the threads of inferences share the cores of a CPU when there are more of them.

Enters: scenario, profile. Leaves: a `RunQueueSpec` where threads can outnumber the cores and the profile has measured
how the system deals cores out, else None: equal shares (`sim.device`).
"""

from __future__ import annotations

from dataclasses import dataclass

from profiles.schema import Profile
from scenarios.loader import entries_of
from scenarios.schema import Scenario
from scenarios.threads import most_threads


@dataclass(frozen=True)
class RunQueueSpec:
    """The scheduler of a CPU whose threads can outnumber its cores: see `sim.run_queues`."""

    cores: int
    slice_s: float
    pull_s: float


def run_queues_of(scenario: Scenario, profile: Profile) -> RunQueueSpec | None:
    """Where the CPU's scheduler was measured, and threads of one a session can outnumber the cores."""
    scheduling, cores = profile.device.scheduling, profile.device.cores
    bound = entries_of(scenario, profile)
    choices = {name: bound[name][s.provider, s.artifact] for name, s in scenario.signals.items()}
    threads = {name: entry.provider.threads or 1 for name, entry in choices.items()}
    if (
        scheduling is None
        or cores is None
        or any(e.device != "cpu" for e in choices.values())
        or set(threads.values()) != {1}
    ):
        return None
    if most_threads(scenario, threads) <= cores:
        return None
    return RunQueueSpec(cores, scheduling.slice_s.value, scheduling.pull_s.value)
