"""trace.json: slices nest, tracks go forward, and the steps of a request add up to its latency to the nanosecond."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tiny

from profiles import store
from scenarios import loader
from sim.engine import run_once
from sim.metrics import time_parts
from sim.records import Records
from simcap import cli, trace
from simcap.report import words

ROOT = Path(__file__).resolve().parents[2]

RUNS = {
    "longctx": (("measurement.requests=300",), 4.0),
    "crash_recovery": (("measurement.requests=400",), 80.0),
    "provider_order": (("measurement.requests=300",), 20.0),
    "sdpa_memory_cliff": (("measurement.requests=300",), 2.0),
    "published_fa_concurrency": (("measurement.requests=200",), 10.0),
}
COUNT = 250


@pytest.fixture(scope="module", params=list(RUNS))
def made(request: pytest.FixtureRequest) -> tuple[Records, dict[str, Any]]:
    """Records of a shipped scenario and the trace of its first requests, as a reader of the file has it."""
    overrides, load = RUNS[request.param]
    scenario = loader.load(request.param, overrides)
    records = run_once(scenario, store.load("mi300x-published"), 1, load)
    file = trace.trace_of(records, tuple(scenario.classes), COUNT, {"scenario": request.param})
    return records, json.loads(file.model_dump_json(by_alias=True, exclude_none=True))


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def slices(file: dict[str, Any], pid: int | None = None) -> dict[tuple[int, int], list[tuple[int, int, str]]]:
    """(group, track) -> (from, to, name) in the order of the file, nanoseconds."""
    tracks: dict[tuple[int, int], list[tuple[int, int, str]]] = defaultdict(list)
    for event in file["traceEvents"]:
        if event["ph"] == "X" and pid in (None, event["pid"]):
            begin = ns(event["ts"])
            tracks[event["pid"], event["tid"]].append((begin, begin + ns(event["dur"]), event["name"]))
    return tracks


def test_the_file_obeys_its_schema(made: tuple[Records, dict[str, Any]]) -> None:
    """A tool that knows only the schema accepts the file, and it names itself."""
    _, file = made
    schema = json.loads((ROOT / "docs" / "reference" / "schema" / "trace.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(file, schema, cls=jsonschema.Draft202012Validator)
    assert file["schema"] == "simcap.trace/1"


def test_the_steps_of_each_request_fill_it_and_add_up_to_its_latency(made: tuple[Records, dict[str, Any]]) -> None:
    """Steps follow one another from arrival to answer without gap or overlap; their sum is the latency, exactly."""
    records, file = made
    tracks = slices(file, trace.REQUESTS)
    assert len(tracks) == min(COUNT, records.arrived.size)
    for (_, i), (whole, *parts) in tracks.items():
        assert whole[:2] == (ns(records.arrived[i] * 1e6), ns(records.answered[i] * 1e6))
        assert sum(end - begin for begin, end, _ in parts) == whole[1] - whole[0]
        edges = [whole[0], *(end for _, end, _ in parts)]
        assert [begin for begin, _, _ in parts] == edges[:-1]
        assert edges[-1] == whole[1]


def test_steps_are_the_parts_that_the_report_shows(made: tuple[Records, dict[str, Any]]) -> None:
    """Waiting for locks and sessions, compiling and loading add up to what the figures say of the same request."""
    records, file = made
    parts = time_parts(records)
    for (_, i), (_, *steps) in slices(file, trace.REQUESTS).items():
        if records.failure[i]:
            continue
        for part in ("lock", "session_queue", "compile", "load", "router_cpu"):
            told = sum(end - begin for begin, end, name in steps if name.rpartition(": ")[2] == words.PARTS[part])
            assert told == pytest.approx(parts[part][i] * 1e9, abs=2e-6 * 1e9 if part == "session_queue" else 10)


def test_tracks_go_forward_and_nothing_overlaps_on_one(made: tuple[Records, dict[str, Any]]) -> None:
    """On tracks of locks, sessions and devices slices come in order and end before the next begins; a lock has one track."""
    _, file = made
    for (pid, _), held in slices(file).items():
        if pid != trace.REQUESTS:
            assert held == sorted(held)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(held))
    names = [e["args"]["name"] for e in file["traceEvents"] if e["name"] == "thread_name" and e["pid"] == trace.LOCKS]
    assert not [name for name in names if name.endswith(")")]


def test_occupancy_ends_where_it_began_and_is_never_negative(made: tuple[Records, dict[str, Any]]) -> None:
    """The counter of a device rises and falls by what runs on it, and is zero when all of it has ended."""
    _, file = made
    counters: dict[str, list[float]] = defaultdict(list)
    for event in file["traceEvents"]:
        if event["ph"] == "C":
            counters[event["name"]].append(event["args"]["f"])
    assert counters
    for values in counters.values():
        assert min(values) >= -1e-6
        assert max(values) > 0
        assert values[-1] == pytest.approx(0.0, abs=1e-6)


def test_the_command_writes_the_file_and_says_how_to_make_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--trace --trace-requests 7` tells seven requests of the highest load that passed; without it there is no file."""
    tiny.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    base = ["run", "tiny.yaml", "--profile", "tiny.profile.json", "-q", "--no-report"]
    with pytest.raises(SystemExit):
        cli.main([*base, "--out", "with", "--trace", "--trace-requests", "7"])
    with pytest.raises(SystemExit):
        cli.main([*base, "--out", "without"])
    file = json.loads((tmp_path / "with" / "trace.json").read_text())
    result = json.loads((tmp_path / "with" / "result.json").read_text())
    assert file["otherData"] == {
        "scenario": "tiny",
        "profile": "tiny",
        "load": result["capacity"]["lo"],
        "load_kind": "rps",
        "seed": 1,
        "requests": 7,
    }
    manifest = json.loads((tmp_path / "with" / "manifest.json").read_text())
    assert manifest["command"].endswith("--trace --trace-requests 7")
    assert "trace.json" in manifest["outputs"]
    assert not (tmp_path / "without" / "trace.json").exists()
    assert result == json.loads((tmp_path / "without" / "result.json").read_text())
