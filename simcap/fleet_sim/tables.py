"""What `signal_profile.json` holds: how long a text of so many tokens keeps a server, and how long it takes alone.

From a profile: one session alone on its device; both figures are the mean of the measured law at each calibrated length.
From a run: one router node with all of its signals, lock domains, devices and router CPU, through our own simulator, at
each length: with enough clients in a closed loop to keep it full, seconds a request are 1 / throughput (`busy_s`); with
one client the mean latency is `alone_s`. Each over independent replications, with a 95 % interval for `busy_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from profiles.entry import Entry
from profiles.errors import InputError
from profiles.schema import Profile, origins
from scenarios.arrivals import Closed, Load
from scenarios.loader import bind, entries_of, read_trace
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from scenarios.workload import Fixed, FromTrace
from sim.engine import run_once
from sim.intervals import interval
from sim.metrics import figures

CLIENTS = 64  # in the closed loop that keeps a node full
FULL_REQUESTS, ALONE_REQUESTS, REPLICATIONS = 600, 100, 5
MOST_KNOTS = 24


@dataclass(frozen=True)
class Table:
    """Seconds by tokens (increasing). `busy_lo`, `busy_hi`: 95 % interval of busy_s, None where nothing was simulated."""

    name: str
    what: str
    tokens: tuple[int, ...]
    busy_s: tuple[float, ...]
    alone_s: tuple[float, ...]
    origins: dict[str, int]
    busy_lo: tuple[float, ...] | None = None
    busy_hi: tuple[float, ...] | None = None


Progress = Callable[[int, int], None]


def of_profile(profile: Profile) -> list[Table]:
    """One table for each entry that has service times. Raises InputError when there is none."""
    found = [_of_entry(entry) for entry in profile.entries if entry.service or entry.paced_service]
    if not found:
        raise InputError(f"profile {profile.name} holds no service times; measure them with simcap calibrate")
    return found


def _of_entry(entry: Entry) -> Table:
    surface = entry.service or entry.paced_service
    if surface is None:
        raise ValueError("an entry without service times")
    smallest = min(cell.batch for cell in surface.cells)
    cells = sorted((cell for cell in surface.cells if cell.batch == smallest), key=lambda cell: cell.tokens)
    means = tuple(cell.law().mean for cell in cells)
    what = f"one session of {entry.key} alone on its device, batch {smallest}"
    name = f"{entry.model}-{entry.artifact}-{entry.provider.name}"
    return Table(name, what, tuple(cell.tokens for cell in cells), means, means, origins(entry))


def of_run(scenario: Scenario, profile: Profile, seed: int, progress: Progress | None = None) -> Table:
    """The node of this scenario as one server. Lengths: all that its classes draw."""
    trace = read_trace(scenario)
    bind(scenario, profile, trace=trace)
    ranges = _ranges(scenario, None if trace is None else trace.range_of_tokens)
    if trace is not None:
        scenario = _weighted(scenario, trace)
    knots = _knots(scenario, profile, ranges.values())
    busy, alone = [], []
    for k, tokens in enumerate(knots):
        node = _at_length(scenario, tokens, ranges)
        busy.append(_seconds(node, profile, seed, _clients(scenario), FULL_REQUESTS, full=True))
        alone.append(_seconds(node, profile, seed, 1, ALONE_REQUESTS, full=False))
        if progress:
            progress(k + 1, len(knots))
    spread = [interval(seconds, lowest=0.0) for seconds in busy]
    means = [_mean(values, tokens) for values, tokens in zip(busy, knots, strict=True)]
    entries = {e.key: e for by_choice in entries_of(scenario, profile).values() for e in by_choice.values()}
    counts: dict[str, int] = {}
    for entry in entries.values():
        for origin, count in origins(entry).items():
            counts[origin] = counts.get(origin, 0) + count
    return Table(
        name=f"{scenario.name}-node",
        what=f"one router node of scenario {scenario.name} on profile {profile.name}: all of its signals, lock domains, devices and router CPU",
        tokens=tuple(knots),
        busy_s=tuple(means),
        alone_s=tuple(_mean(values, tokens) for values, tokens in zip(alone, knots, strict=True)),
        origins=counts,
        busy_lo=tuple(m if i.lo is None else i.lo for i, m in zip(spread, means, strict=True)),
        busy_hi=tuple(m if i.hi is None else i.hi for i, m in zip(spread, means, strict=True)),
    )


def _weighted(scenario: Scenario, trace: TraceRows) -> Scenario:
    """Classes with the share that each has in the trace, where the trace says which request is of which."""
    if trace.class_of is None:
        return scenario
    counts = np.bincount(trace.class_of, minlength=len(scenario.classes)) / len(trace)
    pairs = zip(scenario.classes.items(), counts.tolist(), strict=True)
    classes = {name: kind.model_copy(update={"weight": share}) for (name, kind), share in pairs if share > 0}
    return scenario.model_copy(update={"classes": classes})


def _clients(scenario: Scenario) -> int:
    return min(CLIENTS, scenario.limits.max_in_flight or CLIENTS)


def _ranges(scenario: Scenario, of_trace: Callable[[int], tuple[int, int] | None] | None) -> dict[str, tuple[int, int]]:
    """Shortest and longest text of each class that can come."""
    found: dict[str, tuple[int, int]] = {}
    for k, (name, kind) in enumerate(scenario.classes.items()):
        if isinstance(kind.tokens, FromTrace):
            seen = of_trace(k) if of_trace else None
            if seen is not None:
                found[name] = seen
        else:
            found[name] = kind.tokens.support
    return found


def _knots(scenario: Scenario, profile: Profile, ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Lengths to simulate: the ends, the calibrated lengths, both sides of every step (bucket, limit, window)."""
    ends = {t for pair in ranges for t in pair}
    lo, hi = min(ends), max(ends)
    wanted = set(ends)
    for signal in scenario.signals.values():
        steps = (*(signal.buckets or ()), signal.max_tokens, signal.windows.tokens if signal.windows else None)
        wanted |= {t for step in steps if step is not None for t in (step, step + 1)}
    for by_choice in entries_of(scenario, profile).values():
        for entry in by_choice.values():
            surface = entry.service or entry.paced_service
            wanted |= {cell.tokens for cell in surface.cells} if surface else set()
    inside = sorted(t for t in wanted if lo <= t <= hi)
    if len(inside) > MOST_KNOTS:
        kept = np.unique(np.linspace(0, len(inside) - 1, MOST_KNOTS).astype(int))
        return [inside[k] for k in kept]
    return inside


def _at_length(scenario: Scenario, tokens: int, ranges: dict[str, tuple[int, int]]) -> Scenario:
    """The node alone, without faults and time-outs, where every request has this length; classes that never have it left out."""
    with_it = {name: kind for name, kind in scenario.classes.items() if name in ranges and _holds(ranges[name], tokens)}
    total = sum(kind.weight or 1.0 for kind in with_it.values())
    law = Fixed(law="fixed", tokens=tokens)
    classes = {
        name: kind.model_copy(update={"tokens": law, "weight": (kind.weight or 1.0) / total})
        for name, kind in with_it.items()
    }
    return scenario.model_copy(
        update={
            "classes": classes,
            "arrivals": Closed(process="closed", think_time_s=0.0),
            "replicas": scenario.replicas.model_copy(update={"count": 1, "faults": (), "start": "warm"}),
            "limits": scenario.limits.model_copy(update={"timeout_ms": None, "retry": None}),
        }
    )


def _holds(bounds: tuple[int, int], tokens: int) -> bool:
    return bounds[0] <= tokens <= bounds[1]


def _seconds(node: Scenario, profile: Profile, seed: int, clients: int, requests: int, *, full: bool) -> list[float]:
    """One figure a replication: seconds a request when full, mean latency otherwise."""
    wanted = node.model_copy(
        update={
            "load": Load(clients=(clients,)),
            "measurement": node.measurement.model_copy(update={"requests": requests}),
        }
    )
    found = []
    for replication in range(REPLICATIONS):
        records = run_once(wanted, profile, seed, clients, replication)
        run = figures(records, tuple(wanted.classes), node.slo.latency_s, node.slo.attainment, bursts=False)
        if run.scalars["failed_fraction"] > 0:
            raise InputError(
                f"scenario {node.name}: requests fail in a node that is kept full ({clients} clients), so it has no "
                "rate of its own to export; make room for them (memory, limits, failure_probability) or export the profile"
            )
        found.append(1 / run.scalars["throughput_rps"] if full else run.latency_s["mean"])
    return found


def _mean(values: Sequence[float], tokens: int) -> float:
    mean = float(np.mean(values))
    if not np.isfinite(mean) or mean <= 0:
        raise InputError(f"a node kept full with texts of {tokens} tokens answers none; there is nothing to export")
    return mean
