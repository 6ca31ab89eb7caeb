"""Capacity search: the highest load that keeps the SLO, with a 95 % interval, against any probe.

Enters: a `sim.search_levels.Probe` and `Settings`. Leaves: a `Finding`. Nothing here knows what is simulated.

1. Bracket (short runs). A first run gives the load that would fill the fullest resource by the utilisation law U = X D
   (Denning & Buzen 1978): X / max U. From 0.7 of it the search goes up until the SLO is broken, or down; if it is broken
   at nearly no load too, it is unreachable.
2. Close in (short runs) on the load where the mean share of breaches over replications, p, is the allowed one. Log p is
   nearly linear in load (exactly so for M/M/1), so steps are linear in it.
3. Refine (full runs). Runs are lengthened until a replication sees enough breaches for its share to be near normal
   (coefficient of variation at most 0.7), replications are added until the interval is narrow enough. All loads that the
   interval is read from have the same replications with the same streams.

Interval: a load belongs to it when the interval of p there contains the allowed share, that is, when its verdict is
neither pass nor fail; ends are interpolated linearly in log p between loads on both sides. So coverage does not depend on
an estimated slope. docs/explanation/capacity-search.md tells it at length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sim.search_levels import Bench, EffortUsedUpError, Level, Probe, Reading, Settings
from sim.search_refine import Finding, Refine

SHORT = 4  # runs of steps 1 and 2 are this many times shorter than full ones
AGAINST_STREAK = 20  # but long enough that about this many breaches a run are allowed


def find(
    probe: Probe,
    settings: Settings,
    progress: Callable[[int, int], None] | None = None,
    level: Level | None = None,
) -> Finding:
    """Search. Deterministic: the same probe and settings give the same finding. `level`: does the same as the probe, for
    several replications side by side.
    """  # fmt: skip
    bench = Bench(probe, settings, progress, level)
    refine = Refine(bench)
    try:
        bracket = _bracket(bench)
        finding = bracket if isinstance(bracket, Finding) else _within(bench, refine, *bracket)
    except EffortUsedUpError:
        finding = refine.used_up()
    readings = tuple(bench.readings())
    return replace(finding, readings=readings, at=_nearest(readings, finding), spent=bench.spent)


def _within(bench: Bench, refine: Refine, below: Reading, above: Reading) -> Finding:
    """The finding, given a bracket."""
    kept_until_full = _saturation(bench, below, above)
    if kept_until_full is not None:  # where only the backlog fails there is nothing to close in on
        return kept_until_full
    below, above = _close_in(bench, below, above)
    return _saturation(bench, below, above) or refine.run(below, above)


def _nearest(readings: Sequence[Reading], finding: Finding) -> Reading | None:
    target = finding.load if finding.load is not None else finding.lo
    if target is None:
        return readings[0] if readings else None
    return min(readings, key=lambda r: abs(r.load - target))


def short_run(settings: Settings) -> int:
    """Requests of a run that only looks around."""
    if not settings.steady:
        return settings.requests
    return max(settings.requests // SHORT, round(AGAINST_STREAK / settings.allowed), 1000)


def _few(settings: Settings) -> int:
    """Replications of such a run."""
    return max(settings.replications // 2, 5) if settings.steady else settings.replications


def _bracket(bench: Bench) -> tuple[Reading, Reading] | Finding:
    """A load that seems to keep the SLO and a higher one that seems to break it, or the finding that there is none."""
    settings, short = bench.settings, short_run(bench.settings)
    reps = _few(settings)
    full = settings.start
    if settings.rates:
        pilot = bench.read(settings.start, short, 1)
        full = (pilot.served.mean or settings.start) / max(pilot.fullest, 1e-6)
    steps = (0.7, 0.9, 1.0, 1.2, 1.6, 2.4, 4.0, 8.0, 16.0) if settings.rates else tuple(2.0**k for k in range(18))
    below = bench.read(full * steps[0], short, reps)
    if not below.keeps:
        return _look_below(bench, below, full)
    for step in steps[1:]:
        if settings.whole and settings.steady and full * step > settings.requests / 10:
            reason = f"the SLO is still kept at {below.load:g} clients, and {settings.requests} requests a replication can judge no more"
            return Finding("indeterminate", f"{reason}; raise measurement.requests", None, below.load, None)
        above = bench.read(full * step, short, reps)
        if not above.keeps:
            return below, above
        below = above
    return Finding(
        "indeterminate", f"the SLO is still kept at {below.load:.4g}, and no load broke it", None, below.load, None
    )


def _look_below(bench: Bench, above: Reading, full: float) -> tuple[Reading, Reading] | Finding:
    """As `_bracket`, from a load that breaks the SLO."""
    settings, short = bench.settings, short_run(bench.settings)
    # At the lowest load requests hardly ever meet: a tenth of the breaches that are allowed, whatever waiting costs.
    floor = 1.0 if settings.whole else full * max(0.1 * settings.allowed, 1e-5)
    tried = bench.read(max(full * 0.35, floor), short, _few(settings))
    if tried.keeps:
        return tried, above
    lowest = bench.read(floor, short, _few(settings))
    if lowest.verdict == "indeterminate":
        lowest = bench.read(floor, settings.requests, 4 * settings.replications)
    if lowest.verdict == "pass":
        return lowest, min(above, tried, key=lambda r: r.load)
    late = f"p{100 * settings.attainment:.10g} is {1000 * lowest.percentile_s:.4g} ms"
    if not np.isfinite(lowest.percentile_s):  # so many fail that it is no time
        late = f"{100 * lowest.share:.3g} % of requests fail or are late"
    if lowest.verdict == "fail":
        return Finding("unreachable", f"at nearly no load ({lowest.load:.3g}) {late} already", None, None, lowest.load)
    reason = f"at nearly no load ({lowest.load:.3g}) {late}, too close to the SLO to tell"
    return Finding("indeterminate", reason, None, None, tried.load)


def _close_in(bench: Bench, below: Reading, above: Reading) -> tuple[Reading, Reading]:
    """Narrow the bracket with short runs until a full run near its root is worth its price."""
    for _ in range(12):
        gap = above.load - below.load
        if gap <= (1.0 if bench.settings.whole else 0.04 * above.load):
            break
        if above.load > 2.5 * below.load:
            middle = float(np.sqrt(above.load * below.load))
        else:
            share = -below.y / (above.y - below.y) if above.y > below.y else 0.5
            middle = below.load + float(np.clip(share, 0.15, 0.85)) * gap
        reading = bench.read(middle, below.requests, below.replications)
        if reading.load in (below.load, above.load):
            break
        below, above = (reading, above) if reading.keeps else (below, reading)
    return below, above


def _saturation(bench: Bench, below: Reading, above: Reading) -> Finding | None:
    """The finding that the SLO is kept up to saturation, to within the precision asked; None when it breaks before that."""
    settings, p = bench.settings, bench.settings.precision
    only_backlog = above.saturated and above.share <= settings.allowed
    if not (settings.rates and settings.steady) or not (only_backlog or below.fullest >= 1 - 2 * p):
        return None
    long = 4 * settings.requests  # for a rate served that is known to a fraction of the precision, and slow queues
    over = bench.read(1.3 * above.load, long, _few(settings))
    served = over.served
    if not over.saturated or served.mean is None or served.hi is None:
        return None
    near = bench.read((1 - 1.5 * p) * served.mean, long, _few(settings))
    if near.verdict != "pass":
        return None
    reason = f"the SLO is kept up to saturation: above a load of {served.mean:.4g} requests pile up without end"
    return Finding("saturation", reason, (near.load + served.hi) / 2, near.load, served.hi)
