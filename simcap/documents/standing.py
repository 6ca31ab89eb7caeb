"""What is known about how far a profile's predictions can be trusted: the validation records that apply to its file.

Enters: the profile's file. Leaves: a section of Markdown. Where no record applies it says so.
"""

from __future__ import annotations

from pathlib import Path

from simcap.documents.ledger import Ledger
from simcap.documents.text import code
from simcap.validate.record import look


def standing(file: Path, ledger: Ledger) -> str:
    """The section, its heading included."""
    found = look(file)
    lines = ["## Validation", ""]
    for record in found.applying:
        mark = ledger.mark("measured", f"validation record of kind {code(record.kind)}, {code(record.date.date())}")
        verdict = "passed" if record.verdict == "pass" else "**needs attention**"
        lines.append(f"- {record.kind}, {verdict}: {code(record.summary)} {mark}")
    if not found.applying:
        lines.append(
            "No validation record applies to this profile: nobody has compared its predictions with measurements of a "
            "router. Take the figures below as comparisons between options, not as promises."
        )
    if found.outdated:
        lines += ["", "Records of an older content of the profile exist and do not count."]
    return "\n".join(lines)
