"""Who did the work of a cell, as a verdict.

Enters: a cell's visits. Leaves: `owned` (every node ran on the provider that was asked for), `partial` (some did) or
`fell_back` (none did, or no session with the provider could be made), with what it is based on. A compiled subgraph counts
as one node; nodes that stayed on the CPU are counted beside it, by operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from calibrate.plan import PlannedCell
from calibrate.results import FellBackRecord, OwnershipRecord, Visit
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.entry import FellBackCell, Ownership

Word = Literal["owned", "partial", "fell_back"]
ORDER: tuple[Word, ...] = ("owned", "partial", "fell_back")


@dataclass(frozen=True)
class Verdict:
    """reason: why it is not `owned`."""

    word: Word
    reason: str | None
    record: OwnershipRecord | None
    session_providers: tuple[str, ...]


def verdict_of(cell: PlannedCell, visits: Iterable[Visit]) -> Verdict | None:
    """The worst verdict among the visits of a cell; None when nobody looked."""
    found = [
        _judge(cell, record)
        for visit in visits
        if visit.cell == cell.key
        for record in visit.outcome.records
        if isinstance(record, OwnershipRecord | FellBackRecord)
    ]
    return max(found, key=lambda v: ORDER.index(v.word), default=None)


def _judge(cell: PlannedCell, record: OwnershipRecord | FellBackRecord) -> Verdict:
    if isinstance(record, FellBackRecord):
        return Verdict("fell_back", record.reason, None, record.session_providers)
    own, total = record.nodes.get(EXECUTION_PROVIDERS[cell.provider], 0), sum(record.nodes.values())
    if own and own == total:
        return Verdict("owned", None, record, record.session_providers)
    ran = ", ".join(f"{count} on {name}" for name, count in record.nodes.items()) or "none"
    left = ", ".join(f"{count} {name}" for name, count in sorted(record.cpu_operators.items()))
    reason = f"nodes by the profile: {ran}" + (f"; on the CPU: {left}" if left and cell.provider != "cpu" else "")
    return Verdict("partial" if own else "fell_back", reason, record, record.session_providers)


def ownership_of(cells: Sequence[PlannedCell], visits: Sequence[Visit]) -> Ownership | None:
    """The worst verdict among an entry's cells, and among equals that of the largest shape."""
    ran = [(c, v) for c in cells if (v := verdict_of(c, visits)) is not None]
    if not ran:
        return None
    cell, worst = max(ran, key=lambda item: (ORDER.index(item[1].word), item[0].tokens * item[0].batch))
    record = worst.record
    return Ownership(
        asked=cell.provider,
        session_providers=worst.session_providers,
        nodes=record.nodes if record else {},
        seconds={provider: ns / 1e9 for provider, ns in record.ns.items()} if record else {},
        cpu_operators=record.cpu_operators if record else {},
        verdict=worst.word,
        reason=worst.reason,
        fell_back=tuple(
            FellBackCell(tokens=c.tokens, batch=c.batch, reason=v.reason or "") for c, v in ran if v.word == "fell_back"
        ),
    )
