"""Small pieces of Markdown: text from files made harmless, code spans, tables, figures in words.

Enters: text and numbers. Leaves: Markdown that says exactly that. Whatever comes from a file a user gave goes through
`plain` or `code`, so that it can neither draw a table nor open a tag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SPECIAL = re.compile(r"([\\`*_\[\]|#~])")


def plain(text: str) -> str:
    """Text as it stands, in one line, with nothing in it that Markdown or HTML would act on."""
    one_line = " ".join(text.split())
    safe = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", safe)


def code(text: object) -> str:
    """A code span; a backtick or a bar in it would end it or its table, and becomes a look-alike."""
    return "`" + " ".join(str(text).split()).replace("`", "'").replace("|", "¦") + "`"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table of Markdown cells; columns numbered in `right` are set flush right."""
    marks = ["---:" if k in right else "---" for k in range(len(head))]
    lines = [head, marks, *rows]
    return "\n".join("| " + " | ".join(cell or " " for cell in line) + " |" for line in lines) + "\n"


def listed(items: Sequence[str]) -> str:
    """`a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def digits(value: float) -> str:
    """Three significant digits, thousands with commas, no exponent down to a millionth."""
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.1e}"


def seconds(value: float) -> str:
    """Seconds as ms below one second, as s above, as minutes or hours where that reads better."""
    if value < 1:
        return f"{digits(1000 * value)} ms"
    return f"{digits(value)} s" if value < 600 else f"{digits(value / 60)} min"


def between(value: float, lo: float | None, hi: float | None) -> str:
    """`2.69 ms (2.6 to 2.8)`: seconds with the ends of their interval in the same unit; alone where none is known."""
    if lo is None or hi is None:
        return seconds(value)
    scale = 1000.0 if value < 1 else 1.0 if value < 600 else 1 / 60
    return f"{seconds(value)} ({digits(lo * scale)} to {digits(hi * scale)})"


def size(value: float) -> str:
    """Bytes as MB or GB (powers of ten), as `simcap profiles show` does."""
    return f"{digits(value / 1e6)} MB" if value < 1e9 else f"{digits(value / 1e9)} GB"


def percent(share: float) -> str:
    """A share as percent; near 100 with the decimals that tell a kept promise from a broken one."""
    if share >= 0.985:
        text = f"{100 * share:.2f}"
        return f"{'99.99' if text == '100.00' and share < 1 else text} %".replace("100.00", "100")
    return f"{100 * share:.1f} %" if share >= 0.0005 or share == 0 else f"{100 * share:.2g} %"


def span(mean: float, lo: float | None, hi: float | None, how: str = "{}") -> str:
    """`108 (104 to 113)`, each number through the format `how`, or alone where no interval is known."""
    if lo is None or hi is None:
        return how.format(digits(mean))
    return how.format(f"{digits(mean)} ({digits(lo)} to {digits(hi)})")
