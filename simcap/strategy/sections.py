"""What was simulated for a strategy: the orders that were tried, and what would change the recommendation.

Enters: a `Workload`. Leaves: sections of Markdown with origin marks.
"""

from __future__ import annotations

from profiles.schema import Profile
from sim.result import Interval
from simcap.documents.ledger import Ledger
from simcap.documents.text import code, digits, listed, percent, plain, seconds, span, table
from simcap.strategy.marks import ABSENT, POLICY, capacity_mark, start_mark
from simcap.strategy.model import BreakEven, Start, Strategy, Workload


def orders(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    mark = capacity_mark(work, strategy, ledger)
    rows = []
    for plan in sorted(work.plans, key=lambda plan: -((plan.capacity and plan.capacity.mean) or 0.0)):
        c, b = plan.capacity, plan.behind
        said = f"{span(c.mean, c.lo, c.hi)} {mark}" if c and c.mean is not None else plain(plan.why or ABSENT)
        behind = "the best" if b and b.mean == 0 else _behind(b, mark, level=plan.level)
        names = listed([code(name) for name in dict.fromkeys(plan.artifacts.values())])
        rows.append([plan.provider, names, said, behind])
    parts = [
        f"### {plain(work.scenario)}",
        (
            "Each provider alone, with everything loaded and compiled. Which artifact stands for a provider is decided here too, "
            "by capacity."
        ),
        table(["provider", "artifact", "capacity (requests/s)", "against the best"], rows, right=(2,)),
    ]
    if work.impossible:
        parts.append(
            "\n".join(f"- {name} cannot serve this workload: {_reason(why)}" for name, why in work.impossible.items())
        )
    if work.starts:
        parts += [_starts_lead(work, strategy, ledger), _starts(work, strategy, ledger)]
    elif work.no_starts:
        parts.append(f"Cold starts were not simulated: {plain(work.no_starts)}.")
    return "\n\n".join(part.rstrip("\n") for part in parts)


def _reason(why: str) -> str:
    """A message of simcap's, quoted as it stands: its numbers are the scenario's and the profile's own."""
    return code(why.partition(";")[0])


def _behind(behind: Interval | None, mark: str, *, level: bool) -> str:
    if behind is None or behind.mean is None or behind.lo is None or behind.hi is None:
        return ABSENT
    said = f"{100 * behind.mean:+.0f} % ({100 * behind.lo:.0f} to {100 * behind.hi:.0f}) {mark}"
    return f"{said}, no significant difference" if level else said


def _starts_lead(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    mark = start_mark(work, strategy, ledger)
    assumed = ledger.mark(
        "assumed", "the rule of simcap strategy: half of the best capacity, three times the time to get ready"
    )
    return (
        f"Cold starts: sessions unloaded, compile cache empty, {digits(work.start_load or 0)} requests/s {mark}, the first "
        f"{seconds(work.start_window_s or 0)} {assumed}. Late: failed, or answered after the promise. An order is judged by "
        "the starts that nobody prepared; compiling before traffic costs the delay instead."
    )


def _starts(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    mark = start_mark(work, strategy, ledger)
    rows = []
    for start in sorted(work.starts, key=lambda start: start.late.mean or 0.0):
        chosen = start.providers == work.recommended and start.policy == work.policy
        order = " → ".join(start.providers)
        late = f"{span(start.late.mean or 0, start.late.lo, start.late.hi)} {mark}"
        share = f"{percent(start.late_share.mean or 0)} {mark}"
        rows.append([f"**{order}**" if chosen else order, POLICY[start.policy], late, share, _delay(start, mark)])
    return table(["order", "until it is ready", "late, a start", "late, share", "delay"], rows, right=(2, 3, 4))


def _delay(start: Start, mark: str) -> str:
    return f"{seconds(start.delay_s)} {mark}" if start.delay_s else "none"


def changes(work: Workload, strategy: Strategy, ledger: Ledger, profile: Profile) -> str:
    lines = [_break_even(even, work, strategy, ledger) for even in work.break_evens]
    if work.recommended:
        first = next(plan for plan in work.plans if plan.provider == work.recommended[0] and plan.chosen)
        entries = [
            e for e in profile.entries if e.provider.name == first.provider and e.artifact in first.artifacts.values()
        ]
        if any(entry.accuracy is None for entry in entries):
            lines.append(
                f"Outputs of {first.provider} that drift: nobody compared them, and a gate that refuses them moves the order up by one."
            )
        if any(entry.ownership is None for entry in entries):
            lines.append(
                f"Nodes that {first.provider} does not run: nobody counted them, and a silent fallback makes its figures those of the CPU."
            )
    for name, why in work.impossible.items():
        lines.append(f"Measuring what {name} lacks would bring it into the comparison: {_reason(why)}.")
    body = "\n".join(f"- {line}" for line in lines) or "Nothing that was simulated."
    return f"### {plain(work.scenario)}\n\n{body}"


def _break_even(even: BreakEven, work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    value = span(even.value.mean or 0, even.value.lo, even.value.hi)
    if even.kind == "slower":
        mark = capacity_mark(work, strategy, ledger)
        return (
            f"{work.recommended[0]} stays ahead of {even.other} until its inferences take {value} times {mark} as long as in "
            "the profile."
        )
    mark = start_mark(work, strategy, ledger)
    policy = POLICY.get(even.other, ABSENT)  # type: ignore[call-overload]  # in this kind it is a policy
    return f"With “{policy}” a node may start cold {value} times {mark} a day at this load; more use up all that the promise allows."
