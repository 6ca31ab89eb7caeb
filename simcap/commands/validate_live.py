"""`simcap validate live`: play a scenario's requests for real on this machine and compare with the prediction.

Enters: a profile and a scenario. Leaves: recordings of what was played, a validation record beside the profile, a table or
JSON on stdout, and exit code 4 where the law is wrong, the profile stale, the machine not as it was calibrated, or a bar
missed.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiles.errors import FindingError, InputError

if TYPE_CHECKING:
    from simcap.validate.live.judge import Judged
    from simcap.validate.live.session import Report

COLUMNS = ("point", "run", "measured ms", "law %", "prediction %", "speed", "not counted")


def live(
    profile: Annotated[str, typer.Option(help="Measured on this machine: name or path.")],
    scenario: Annotated[str, typer.Option(help="Name of a shipped scenario, or a path.")],
    clients: Annotated[str, typer.Option(metavar="N,N", help="Closed loops to play.")] = "1,2,4,8",
    shares: Annotated[
        str, typer.Option(metavar="N,N", help="Open loops, in per cent of the measured saturation; none: skip.")
    ] = "30,50,70",
    runs: Annotated[int, typer.Option(min=1, help="Of every point.")] = 3,
    seconds: Annotated[
        float, typer.Option(min=0.5, help="A closed point takes about so long, an open one 1.5 times.")
    ] = 15,
    seed: Annotated[int, typer.Option(min=0, help="Of arrivals, classes and lengths.")] = 1,
    played: Annotated[
        Path | None, typer.Option(help="Folder for recordings; what is there is not played again.")
    ] = None,
    judge: Annotated[bool, typer.Option("--judge", help="Play nothing: judge what is in --played.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a stale profile.")] = False,
    model: Annotated[list[str] | None, typer.Option(metavar="NAME=FILE.onnx", help="Your own. Repeatable.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record instead of the table.")] = False,
) -> None:
    """Play SCENARIO for real and compare latencies, throughput and utilisation with the prediction."""
    from calibrate.artifacts import parse_own
    from profiles import store
    from scenarios import loader
    from simcap.validate.live.session import Session

    wanted, known = loader.load(scenario, tuple(overrides or ())), store.load(profile)
    loader.bind(wanted, known)
    session = Session(
        wanted,
        known,
        played or Path("runs") / f"live-{wanted.name}-{known.name}-seed{seed}",
        clients=_numbers("--clients", clients),
        shares=[share / 100 for share in _numbers("--shares", shares)],
        runs=runs,
        seconds=seconds,
        seed=seed,
        own=[parse_own(argument) for argument in model or []],
    )
    if strict and session.stale:
        raise FindingError(f"--strict: {session.stale}")
    found = session.judge_only() if judge else session.play_and_judge(lambda doing: typer.echo(doing, err=True))
    command = shlex.join(["simcap", *sys.argv[1:]])
    report = session.report(found, command=command, profile_path=store.locate(profile))
    if as_json:
        from simcap.validate import record

        typer.echo(record.dumps(report.record), nl=False)
    else:
        _say(report)
    if report.findings:
        raise FindingError("look at this:\n" + "\n".join(report.findings))


def _say(report: Report) -> None:
    from simcap.screen import print_table, print_wrapped

    print_table(COLUMNS, [_row(j) for j in report.judged], right=COLUMNS[1:6])
    print_wrapped(
        "measured: p50/p95/p99. law and prediction: error of each, simulated / measured - 1; law: with the service times of this "
        "very run. speed: the sentinel's time over that in calibration. The record (--json) has 95 % intervals of both sides."
    )
    print_wrapped(report.record.summary)
    for note in report.record.notes[len(report.findings) :]:
        print_wrapped(f"note: {note}")
    print_wrapped(f"record: {report.path}")


def _row(j: Judged) -> tuple[str, ...]:
    from simcap.validate.live.figures import LATENCIES

    def errors(of: Mapping[str, float] | None) -> str:
        return "–" if of is None else "/".join(f"{100 * j.error(of, f):+.0f}" for f in LATENCIES)

    point = j.recording.point
    where = f"closed {point.clients}" if point.loop == "closed" else f"open {100 * point.share:.0f} %"
    times = "/".join(f"{1000 * j.measured[f]:.0f}" for f in LATENCIES)
    speed = f"{j.speed.during:.2f}" if j.speed else "–"
    law, prediction = errors(j.law), errors(j.prediction.mean)
    return where, str(j.recording.run), times, law, prediction, speed, "; ".join(j.remarks)


def _numbers(flag: str, text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(w.isascii() and w.isdigit() and int(w) > 0 for w in words):
        raise InputError(f"{flag} {text!r}: expected whole numbers of at least 1, separated by commas")
    return sorted({int(w) for w in words})
