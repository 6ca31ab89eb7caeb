"""The limitations of a strategy as issues ready to file: what the profile does not say, and what is known of its providers.

Enters: a profile, the knowledge file. Leaves: Markdown, one heading an issue: what is wrong, what it leads to, when it is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from profiles.entry import Entry
from profiles.schema import Profile, origins
from simcap.documents.ledger import Ledger
from simcap.documents.text import code, listed
from simcap.strategy import knowledge
from simcap.strategy.ranking import is_reference


def _no_drift(entry: Entry) -> bool:
    return entry.accuracy is None


GAPS: tuple[tuple[str, str, Callable[[Entry], bool], str], ...] = (
    (
        "Nobody compared the outputs of {}",
        "The profile holds no drift figures for them, so this page cannot say that a faster provider is a correct one.",
        _no_drift,
        "`simcap calibrate` ran with a reference on the same machine, and the profile has `accuracy` for each.",
    ),
    (
        "Nobody counted which provider ran the nodes of {}",
        "Without it a silent fallback to the CPU would pass for the provider's own time.",
        lambda e: e.ownership is None,
        "The profile has `ownership` for each, with the verdict `owned`.",
    ),
    (
        "Memory of {} is not measured",
        "How many sessions fit beside a co-tenant is then computed from the architecture, not known.",
        lambda e: e.memory is None or any(c.peak_bytes.origin != "measured" for c in e.memory.cells),
        "The profile has `memory.cells` of origin `measured` for each.",
    ),
    (
        "How long a session of {} takes to load is not measured",
        "Cold starts on this page rest on it.",
        lambda e: e.load is None or e.load.origin != "measured",
        "The profile has `load` of origin `measured` for each.",
    ),
    (
        "Loading a compiled program of {} from a disk cache is not measured",
        "So nobody knows whether a warm cache is worth a volume that outlives the container.",
        lambda e: e.compile is not None and e.compile.per_shape and all(c.cache != "warm" for c in e.compile.cells),
        "The profile has a compile cell with `cache: warm` for each.",
    ),
)


def limitations(profile: Profile, known: knowledge.Knowledge, ledger: Ledger) -> str:
    """All of them, those of the profile first."""
    providers = {entry.provider.name for entry in profile.entries}
    issues = list(_gaps(profile))
    issues += [
        _issue(each.title, knowledge.marked(each.text, known, ledger), each.done)
        for each in known.limitations
        if knowledge.concerns(each.provider, providers)
    ]
    return "\n\n".join(issues)


def _gaps(profile: Profile) -> Iterator[str]:
    counts = origins(profile)
    if not counts.get("measured"):
        yield _issue(
            "Nothing in this profile was measured by simcap on this hardware",
            "Its figures are published, modeled or assumed. Intervals on this page show the noise of the simulation and say "
            "nothing about errors in these figures.",
            "A profile made by `simcap calibrate` on this hardware gives the same recommendation.",
        )
    for title, text, missing, done in GAPS:
        lacking = [e for e in profile.entries if missing(e) and not (missing is _no_drift and is_reference(e, profile))]
        if lacking:
            yield _issue(title.format(_whom(lacking, profile)), text, done)
    for note in profile.notes:
        if "NOT quiet" in note:
            yield _issue(
                "The machine was not quiet while it was measured", f"{code(note)}", "A repeated run says that it was."
            )


def _whom(entries: list[Entry], profile: Profile) -> str:
    """`all entries`, or the artifacts and providers concerned."""
    if len(entries) == len(profile.entries):
        return "any entry"
    return listed(list(dict.fromkeys(f"{code(entry.artifact)} on {entry.provider.name}" for entry in entries)))


def _issue(title: str, text: str, done: str) -> str:
    return f"### {title}\n\n{text}\n\n*Done when:* {done}"
