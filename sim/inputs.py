"""Where the numbers of a run come from: one line for each input, for the report and for whoever doubts it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from profiles.schema import Entry, Figure, Law, OccupancyPoint, Profile
from scenarios.schema import RouterCpu, Scenario
from sim.result import InputOrigin


def inputs_of(scenario: Scenario, profile: Profile, entries: Mapping[str, Entry]) -> tuple[InputOrigin, ...]:
    """Every figure of the profile that this scenario uses, and what the scenario itself assumes."""
    rows = []
    for name, signal in scenario.signals.items():
        entry = entries[name]
        surface = next(s for s in (entry.service, entry.paced_service) if s and signal.cadence in {None, s.cadence})
        for cell in surface.cells:
            at = f"{cell.tokens} tokens" + (f", batch {cell.batch}" if cell.batch > 1 else "")
            spread = "" if cell.spread_origin == cell.origin else f"; spread {cell.spread_origin}"
            value = f"median {1000 * float(cell.law().ppf(0.5)):.4g} ms (n={cell.n}{spread})"
            rows.append(_row(profile, f"service time of {entry.key}, {at}", value, cell))
        for _, group in groupby(entry.occupancy, key=lambda p: (p.origin, p.source, p.doubt)):
            points = list(group)
            value = ", ".join(f"{p.value:.3g} at {p.tokens}" for p in points)
            rows.append(_row(profile, f"occupancy of {entry.key}", value, points[0]))
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


def _assumptions(scenario: Scenario) -> list[tuple[str, str]]:
    domains = ", ".join(f"{name} ({domain.order})" for name, domain in scenario.lock_domains.items()) or "none"
    return [
        ("CPU workers of the router node", str(scenario.node.cpu_workers)),
        ("lock domains", domains),
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


def notes_of(scenario: Scenario, profile: Profile) -> tuple[str, ...]:
    """What a reader must know before believing the figures."""
    notes = list(profile.notes)
    if any(signal.provider == "migraphx" for signal in scenario.signals.values()):
        notes.append(
            "MIGraphX programs are taken as compiled before the first request: no compile stall is simulated. An unseen "
            "shape stalls a session for about half a minute in reality."
        )
    notes.append("Memory, compile stalls and provider fallback are not simulated in this run; their columns are empty.")
    return tuple(notes)
