"""The providers of each model side by side, as Markdown tables with ranks and origin marks.

Enters: a `ranking.ModelTable`. Leaves: a table. What the profile does not say is said to be missing.
"""

from __future__ import annotations

from profiles.entry import Entry
from profiles.quantity import Figure, Law
from profiles.schema import Profile
from simcap.documents.ledger import Ledger
from simcap.documents.text import between, code, digits, percent, plain, size, table
from simcap.strategy import ranking
from simcap.strategy.marks import ABSENT

RANKING = (
    "Medians of one inference at batch one, as the profile holds them; in brackets the 95 % interval of the median, or the "
    "medians of the runs where several were merged. An empty cell: the profile has no figure for this length. `#1` is the "
    "best row of a table; latency and memory are ranked at the length that has the rank. A cold start is the load of a "
    "session plus, where shapes compile in service, one compile without a cache. What nobody measured is said, not filled in."
).replace("95 %", "`95 %`")


def model(each: ranking.ModelTable, profile: Profile, ledger: Ledger) -> str:
    head = [
        "artifact", "provider", *(f"{code(f'{n} tokens')}" for n in each.lengths), "load", "compile, no cache",
        "weights", f"peak at {code(f'{each.at} tokens')}", "drift", "nodes owned",
    ]  # fmt: skip
    rows = []
    for row in each.rows:
        warm = [
            _law(row.warm.get(n), profile, ledger, row.ranks["warm"] if n == each.at else None) for n in each.lengths
        ]
        rows.append(
            [
                code(row.entry.artifact),
                row.entry.provider.name,
                *warm,
                _law(row.load, profile, ledger, row.ranks["cold"]),
                _compile(row, profile, ledger),
                _bytes(row.weights, profile, ledger, None),
                _bytes(row.peak.peak_bytes if row.peak else None, profile, ledger, row.ranks["memory"]),
                _drift(row, profile, ledger),
                _owned(row.entry),
            ]
        )
    return f"### {code(each.model)}\n\n" + table(head, rows)


def _compile(row: ranking.Row, profile: Profile, ledger: Ledger) -> str:
    """Seconds of a compile, and when it happens: for each new shape in service, or once as a session is made."""
    compiled = row.entry.compile
    if compiled is None:
        return "none"
    when = "each new shape" if compiled.per_shape else "once, at load"
    return f"{_law(row.compile, profile, ledger, None) or 'not measured'}, {when}"


def _rank(rank: int | None) -> str:
    return f"{code(f'#{rank}')} " if rank is not None else ""


def _law(law: Law | None, profile: Profile, ledger: Ledger, rank: int | None) -> str:
    if law is None:
        return ""
    ends = (min(law.run_medians), max(law.run_medians)) if law.run_medians else (law.median_lo, law.median_hi)
    said = between(float(law.law().ppf(0.5)), *ends)
    return f"{_rank(rank)}{said} {ledger.of(profile, law)}"


def _bytes(figure: Figure | None, profile: Profile, ledger: Ledger, rank: int | None) -> str:
    return ABSENT if figure is None else f"{_rank(rank)}{size(figure.value)} {ledger.of(profile, figure)}"


def _drift(row: ranking.Row, profile: Profile, ledger: Ledger) -> str:
    accuracy = row.accuracy
    if accuracy is None:
        return "the reference" if ranking.is_reference(row.entry, profile) else "not measured"
    if accuracy.rejected:
        return f"**rejected**: {plain(accuracy.rejected)}"
    figure = accuracy.max_abs_difference
    said = (
        f"{_rank(row.ranks['drift'])}{digits(figure.value)} {ledger.of(profile, figure)}" if figure else "not measured"
    )
    same = accuracy.label_agreement
    return f"{said}, {percent(same.value)} {ledger.of(profile, same)} same labels" if same else said


def _owned(entry: Entry) -> str:
    if entry.ownership is None:
        return "not checked"
    return {"owned": "all", "partial": "**in part**", "fell_back": "**none**"}[entry.ownership.verdict]
