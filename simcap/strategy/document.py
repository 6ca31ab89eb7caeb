"""The provider-strategy document as Markdown: every figure in it carries the mark of its origin.

Enters: a `Strategy`, the profile and its file. Leaves: Markdown text. Figures reach the text only through the ledger.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from profiles.schema import Profile
from sim.capacity import resource_in_words
from simcap.documents.ledger import Ledger
from simcap.documents.standing import standing
from simcap.documents.text import code, digits, listed, plain, seconds, span
from simcap.strategy import knowledge, ranking, sections, side_by_side
from simcap.strategy.limits import limitations
from simcap.strategy.marks import POLICY, capacity_mark, promise, start_mark
from simcap.strategy.model import Strategy, Workload


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
        side_by_side.RANKING,
        *(side_by_side.model(each, profile, ledger) for each in ranking.tables(profile)),
        "## Orders, found by simulation",
        *(sections.orders(work, strategy, ledger) for work in strategy.workloads),
        "## What would change the recommendation",
        *(sections.changes(work, strategy, ledger, profile) for work in strategy.workloads),
        "## How to see which provider was selected, and why",
        *(_check(each, known, ledger) for each in known.verify if knowledge.concerns(each.provider, providers)),
        "## Limitations, ready to file",
        limitations(profile, known, ledger),
        "## Reproduce",
        "These commands give the same figures again, digit for digit:",
        "```sh\n" + "\n".join([command, *(work.command for work in strategy.workloads if work.command)]) + "\n```",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n\n" + ledger.section()


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


def _recommendation(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    head = f"### {plain(work.scenario)}: {promise(work, ledger)}\n\n> {plain(work.question)}\n\n"
    if not work.recommended:
        return head + "**No provider of this profile keeps the promise at any load that was tried.**"
    first = next(plan for plan in work.plans if plan.provider == work.recommended[0] and plan.chosen)
    mark = capacity_mark(work, strategy, ledger)
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
    mark = start_mark(work, strategy, ledger)
    mine = {start.policy: start for start in work.starts if start.providers == work.recommended}
    lines = []
    if ready := mine.get("compile_first"):
        lines.append(
            f"Planned starts: {POLICY['compile_first']}, {seconds(ready.delay_s)} {mark} after the process starts when the "
            "compiles follow one another."
        )
    start = mine[work.policy]
    when = "Starts" if work.policy == "load_on_use" else "Unplanned starts and new shapes"
    lines.append(
        f"{when}: {POLICY[work.policy]}; {digits(start.late.mean or 0)} requests {mark} are late "
        "or fail in one cold start."
    )
    return lines


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
