"""The report's section about how accurate the profile's predictions were found to be.

Enters: the profile file of a run. Leaves: the latest validation of each kind that applies to these very bytes of the profile,
with its largest errors, or that there is none. `simcap.validate.record` says where records lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simcap.validate import record

if TYPE_CHECKING:
    from markupsafe import Markup

    from simcap.report.sections import Section
    from simcap.rundir import Run

NONE = (
    "No validation applies to this profile: nobody has compared its predictions with a measurement. "
    "simcap validate live, metrics or published does."
)

WORST = 5  # rows of each kind that the section shows, counted ones and others; the rest stand in the record


@dataclass(frozen=True)
class Status:
    """One sentence, and whether it is a warning."""

    text: str
    warning: bool = False


def validation_status(profile: Path) -> tuple[Status, ...]:
    """The latest validation first; a warning where there is none, where one missed, and where one cannot be read."""
    found = record.look(profile)
    said = [_status(one) for one in found.applying]
    if not found.applying:
        old = f" {found.outdated} beside it are of an earlier state of the file." if found.outdated else ""
        said.append(Status(NONE + old, warning=True))
    said += [Status(f"A validation was not read: {reason}", warning=True) for reason in found.unreadable]
    return tuple(said)


def _status(one: record.Validation) -> Status:
    scenario = f" on scenario {one.scenario}" if one.scenario else ""
    missed = " It needs attention." if one.verdict == "attention" else ""
    return Status(
        f"Validation ({one.kind}{scenario}, {one.date:%Y-%m-%d}): {one.summary}{missed}", one.verdict == "attention"
    )


def section(run: Run) -> Section:
    """Every report has it: a run without a validation says so."""
    from markupsafe import Markup

    from simcap.report.sections import Section

    parts = [
        Markup('<p class="{}">{}</p>').format("warning" if status.warning else "origins", status.text)
        for status in validation_status(run.profile_file)
    ]
    parts += [_worst(one) for one in record.applying(run.profile_file)]
    return Section("validation", "How accurate predictions were found to be", Markup("\n").join(parts))


def _worst(one: record.Validation) -> Markup:
    """The rows whose error is largest, those that are not counted included and marked."""
    from markupsafe import Markup

    known = sorted((row for row in one.rows if row.error is not None), key=lambda row: -abs(row.error or 0.0))
    told = [row for row in known if row.counted][:WORST] + [row for row in known if not row.counted][:WORST]
    if not told:
        return Markup()
    rows = Markup("").join(
        Markup(
            '<tr><th scope="row">{}</th><td>{}</td><td class="num"><data value="{}">{:+.1f} %</data></td><td>{}</td></tr>'
        ).format(
            row.where,
            row.figure + (" (law)" if row.basis == "law" else ""),
            row.error,
            100 * (row.error or 0),
            _remark(row),
        )
        for row in told
    )
    head = Markup(
        '<th scope="col">Where</th><th scope="col">Figure</th><th scope="col" class="num">Error</th><th scope="col">Remark</th>'
    )
    caption = Markup("<p>The largest errors of {} figures compared ({}): predicted / measured - 1.</p>").format(
        len(one.rows), one.kind
    )
    table = Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, rows)
    region = Markup('{}<div class="scroll" role="region" aria-labelledby="validation-title" tabindex="0">{}</div>')
    return region.format(caption, table)


def _remark(row: record.Row) -> str:
    return row.remark if row.counted else f"not counted: {row.remark}" if row.remark else "not counted"
