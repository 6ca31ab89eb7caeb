"""`compare.html`: one self-contained page of a comparison: the verdicts, curves laid over one another, every figure.

Enters: a `Comparison`, its figures, the versions of what made it. Leaves: HTML text that opens offline, in the look of
`report.html` and with its script. The same comparison and versions give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from profiles.errors import SimcapError
from simcap.comparison import Comparison
from simcap.report import comparison as said
from simcap.report import page, words

if TYPE_CHECKING:
    from simcap.report.marks import Figure

FULL = 12  # later variants whose every figure stands in a table; of more comparison.json has them


def render(comparison: Comparison, drawn: Sequence[Figure], versions: Mapping[str, str]) -> str:
    """The page; SimcapError should it grow beyond 3 MB."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    html = environment.from_string(page.part("compare.html.j2")).render(
        comparison=comparison,
        said=said,
        words=words,
        figures=list(drawn),
        detailed=comparison.others if len(comparison.others) <= FULL else (),
        versions=versions,
        **page.shared(list(drawn)),
    )
    if len(html.encode()) > page.MAX_BYTES:
        raise SimcapError(
            f"compare.html would have {len(html.encode())} bytes, more than {page.MAX_BYTES}; compare fewer variants"
        )
    return html
