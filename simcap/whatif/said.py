"""A what-if in words, and as a table of at most 80 columns for a terminal.

Enters: a `WhatIf`. Leaves: sentences and a rich table. Changes in percent; of shares in percentage points (pp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcap.report import words

if TYPE_CHECKING:
    from rich.table import Table

    from simcap.whatif.study import Change, WhatIf

NO_CHANGE = "no significant change"


def change_of(found: WhatIf, change: Change) -> str:
    """`+38 % (34 to 42)`, or a dash where it could not be told."""
    if change.change is None or change.lo is None or change.hi is None:
        return words.ABSENT
    unit = "%" if found.measure == "capacity" else "pp"
    return f"{_signed(change.change)} {unit} ({_plain(change.lo)} to {_plain(change.hi)})"


def _plain(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}" if abs(percent) >= 10 else f"{round(percent, 1) + 0.0:g}"


def _signed(share: float) -> str:
    text = _plain(share)
    return text if text.startswith("-") or text == "0" else f"+{text}"


def value_of(found: WhatIf, value: float | None) -> str:
    """A capacity as a load, a share as percent."""
    return words.number(value) if found.measure == "capacity" else words.percent(value)


def unit_of(found: WhatIf) -> str:
    return words.LOADS[found.load_kind][1] if found.measure == "capacity" else "% of requests in time"


def promise(found: WhatIf) -> str:
    """`99 % of requests within 500 ms`."""
    return f"{100 * found.slo.attainment:g} % of requests within {words.number(1000 * found.slo.latency_s)} ms"


def headline(found: WhatIf) -> str:
    """What the scenario does as it is, and the change that is worth most."""
    base = found.base
    ends = f" ({value_of(found, base.lo)} to {value_of(found, base.hi)})"
    if found.measure == "capacity":
        now = f"{found.scenario} now: capacity {value_of(found, base.mean)}{ends} {unit_of(found)}"
    else:
        at = f"at {found.at_load:g} {words.LOADS[found.load_kind][1]}"
        now = f"{found.scenario} now, {at}: {value_of(found, base.mean)}{ends} {unit_of(found)}"
    best = next((c for c in found.changes if c.significant and (c.change or 0) > 0), None)
    most = f"; worth most: {best.title}, {change_of(found, best)}" if best else "; no single change helps for sure"
    return f"{now}{most} ({promise(found)})."


def table(found: WhatIf) -> Table:
    """One row a change, the largest gain first."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    made.add_column("change one thing", overflow="fold")
    made.add_column("owner", no_wrap=True)
    made.add_column("then", justify="right", no_wrap=True)
    made.add_column("change (95 %)", overflow="fold")
    for change in found.changes:
        said = change_of(found, change) if change.significant or change.p is None else NO_CHANGE
        style = "" if change.significant else "dim"
        made.add_row(change.title, change.owner, value_of(found, change.value), Text(said, style=style))
    return made


def legend(found: WhatIf) -> str:
    """How the intervals were made, and what is not said."""
    then = {"capacity": f"then: capacity in {unit_of(found)}", "slo_attainment": f"then: {unit_of(found)}"}
    return (
        f"{then[found.measure]}. Paired 95 % t intervals over {found.replications} replications with the same random "
        "numbers; a change counts as significant when all of them together are counted (Holm). One thing is changed at "
        "a time: gains do not add up."
    )
