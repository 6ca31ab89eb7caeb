"""`trace.json`: the first requests of one replication, step by step, for chrome://tracing and Perfetto's viewer.

Enters: `Records`, names of the classes, how many requests. Leaves: a `TraceFile` in the Trace Event Format: complete events
(`X`) with nested slices, counters (`C`), names (`M`). Four groups of tracks: requests (one track each: the request, and in
it the steps along the slowest signal of each stage), locks (who holds each), sessions (who holds one), devices (what
runs, and the occupancy in use). All cuts are rounded to whole nanoseconds before they become durations, so the steps
of a request add up to its latency exactly. `ts` and `dur` in microseconds, as the format wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sim.records import Records
from sim.tracks import FAILURES, STALLS
from simcap.report import words

REQUESTS, LOCKS, SESSIONS, DEVICES = 1, 2, 3, 4
GROUPS = {REQUESTS: "requests", LOCKS: "locks", SESSIONS: "sessions", DEVICES: "devices"}
DEFAULT_REQUESTS = 100

Cut = tuple[str, int, int]  # what, from, to: nanoseconds


class Event(BaseModel):
    """One event of the format. `pid`: the group of tracks; `tid`: the track in it."""

    model_config = ConfigDict(extra="forbid")

    ph: Literal["X", "C", "M"]
    name: str
    pid: int
    tid: int = 0
    ts: float = 0.0
    dur: float | None = None
    args: dict[str, str | int | float] = {}


class TraceFile(BaseModel):
    """The whole file; viewers keep what they do not know (`schema`, `otherData`) as it is."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_version: Literal["simcap.trace/1"] = Field(alias="schema", default="simcap.trace/1")
    displayTimeUnit: Literal["ms", "ns"] = "ms"  # noqa: N815 - the format's own name
    otherData: dict[str, str | int | float] = {}  # noqa: N815 - the format's own name
    traceEvents: list[Event]  # noqa: N815 - the format's own name


def trace_of(records: Records, classes: Sequence[str], count: int, about: Mapping[str, str | int | float]) -> TraceFile:
    """The first `count` requests in order of arrival. `about`: what the file says of its run (scenario, load, seed …)."""
    rows = range(min(count, records.arrived.size))
    made = [Event(ph="M", name="process_name", pid=pid, args={"name": name}) for pid, name in GROUPS.items()]
    made += [Event(ph="M", name="process_sort_index", pid=pid, args={"sort_index": pid}) for pid in GROUPS]
    for i in rows:
        made += _request(records, classes, i)
    made += _held(records, rows)
    return TraceFile(otherData={**about, "requests": len(rows)}, traceEvents=made)


def steps(records: Records, i: int) -> list[Cut]:
    """What request i did from arrival to answer, without gaps, along the slowest signal of each stage."""
    marks = [
        ("failed attempts and pauses before a retry", records.entered[i]),
        ("waiting for a router CPU worker", records.router_started[i]),
        ("router CPU work", records.router_ended[i]),
    ]
    for stage in records.node.stages:
        ended = {s: records.ended[i, s] for s in stage if not np.isnan(records.ended[i, s])}
        if ended:
            slowest = max(ended, key=lambda s: ended[s])
            name = records.node.signals[slowest]
            marks.append(("going on without a signal", records.ready[i, slowest]))
            marks += [(f"{name}: {what}", when) for what, when in _job(records, i, slowest)]
    failure = FAILURES[int(records.failure[i])]
    rest = f"until it failed: {words.failure(failure)}" if records.failure[i] else "going on without a signal"
    return list(_cuts(records.arrived[i], [*marks, (rest, records.answered[i])]))


def _job(records: Records, i: int, s: int) -> Iterator[tuple[str, float]]:
    """(what, until when) of one signal's inference from its stage's start on; times rise."""
    yield words.PARTS["lock"], records.locked[i, s]
    stalls = {kind: float(records.stalls[kind][i, s]) for kind in STALLS}
    at = max(float(records.started[i, s]) - sum(stalls.values()), float(records.locked[i, s]))
    yield words.PARTS["session_queue"], at
    for kind in ("fallback", "load", "compile", "memory"):
        at += stalls[kind]
        yield words.PARTS[kind], at
    yield words.PARTS["memory"], records.started[i, s]  # rounding that is left over from the sum
    yield "inference", records.ended[i, s]


def _cuts(begin: float, marks: Sequence[tuple[str, float]]) -> Iterator[Cut]:
    """Marks as slices that follow one another; a mark that did not happen, or takes no time, has none."""
    last, end = _ns(begin), _ns(marks[-1][1])
    for what, when in marks:
        if np.isnan(when):
            continue
        at = min(max(_ns(when), last), end)
        if at > last:
            yield what, last, at
        last = at


def _request(records: Records, classes: Sequence[str], i: int) -> Iterator[Event]:
    kind, tokens = classes[int(records.work.class_of[i])], int(records.work.tokens[i])
    begin, end = _ns(records.arrived[i]), _ns(records.answered[i])
    told: dict[str, str | int | float] = {"class": kind, "tokens": tokens, "outcome": "answered"}
    if records.failure[i]:
        told["outcome"] = words.failure(FAILURES[int(records.failure[i])])
    if records.node.replicas.count > 1:
        told["replica"] = int(records.replica[i])
    yield Event(ph="M", name="thread_name", pid=REQUESTS, tid=i, args={"name": f"request {i}"})
    yield _slice(REQUESTS, i, (f"request {i}: {kind}, {tokens} tokens", begin, end), told)
    for cut in steps(records, i):
        yield _slice(REQUESTS, i, cut)


def _held(records: Records, rows: range) -> Iterator[Event]:
    """Locks, sessions and devices: who held each, every job on the first free track of its resource."""
    node = records.node
    held: dict[tuple[int, str], list[tuple[Cut, dict[str, str | int | float]]]] = {}
    for i in rows:
        where = f" of replica {records.replica[i]}" if node.replicas.count > 1 else ""
        for s in np.flatnonzero(~np.isnan(records.ended[i])).tolist():
            name, lock, v = node.signals[s], node.lock_of[s], int(records.variant[i, s])
            what, end = f"request {i}: {name}", _ns(records.ended[i, s])
            if lock is not None:
                key = LOCKS, f"lock {node.locks[lock][0]}{where}"
                held.setdefault(key, []).append(((what, _ns(records.locked[i, s]), end), {}))
            stalled = sum(float(records.stalls[kind][i, s]) for kind in ("load", "compile", "memory"))
            seat = SESSIONS, f"session {name} on {node.variant(v).provider or 'its provider'}{where}"
            held.setdefault(seat, []).append(((what, _ns(float(records.started[i, s]) - stalled), end), {}))
            work = {"own work (s)": float(records.own_s[i, s]), "occupancy": float(records.share[i, s])}
            on = DEVICES, f"{words.resource(f'device:{node.devices[int(records.device[i, s])]}')}{where}"
            held.setdefault(on, []).append(((what, _ns(records.started[i, s]), end), {**work}))
    for number, ((pid, name), jobs) in enumerate(sorted(held.items(), key=lambda item: item[0])):
        yield from _tracks(pid, number * 1000, name, sorted(jobs, key=lambda job: job[0][1:]))
        if pid == DEVICES:
            yield from _in_use(name, jobs)


def _tracks(
    pid: int, first: int, name: str, jobs: Sequence[tuple[Cut, dict[str, str | int | float]]]
) -> Iterator[Event]:
    """Jobs in order of their start, side by side where they overlap."""
    free: list[int] = []  # when each track is free again
    for cut, told in jobs:
        lane = next((k for k, until in enumerate(free) if until <= cut[1]), len(free))
        if lane == len(free):
            free.append(0)
            label = name if lane == 0 else f"{name} ({lane + 1})"
            yield Event(ph="M", name="thread_name", pid=pid, tid=first + lane, args={"name": label})
        free[lane] = cut[2]
        yield _slice(pid, first + lane, cut, told)


def _in_use(name: str, jobs: Sequence[tuple[Cut, dict[str, Any]]]) -> Iterator[Event]:
    """The sum of the occupancies of what runs, at each change."""
    changes = sorted(change for (_, a, b), told in jobs for change in ((a, told["occupancy"]), (b, -told["occupancy"])))
    used = 0.0
    for at, share in changes:
        used += share
        yield Event(ph="C", name=f"occupancy in use on {name}", pid=DEVICES, ts=at / 1000, args={"f": round(used, 9)})


def _slice(pid: int, tid: int, cut: Cut, told: dict[str, str | int | float] | None = None) -> Event:
    what, begin, end = cut
    return Event(ph="X", name=what, pid=pid, tid=tid, ts=begin / 1000, dur=(end - begin) / 1000, args=told or {})


def _ns(seconds: float) -> int:
    return round(float(seconds) * 1e9)
