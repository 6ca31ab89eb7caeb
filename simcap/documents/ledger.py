"""The origin marks of a document: each figure in it carries one, and each mark is told once, at the end.

Enters: figures as text, with their origin and source. Leaves: `2.69 ms [p1]`, and the list of notes that the marks stand
for. The letter is the origin (m measured here, p published, d modeled or simulated, a assumed), the number the source:
figures of one origin, source and doubt share a mark. In Markdown a mark is a link to its note.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiles.quantity import Figure, Law, Origin
from profiles.schema import Profile
from simcap.documents.text import code, plain

LETTER: dict[Origin, str] = {"measured": "m", "published": "p", "modeled": "d", "assumed": "a"}

MEANING: dict[Origin, str] = {
    "measured": "measured here, by simcap calibrate",
    "published": "published by others, not measured by us",
    "modeled": "modeled: computed or simulated from other figures",
    "assumed": "assumed: an input nobody measured or published",
}


@dataclass(frozen=True)
class Note:
    """What a mark stands for. All of it but `url` is Markdown already."""

    origin: Origin
    source: str
    url: str | None = None
    doubt: str | None = None


class Ledger:
    """Marks in the order of their first use."""

    def __init__(self) -> None:
        self._marks: dict[Note, str] = {}

    def mark(self, origin: Origin, source: str, url: str | None = None, doubt: str | None = None) -> str:
        """`[p1]`. `source` and `doubt` are Markdown."""
        note = Note(origin, source, url, doubt)
        if note not in self._marks:
            number = 1 + sum(1 for other in self._marks if other.origin == origin)
            self._marks[note] = f"{LETTER[origin]}{number}"
        return f"[{self._marks[note]}]"

    def of(self, profile: Profile, number: Figure | Law) -> str:
        """The mark of a number of a profile."""
        source = profile.sources.get(number.source) if number.source else None
        if source is not None:
            doubts = [doubt for doubt in (number.doubt, source.doubt) if doubt]
            trust = f" (trust {source.trust})" if source.trust else ""
            doubt = plain("; ".join(doubts)) if doubts else None
            return self.mark(number.origin, plain(source.title) + trust, source.url, doubt)
        said = f"profile {code(profile.name)}"
        if number.origin == "measured":
            said += f", measured on {plain(profile.device.name)}, {plain(profile.created[:10])}"
        return self.mark(number.origin, said, None, _shared(number.doubt))

    @property
    def notes(self) -> dict[str, Note]:
        """Mark without brackets -> its note, by letter and number."""
        by_mark = {mark: note for note, mark in self._marks.items()}
        return {mark: by_mark[mark] for mark in sorted(by_mark, key=lambda m: ("mpda".index(m[0]), int(m[1:])))}

    def section(self) -> str:
        """The notes as the last section of the Markdown, and what makes each `[p1]` in it a link."""
        lines = ["## Where the figures come from", "", "Every figure above carries a mark: "]
        used = dict.fromkeys(note.origin for note in self.notes.values())
        lines[-1] += "; ".join(f"**{LETTER[origin]}** {MEANING[origin]}" for origin in used) + "."
        lines.append("")
        for mark, note in self.notes.items():
            link = f"[{note.source}]({note.url})" if _followed(note.url) else note.source
            doubt = f" *Doubt:* {note.doubt}" if note.doubt else ""
            lines.append(f'- <a id="{mark}"></a>**{mark}** {note.origin}: {link}.{doubt}')
        lines += ["", *(f"[{mark}]: #{mark}" for mark in self.notes)]
        return "\n".join(lines) + "\n"


WIDE = "the time for measuring ended before some intervals were as narrow as asked"
LOADING = "held after loading; while a session loads it uses more"


def _shared(doubt: str | None) -> str | None:
    """A doubt without the figures of the one cell it is about, so that cells of one kind share a mark."""
    if not doubt:
        return None
    if doubt.startswith("the time budget ended"):
        return WIDE
    return LOADING if doubt.startswith("held after loading") else plain(doubt)


def _followed(url: str | None) -> bool:
    return url is not None and url.lower().startswith(("https://", "http://")) and not set("() <>") & set(url)
