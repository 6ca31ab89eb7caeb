"""The provider-strategy document as Markdown: every figure in it carries the mark of its origin.

Enters: a `Strategy`, the profile and its file. Leaves: Markdown text. Figures reach the text only through the ledger.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from profiles.entry import Entry
from profiles.schema import Profile
from sim.capacity import resource_in_words
from sim.result import Interval
from simcap.documents import text
from simcap.documents.ledger import Ledger
from simcap.documents.standing import standing
from simcap.documents.text import code, digits, listed, percent, plain, seconds, size, span, table
from simcap.strategy import knowledge, ranking
from simcap.strategy.limits import limitations
from simcap.strategy.model import BreakEven, Policy, Start, Strategy, Workload

ABSENT = "not known"
POLICY: dict[Policy, str] = {
    "wait": "compile inside the request",
    "fall_back": "answer on the next provider while programs compile",
    "compile_first": "take traffic only when every program is compiled",
    "load_on_use": "load each session on its first request",
}


def markdown(strategy: Strategy, profile: Profile, file: Path, command: str) -> str:
    """The whole document."""
    ledger, known = Ledger(), knowledge.load()
    providers = list(dict.fromkeys(entry.provider.name for entry in profile.entries))
    parts = [
        f"# Provider strategy for {plain(profile.device.name)}",
        _lead(profile),
        "## Recommendation",
        *(_recommendation(work, strategy, ledger) for work in strategy.workloads),
        standing(file, ledger),
        "## Providers, model by model",
        _RANKING,
        *(_model(each, profile, ledger) for each in ranking.tables(profile)),
        "## Orders, found by simulation",
        *(_orders(work, strategy, ledger) for work in strategy.workloads),
        "## What would change the recommendation",
        *(_changes(work, strategy, ledger, profile) for work in strategy.workloads),
        "## How to see which provider was selected, and why",
        *(_check(each, known, ledger) for each in known.verify if knowledge.concerns(each.provider, providers)),
        "## Limitations, ready to file",
        limitations(profile, known, ledger),
        "## Reproduce",
        "These commands give the same figures again, digit for digit:",
        "```sh\n" + "\n".join([command, *(work.command for work in strategy.workloads if work.command)]) + "\n```",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n\n" + ledger.section()


_RANKING = (
    "Medians of one inference at batch one, as the profile holds them; an empty cell means that the profile has no figure "
    "for this length. The number in front is the rank among the rows of a table. Warm latency and memory are ranked at the "
    "length in the heading of the ranking column. A cold start is the load of a session plus, where shapes compile in "
    "service, one compile without a cache. What nobody measured is said and not filled in."
)


def _lead(profile: Profile) -> str:
    said = [
        (
            "Which execution provider should a vLLM Semantic Router node use for its learned signals, in which order, and what "
            "should it do while the first one is not ready? This page answers for one profile: "
            f"{code(profile.name)}, {plain(profile.device.name)}."
        ),
        f"> {plain(profile.description)}",
    ]
    return "\n\n".join(said)


def _simulated(work: Workload, strategy: Strategy, ledger: Ledger, what: str) -> str:
    source = (
        f"simcap simulation of scenario {code(work.scenario)} on profile {code(strategy.profile)}, "
        f"seed {code(strategy.seed)}: {what}"
    )
    return ledger.mark("modeled", source)


def _capacity_mark(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    what = f"load at which each of {code(work.steady_replications)} replications breaks the promise; mean and 95 % interval"
    return _simulated(work, strategy, ledger, what.replace("95 %", code("95 %")))


def _start_mark(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    what = (
        f"cold starts at half of the best capacity, {code(work.start_replications)} replications; "
        f"mean and {code('95 %')} interval"
    )
    return _simulated(work, strategy, ledger, what)


def promise(work: Workload, ledger: Ledger) -> str:
    """The SLO, which is an input of the reader's."""
    asked = ledger.mark("assumed", f"the promise asked for, in scenario {code(work.scenario)} or with {code('--slo')}")
    return f"{100 * work.slo.attainment:g} % of requests within {seconds(work.slo.latency_s)} {asked}"


def _recommendation(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    head = f"### {plain(work.scenario)}: {promise(work, ledger)}\n\n> {plain(work.question)}\n\n"
    if not work.recommended:
        return head + "**No provider of this profile keeps the promise at any load that was tried.**"
    first = next(plan for plan in work.plans if plan.provider == work.recommended[0] and plan.chosen)
    mark = _capacity_mark(work, strategy, ledger)
    order = " → ".join(f"**{name}**" for name in work.recommended)
    lines = [f"Order: {order}."]
    if first.capacity is not None and first.capacity.mean is not None:
        capacity = span(first.capacity.mean, first.capacity.lo, first.capacity.hi)
        breaks = f"; what fills first is {plain(resource_in_words(work.bottleneck))}" if work.bottleneck else ""
        lines.append(f"Capacity of a node with {first.provider} ready: {capacity} requests/s {mark}{breaks}.")
    lines += _policy_lines(work, strategy, ledger)
    if work.impossible:
        lines.append(f"Not in the order, because they cannot serve every signal: {listed(sorted(work.impossible))}.")
    return head + "\n".join(f"- {line}" for line in lines)


def _policy_lines(work: Workload, strategy: Strategy, ledger: Ledger) -> list[str]:
    """What to do while the first provider is not ready."""
    if work.policy is None:
        return [f"Cold starts were not simulated: {plain(work.no_starts or '')}."] if work.no_starts else []
    mark = _start_mark(work, strategy, ledger)
    mine = {start.policy: start for start in work.starts if start.providers == work.recommended}
    lines = []
    if ready := mine.get("compile_first"):
        lines.append(
            f"Planned starts: {POLICY['compile_first']}, {seconds(ready.delay_s)} {mark} after the process starts when the "
            "compiles follow one another."
        )
    start = mine[work.policy]
    lines.append(
        f"Unplanned starts and new shapes: {POLICY[work.policy]}; {digits(start.late.mean or 0)} requests {mark} are late "
        "or fail in one cold start."
    )
    return lines


def _model(each: ranking.ModelTable, profile: Profile, ledger: Ledger) -> str:
    head = [
        "artifact", "provider", *(f"{code(f'{n} tokens')}" for n in each.lengths), "load", "compile",
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
                _law(row.compile, profile, ledger, None) or ("none per shape" if not _per_shape(row.entry) else ""),
                _bytes(row.weights, profile, ledger, None),
                _bytes(row.peak.peak_bytes if row.peak else None, profile, ledger, row.ranks["memory"]),
                _drift(row, profile, ledger),
                _owned(row.entry),
            ]
        )
    return f"### {listed([code(model) for model in each.models])}\n\n" + table(head, rows)


def _per_shape(entry: Entry) -> bool:
    return entry.compile is not None and entry.compile.per_shape


def _rank(rank: int | None) -> str:
    return f"{code(f'#{rank}')} " if rank is not None else ""


def _law(law, profile: Profile, ledger: Ledger, rank: int | None) -> str:  # type: ignore[no-untyped-def]
    if law is None:
        return ""
    return f"{_rank(rank)}{seconds(float(law.law().ppf(0.5)))} {ledger.of(profile, law)}"


def _bytes(figure, profile: Profile, ledger: Ledger, rank: int | None) -> str:  # type: ignore[no-untyped-def]
    return ABSENT if figure is None else f"{_rank(rank)}{size(figure.value)} {ledger.of(profile, figure)}"


def _drift(row: ranking.Row, profile: Profile, ledger: Ledger) -> str:
    accuracy = row.accuracy
    if accuracy is None:
        return "not measured"
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


def _orders(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    mark = _capacity_mark(work, strategy, ledger)
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
    mark = _start_mark(work, strategy, ledger)
    assumed = ledger.mark(
        "assumed", "the rule of simcap strategy: half of the best capacity, three times the time to get ready"
    )
    return (
        f"Cold starts: sessions unloaded, compile cache empty, {digits(work.start_load or 0)} requests/s {mark}, the first "
        f"{seconds(work.start_window_s or 0)} {assumed}. Late: failed, or answered after the promise. An order is judged by "
        "the starts that nobody prepared; compiling before traffic costs the delay instead."
    )


def _starts(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    mark = _start_mark(work, strategy, ledger)
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


def _changes(work: Workload, strategy: Strategy, ledger: Ledger, profile: Profile) -> str:
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
        mark = _capacity_mark(work, strategy, ledger)
        return (
            f"{work.recommended[0]} stays ahead of {even.other} until its inferences take {value} times {mark} as long as in "
            "the profile."
        )
    mark = _start_mark(work, strategy, ledger)
    policy = POLICY.get(even.other, ABSENT)  # type: ignore[call-overload]  # in this kind it is a policy
    return f"With “{policy}”, {value} cold starts {mark} a node and day use up all that the promise still allows at this load."


def _check(check: knowledge.Check, known: knowledge.Knowledge, ledger: Ledger) -> str:
    block = f"```{check.language}\n{check.block.rstrip()}\n```"
    said = [knowledge.marked(part, known, ledger) for part in (check.text, check.after)]
    return f"### {check.title}\n\n{said[0]}\n\n{block}\n\n{said[1]}"


def command_line(profile: str, scenarios: tuple[str, ...], slo: str | None, seed: int, out: str) -> str:
    """The command that writes this document."""
    parts = ["simcap", "strategy", profile]
    for scenario in scenarios:
        parts += ["--scenario", scenario]
    parts += ["--slo", slo] if slo else []
    return shlex.join([*parts, "--seed", str(seed), "--out", out])


__all__ = ["command_line", "markdown", "promise", "text"]
