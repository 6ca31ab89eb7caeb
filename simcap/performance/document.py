"""The performance report as Markdown: every figure in it carries the mark of its origin.

Enters: finished runs, their profile, what-ifs. Leaves: Markdown and the pictures it names. Sections about the hardware and
about settings are in `surroundings`; here are the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiles.schema import Profile
from sim.capacity import resource_in_words
from sim.result import Interval, Point
from simcap.documents.ledger import Ledger
from simcap.documents.standing import standing
from simcap.documents.text import between, code, digits, listed, percent, plain, seconds, span, table
from simcap.performance import figures, surroundings
from simcap.performance.owners import OWNERS, owner_of, shares
from simcap.performance.runs import KINDS, Finished, Kind
from simcap.report import words
from simcap.whatif.said import NO_CHANGE, change_of
from simcap.whatif.study import WhatIf
from simcap.whatif.variants import Owner

EMPTY: dict[Kind, str] = {
    "high concurrency": "highconc",
    "long context": "longctx",
    "co-resident models": "coresident",
}
"""Kind of run -> the shipped scenario that asks about it."""


@dataclass(frozen=True)
class Report:
    """All that the document is made from. `what_ifs`: by scenario."""

    runs: Sequence[Finished]
    profile: Profile
    file: Path
    what_ifs: Mapping[str, WhatIf]
    command: str


def markdown(report: Report) -> tuple[str, dict[str, str]]:
    """The document, and its pictures: path -> SVG."""
    ledger, pictures = Ledger(), dict[str, str]()
    parts = [
        f"# Production performance on {plain(report.profile.device.name)}",
        (
            "What a vLLM Semantic Router node with these models carries before it breaks its latency promise, what breaks first, "
            f"and what to do about it. Profile {code(report.profile.name)}:"
        ),
        f"> {plain(report.profile.description)}",
        "## Summary",
        _summary(report, ledger),
        standing(report.file, ledger),
        "## Hardware and software",
        surroundings.hardware(report.profile, ledger),
        "## Method",
        surroundings.method(report.profile, report.runs, ledger),
        "## Workload mix",
        *(surroundings.workload(run, ledger) for run in report.runs),
        *(_kind(kind, report, ledger, pictures) for kind in KINDS),
        "## Bottlenecks by owner",
        _owners(report, ledger),
        "## Proposed changes, with their simulated gain",
        *(
            _gains(report.what_ifs[run.result.scenario], ledger, pictures)
            for run in report.runs
            if run.result.scenario in report.what_ifs
        ),
        "" if report.what_ifs else "Not simulated: the report was made with `--no-whatif`.",
        "## Deployment and observability",
        surroundings.settings(report.runs, ledger),
        "## Reproduce",
        "```sh\n" + "\n".join([*(_again(run) for run in report.runs), report.command]) + "\n```",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n\n" + ledger.section(), pictures


def _again(run: Finished) -> str:
    """The command that makes the run again, where the report's own command looks for it."""
    return f"{run.command} --out runs/{run.directory.name}"


def ran(run: Finished, ledger: Ledger) -> str:
    """The mark of a run's figures."""
    r = run.result
    return ledger.mark(
        "modeled",
        f"simcap run of scenario {code(r.scenario)} on profile {code(r.profile)}, seed {code(r.seed)}, "
        f"{code(r.replications)} replications of {code(f'{r.requests:,}')} requests at most; means",
    )


def promise(run: Finished, ledger: Ledger) -> str:
    slo = run.result.slo
    mark = ledger.mark("assumed", f"the promise asked for, in scenario {code(run.result.scenario)}")
    return f"{100 * slo.attainment:g} % within {seconds(slo.latency_s)} {mark}"


def _summary(report: Report, ledger: Ledger) -> str:
    rows = []
    for run in report.runs:
        broken = next((p for p in run.result.points if p.verdict != "pass"), run.result.points[-1])
        owner = _called(owner_of(broken.bottleneck), report.profile)
        found = report.what_ifs.get(run.result.scenario)
        rows.append(
            [
                code(run.result.scenario),
                promise(run, ledger),
                f"{words.bracket(run.result.capacity)} {ran(run, ledger)}",
                f"{plain(resource_in_words(broken.bottleneck))} ({owner})",
                _best(found, ledger) if found else "not simulated",
            ]
        )
    return table(["workload", "promise", "capacity", "breaks first (owner)", "single change worth most"], rows)


def _best(found: WhatIf, ledger: Ledger) -> str:
    best = next((c for c in found.changes if c.significant and (c.change or 0) > 0 and c.owner != "whole node"), None)
    return f"{plain(best.title)}: {change_of(found, best)} {_asked(found, ledger)}" if best else NO_CHANGE


def _kind(kind: Kind, report: Report, ledger: Ledger, pictures: dict[str, str]) -> str:
    head = f"## {kind[0].upper()}{kind[1:]}"
    mine = [run for run in report.runs if run.kind == kind]
    if not mine:
        return f"{head}\n\nNo run of this kind was given. The shipped scenario {code(EMPTY[kind])} asks about it."
    return "\n\n".join([head, *(_results(run, ledger, pictures) for run in mine)])


def _results(run: Finished, ledger: Ledger, pictures: dict[str, str]) -> str:
    name, result = f"plots/{run.result.scenario}-latency.svg", run.result
    pictures[name] = figures.latency(result)
    mark, unit = ran(run, ledger), words.LOADS[result.capacity.load_kind][1]
    rows = [_load_row(point, mark) for point in result.points]
    head = [f"load ({unit})", "p50", "p95", "p99", "in time", "verdict", "holds requests up"]
    passed = next((p for p in result.points if p.load == result.capacity.lo), None)
    endless = any(point.saturated for point in result.points)
    parts = [
        f"### {code(result.scenario)}",
        f"> {plain(result.question)}",
        f"![Latency percentiles of {plain(result.scenario)} against load]({name})",
        table(head, rows, right=(0, 1, 2, 3, 4)),
        "Where the queue grows without end, latencies only say how long the run was." if endless else "",
    ]
    if passed is not None:
        least = next(iter(passed.headroom.items()), None)
        if least:
            parts.append(
                f"At {digits(passed.load)} {unit} {mark}, the highest load that passed, {plain(resource_in_words(least[0]))} is "
                f"nearest to full: the load could grow by a factor of {digits(least[1])} {mark} until it is."
            )
    return "\n\n".join(part.rstrip("\n") for part in parts if part)


def _load_row(point: Point, mark: str) -> list[str]:
    late = [_ms(point.latency_s[name], point, mark) for name in ("p50", "p95", "p99")]
    attained = point.slo_attainment
    share = f"{percent(attained.mean)} {mark}" if attained.mean is not None else "–"
    verdict = f"{point.verdict}{', queue grows without end' if point.saturated else ''}"
    return [f"{point.load:g} {mark}", *late, share, verdict, plain(resource_in_words(point.bottleneck))]


def _ms(interval: Interval, point: Point, mark: str) -> str:
    if interval.mean is None:
        return "endless"
    if point.saturated or interval.lo is None or interval.hi is None:
        return f"{seconds(interval.mean)} {mark}"
    return f"{between(interval.mean, interval.lo, interval.hi)} {mark}"


def _owners(report: Report, ledger: Ledger) -> str:
    """Share of mean latency by owner, at the highest load that passed and at the next one."""
    head, columns = ["owner"], []
    for run in report.runs:
        points = run.result.points
        passed = next((k for k, p in enumerate(points) if p.load == run.result.capacity.lo), None)
        for k in [0] if passed is None else [passed, *([passed + 1] if passed + 1 < len(points) else [])]:
            head.append(f"{code(run.result.scenario)} at {code(f'{points[k].load:g}')}")
            columns.append((shares(points[k]), ran(run, ledger)))
    rows = [
        [_called(owner, report.profile), *(f"{percent(c[owner])} {mark}" if owner in c else "–" for c, mark in columns)]
        for owner in OWNERS
        if any(owner in column for column, _ in columns)
    ]
    lead = (
        "Share of mean latency, waiting and work together, at the highest load that passed and at the next one tried. "
        "The inference engine's share includes its own work, which is there at any load; the share of the GPU, or of the cores, "
        "is what inferences lose to one another and to co-tenants on it."
    )
    return f"{lead}\n\n{table(head, rows, right=tuple(range(1, len(head))))}"


def _called(owner: Owner, profile: Profile) -> str:
    """The owner as a reader of this profile knows it: a machine without a GPU shares its cores."""
    return "cores" if owner == "GPU" and profile.device.kind == "cpu" else owner


def _asked(found: WhatIf, ledger: Ledger) -> str:
    """The mark of a what-if's figures."""
    return ledger.mark(
        "modeled",
        f"simcap whatif of scenario {code(found.scenario)} on profile {code(found.profile)}, seed {code(found.seed)}: "
        f"paired {code('95 %')} intervals over {code(found.replications)} replications with the same random numbers",
    )


def _gains(found: WhatIf, ledger: Ledger, pictures: dict[str, str]) -> str:
    mark, name = _asked(found, ledger), f"plots/{found.scenario}-gains.svg"
    parts = [f"### {code(found.scenario)}", _now(found, mark)]
    picture = figures.gains(found)
    if picture is not None:
        pictures[name] = picture
        parts.append(f"![What each change of {plain(found.scenario)} is worth]({name})")
    rows = [
        [plain(c.title), c.owner, f"{change_of(found, c)} {mark}", f"{_value(found, c.value)} {mark}"]
        for c in found.changes
        if c.significant
    ]
    then = words.LOADS[found.load_kind][1] if found.measure == "capacity" else "requests in time"
    if rows:
        parts.append(table(["change one thing", "owner", "change", f"then ({then})"], rows, right=(2, 3)))
    idle = [plain(c.title) for c in found.changes if not c.significant and c.p is not None]
    if idle:
        parts.append(f"No significant change: {listed(idle)}.")
    parts += [f"- Not told: {plain(c.title)}: {code(c.why)}" for c in found.changes if c.why]
    return "\n\n".join(part.rstrip("\n") for part in parts)


def _value(found: WhatIf, value: float | None) -> str:
    if value is None:
        return "–"
    return digits(value) if found.measure == "capacity" else percent(value)


def _now(found: WhatIf, mark: str) -> str:
    base = found.base
    if found.measure == "capacity":
        now = f"As it is: {span(base.mean or 0, base.lo, base.hi)} {words.LOADS[found.load_kind][1]} {mark}."
    else:
        at = f"{digits(found.at_load or 0)} {words.LOADS[found.load_kind][1]} {mark}"
        now = f"As it is, at {at}: {percent(base.mean or 0)} of requests in time {mark}."
    return f"{now} One thing is changed at a time, so gains do not add up."
