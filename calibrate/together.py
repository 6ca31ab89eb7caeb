"""Different models at once, and how far the sharing law errs about them.

Each pair of models that one provider ran, and where there are more than two also all of them, runs back to back on sessions
of their own, each at its longest text. By the sharing law each then takes max(1, sum of occupancies) times as long as alone.
Residual: the largest of |measured / law - 1| over the members; a large one is interference that the law does not know, or
a lack of it. Enters: cells with their visits alone (`concurrency`, width 1) and a fitted occupancy. Leaves: `together` visits;
`Interference`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from statistics import fmean, median

from calibrate.bench import Bench
from calibrate.concurrency import occupancy_of, records_of, seconds_for
from calibrate.plan import PlannedCell
from calibrate.results import TogetherRecord, Visit
from profiles.interference import Interference, Member


def groups_of(cells: Sequence[PlannedCell]) -> list[tuple[PlannedCell, ...]]:
    """Which cells run together: of one provider, different entries, the longest text of each."""
    found: list[tuple[PlannedCell, ...]] = []
    for provider in dict.fromkeys(c.provider for c in cells):
        longest: dict[tuple[str, str, str], PlannedCell] = {}
        for cell in (c for c in cells if c.provider == provider):
            known = longest.get(cell.entry)
            longest[cell.entry] = cell if known is None or cell.tokens > known.tokens else known
        members = list(longest.values())
        found += combinations(members, 2)
        if len(members) > 2:
            found.append(tuple(members))
    return found


def measure_together(cells: Sequence[PlannedCell], bench: Bench) -> None:
    """Visit each group that the journal lacks; a member that was not measured alone leaves its groups out."""
    visits = bench.journal.visits
    alone = {c.key: a for c in cells if (a := _alone_s(c, visits)) is not None}
    have = {names_of(g) for g in groups_of(cells) if _record(g, visits) is not None}
    for group in groups_of(cells):
        if names_of(group) in have or any(c.key not in alone for c in group):
            continue
        bench.say(f"{', '.join(names_of(group))} together on {group[0].provider}")
        members = [bench.job("together", cell, name=_name(cell)) for cell in group]
        job = {"op": "together", "members": members, "seconds": seconds_for([alone[c.key] for c in group])}
        bench.keep(group[0], "together", partial(bench.launch, group[0], job))


def interference_of(cells: Sequence[PlannedCell], visits: Sequence[Visit]) -> list[Interference]:
    """What the groups showed, with what the law expects of the fitted occupancies."""
    found = []
    for group in groups_of(cells):
        record = _record(group, visits)
        occupancies = [occupancy_of(c, visits) for c in group]
        alone = [_alone_s(c, visits) for c in group]
        if record is None or None in occupancies or None in alone:
            continue
        law = max(1.0, sum(o.value for o in occupancies if o is not None))
        slowdowns = [fmean(ns) / 1e9 / a for ns, a in zip(record.ns, alone, strict=True) if a is not None]
        members = tuple(
            Member(
                model=c.model,
                artifact=c.artifact,
                tokens=c.tokens,
                batch=c.batch,
                slowdown=slowdown,
                median_s=median(ns) / 1e9,
                n=len(ns),
            )
            for c, slowdown, ns in zip(group, slowdowns, record.ns, strict=True)
        )
        residual = max(abs(s / law - 1) for s in slowdowns)
        found.append(Interference(provider=group[0].provider, members=members, expected=law, residual=residual))
    return found


def names_of(group: Sequence[PlannedCell]) -> tuple[str, ...]:
    return tuple(_name(cell) for cell in group)


def _name(cell: PlannedCell) -> str:
    return f"{cell.model} {cell.artifact}"


def _record(group: Sequence[PlannedCell], visits: Sequence[Visit]) -> TogetherRecord | None:
    wanted = (names_of(group), tuple(c.tokens for c in group))
    mine = [v for v in visits if v.role == "together" and v.cell == group[0].key]
    records = [r for v in mine for r in v.outcome.records if isinstance(r, TogetherRecord)]
    return next((r for r in records if (r.names, r.tokens) == wanted), None)


def _alone_s(cell: PlannedCell, visits: Sequence[Visit]) -> float | None:
    """Mean seconds of one inference with nothing beside it."""
    return next((fmean(r.ns) / 1e9 for r in records_of(cell, visits) if r.width == 1), None)
