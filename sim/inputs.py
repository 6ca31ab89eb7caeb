"""Where the numbers of a run come from: one line for each input, for the report and for whoever doubts it."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import groupby

from profiles.entry import Cell, Entry, OccupancyPoint
from profiles.quantity import Figure, Law
from profiles.schema import Profile
from profiles.spread import Spread, figure_spread, sampled, spread_of
from scenarios.loader import Bound
from scenarios.node import Choice, RouterCpu
from scenarios.schema import Scenario
from sim.calibration import Asked, Calibration, laws_of
from sim.result import InputOrigin, Uncertainty


def inputs_of(scenario: Scenario, profile: Profile, bound: Bound) -> tuple[InputOrigin, ...]:
    """Every figure of the profile that this scenario uses, and what the scenario itself assumes."""
    rows: list[InputOrigin] = []
    for name, signal in scenario.signals.items():
        for choice in signal.choices:
            rows += _entry_rows(scenario, profile, bound[name][choice.provider, choice.artifact], choice)
    if isinstance(scenario.router.cpu, RouterCpu):
        cpu = scenario.router.cpu
        value = f"{1000 * cpu.base_s:.4g} ms + {1e6 * cpu.per_token_s:.4g} µs a token"
        rows.append(InputOrigin(what="router CPU a request", value=value, origin="assumed", source="the scenario"))
    elif profile.router is not None:
        rows.append(
            _row(profile, "router CPU a request", f"{1000 * profile.router.base_s.value:.4g} ms", profile.router.base_s)
        )
        per_token = profile.router.per_token_s
        rows.append(_row(profile, "router CPU a token", f"{1e6 * per_token.value:.4g} µs", per_token))
    for what, value in _assumptions(scenario):
        rows.append(InputOrigin(what=what, value=value, origin="assumed", source="the scenario"))
    unique = {(row.what, row.value): row for row in rows}
    return tuple(unique.values())


def _entry_rows(scenario: Scenario, profile: Profile, entry: Entry, choice: Choice) -> list[InputOrigin]:
    """The figures of one entry that this choice of provider uses."""
    surface = next(s for s in (entry.service, entry.paced_service) if s and choice.cadence in {None, s.cadence})
    rows = [_cell_row(profile, "service time", entry, cell) for cell in surface.cells]
    for _, group in groupby(entry.occupancy, key=lambda p: (p.origin, p.source, p.doubt)):
        points = list(group)
        value = ", ".join(f"{p.value:.3g} at {p.tokens}" for p in points)
        rows.append(_row(profile, f"occupancy of {entry.key}", value, points[0]))
    if choice.compile is not None and entry.compile is not None:
        rows += [_cell_row(profile, f"{cell.cache} compile", entry, cell) for cell in entry.compile.cells]
        if choice.compile.cached_load_s is not None:
            value = f"{choice.compile.cached_load_s:g} s"
            what = f"loading a cached program of {entry.key}"
            rows.append(InputOrigin(what=what, value=value, origin="assumed", source="the scenario"))
    if scenario.node.memory is not None and choice.device == "gpu" and entry.memory is not None:
        weights = entry.memory.weights_bytes
        if weights is not None:
            rows.append(_row(profile, f"weights of {entry.key}", f"{weights.value / 1e6:.4g} MB", weights))
        for cell in entry.memory.cells:
            what = f"memory of {entry.key}, {cell.tokens} tokens"
            rows.append(_row(profile, what, f"{cell.peak_bytes.value / 1e6:.4g} MB", cell.peak_bytes))
    return rows


def _cell_row(profile: Profile, what: str, entry: Entry, cell: Cell) -> InputOrigin:
    at = f"{cell.tokens} tokens" + (f", batch {cell.batch}" if cell.batch > 1 else "")
    spread = "" if cell.spread_origin == cell.origin else f"; spread {cell.spread_origin}"
    value = f"median {1000 * float(cell.law().ppf(0.5)):.4g} ms (n={cell.n}{spread})"
    return _row(profile, f"{what} of {entry.key}, {at}", value, cell)


def _assumptions(scenario: Scenario) -> list[tuple[str, str]]:
    domains = ", ".join(
        f"{name} ({domain.order}{f', {domain.width} at once' if domain.width > 1 else ''})"
        for name, domain in scenario.lock_domains.items()
    )
    return [
        ("CPU workers of the router node", str(scenario.node.cpu_workers)),
        ("lock domains", domains or "none"),
        ("sessions", ", ".join(f"{name}: {signal.sessions}" for name, signal in scenario.signals.items())),
        ("arrivals", scenario.arrivals.process),
    ]


def _row(profile: Profile, what: str, value: str, number: Law | Figure | OccupancyPoint) -> InputOrigin:
    source = profile.sources.get(number.source) if number.source else None
    return InputOrigin(
        what=what,
        value=value,
        origin=number.origin,
        source=source.title if source else number.source,
        url=source.url if source else None,
        doubt=number.doubt or (source.doubt if source else None),
    )


def used_of(entries: Bound) -> list[Entry]:
    """Each entry that a scenario uses, once."""
    return list({e.key: e for by_choice in entries.values() for e in by_choice.values()}.values())


def uncertainty_of(scenario: Scenario, profile: Profile, used: Collection[Entry], asked: Asked) -> Uncertainty:
    """What the intervals of a run cover, and what they do not."""
    spread, known = spread_of(profile), Calibration.of(profile, used)
    left = [line for entry in used for line in _left_out(entry, spread)]
    router = [profile.router.base_s, profile.router.per_token_s] if profile.router else []
    if isinstance(scenario.router.cpu, RouterCpu):
        left.append("router CPU (assumed by the scenario)")
    elif router and not all(figure_spread(f) for f in router if f.value):
        left.append(f"router CPU ({router[0].origin})")
    return Uncertainty(
        asked=asked,
        covers="full" if asked == "full" and known.moves else "simulation",
        runs=max(len(profile.runs or ()), 1) if any(sampled(law) for entry in used for law, _ in laws_of(entry)) else 0,
        between_runs=spread.machine * math.sqrt(1 + 1 / spread.runs) if spread.runs > 1 else None,
        left_out=tuple(dict.fromkeys(left)),
    )


def _left_out(entry: Entry, spread: Spread) -> list[str]:
    """The inputs of one entry whose uncertainty nobody stated."""
    left = []
    cells = [law for law, surface in laws_of(entry) if surface is not None]
    unknown = [cell for cell in cells if not (sampled(cell) or any(spread.of(cell)))]
    if unknown:
        origins = ", ".join(sorted({cell.origin for cell in unknown}))
        left.append(f"service times of {entry.key} ({origins}, no spread stated)")
    elif any(sampled(cell) and len(cell.run_medians or ()) < 2 for cell in cells):
        left.append(f"service times of {entry.key} from run to run (one run; merge several)")
    if any(not figure_spread(point) for point in entry.occupancy):
        left.append(f"occupancy of {entry.key} ({', '.join(sorted({p.origin for p in entry.occupancy}))})")
    return left


def notes_of(scenario: Scenario, profile: Profile) -> tuple[str, ...]:
    """What a reader must know before believing the figures."""
    notes = list(profile.notes)
    choices = [choice for signal in scenario.signals.values() for choice in signal.choices]
    if any(choice.provider == "migraphx" and choice.compile is None for choice in choices):
        notes.append(
            "MIGraphX programs are taken as compiled before the first request: no compile stall is simulated (no "
            "`compile` in the scenario). An unseen shape stalls a session for about half a minute in reality."
        )
    if scenario.node.memory is None:
        notes.append("Memory is not simulated (no `node.memory` in the scenario): nothing can run out of it here.")
    if scenario.node.partition != "SPX":
        notes.append(
            f"Partition {scenario.node.partition}: each device has its share of compute and memory; service times on a "
            "share are modeled from occupancy, nobody measured them."
        )
    return tuple(notes)
