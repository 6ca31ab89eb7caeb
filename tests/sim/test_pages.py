"""A long run in pages against the same run kept whole: the same times, and the same figures up to the sketch's error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from profiles import store
from scenarios import loader
from scenarios.node import Limits
from scenarios.schema import Scenario
from sim import engine, metrics, pages
from sim.arrivals import OpenLoop, arrivals_of, times_in_pieces
from sim.engine import EngineName
from sim.ledger import Ledger
from sim.metrics import HISTOGRAM_EDGES, Figures, figures
from sim.node import LimitSpec, NodeSpec
from sim.pages import House, Page, notes_of_pages
from sim.records import Records
from sim.sketch import ERROR
from sim.streams import OngoingStreams, Streams
from sim.sweep import Bench, Sweep
from sim.work import Piece, Work, draw_work
from simcap.validate.random_nodes import Case, full
from tests.invariants.drawn import drawn
from tests.sim import test_compiled as core
from tests.sim.test_shipped_scenarios import profile_of_mini_models
from tests.support import small_nodes

ROW_COLUMNS = [*core.COLUMNS, "latency"]


def cut(work: Work, times: np.ndarray, size: int) -> Iterator[Page]:
    """Work that is there already, page by page."""
    for at in range(0, times.size, size):
        rows = slice(at, min(at + size, times.size))
        yield work.rows(rows), times[rows]


def in_pages(
    node: NodeSpec, work: Work, times: np.ndarray, seed: int, size: int, name: EngineName
) -> tuple[list[dict[str, np.ndarray]], House]:
    """The columns of each page, copied, since its places are used again."""
    seen: list[dict[str, np.ndarray]] = []

    def add(records: Records) -> None:
        columns = {column: np.array(getattr(records, column)) for column in ROW_COLUMNS}
        columns |= {f"stall:{kind}": np.array(seconds) for kind, seconds in records.stalls.items()}
        columns |= {"lost": np.array(records.events.lost).reshape(-1, 6)}
        columns |= {"memory": np.array(records.events.memory).reshape(-1, 4)}
        seen.append(columns)

    house = House(cut(work, times, size), times.size)
    engine.simulate_in_pages(node, house, OngoingStreams(seed, 0), add, name)
    return seen, house


def assert_same(node: NodeSpec, work: Work, times: np.ndarray, seed: int, size: int, name: EngineName) -> House:
    whole = engine.simulate(node, work, OpenLoop(times), Streams(seed, 0), engine="simpy")
    seen, house = in_pages(node, work, times, seed, size, name)
    got = {column: np.concatenate([columns[column] for columns in seen]) for column in seen[0]}
    for column in ROW_COLUMNS:
        np.testing.assert_array_equal(got[column], getattr(whole, column), err_msg=column)
    for kind, seconds in whole.stalls.items():
        np.testing.assert_array_equal(got[f"stall:{kind}"], seconds, err_msg=kind)
    assert sorted(map(tuple, got["lost"])) == sorted(map(tuple, whole.events.lost))
    assert np.array_equal(got["memory"], np.array(whole.events.memory).reshape(-1, 4))
    return house


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(core.cases(), st.integers(1, 9), st.sampled_from(["simpy", "compiled"]))
def test_the_closed_core_in_pages_tells_the_same_of_every_request(
    case: tuple[NodeSpec, Work, object, int], size: int, name: EngineName
) -> None:
    """Random nodes with ties, limits and balancers, pages of a few requests: every column is equal, in both engines."""
    node, work, arrivals, seed = case
    assume(isinstance(arrivals, OpenLoop))
    assert isinstance(arrivals, OpenLoop)
    assert_same(node, work, arrivals.times, seed, size, name)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn(full), st.integers(1, 9))
def test_every_mechanism_in_pages_tells_the_same_of_every_request(case: Case, size: int) -> None:
    """Memory, compiles, fallbacks, retries, faults and random locks: a place that is used again remembers nothing."""
    assert_same(case.node, case.work, case.times, case.seed, size, "simpy")


@pytest.mark.parametrize("name", ["simpy", "compiled"])
def test_a_stable_run_needs_few_places_however_long_it_is(name: EngineName) -> None:
    """Ten thousand requests in pages of 50 pass through at most 8 pages of places, time-outs and their ghosts included."""
    node = dataclasses.replace(
        small_nodes.spec([[0, 1]], locks=[0, None], cpu_workers=2), limits=LimitSpec(timeout_s=0.02)
    )
    rng = np.random.default_rng(5)
    work = small_nodes.work(10_000, node, router=1e-4)
    work.service_s[:] = rng.exponential(0.004, work.service_s.shape)
    house = assert_same(node, work, np.cumsum(rng.exponential(1 / 150, 10_000)), 1, 50, name)
    assert house.times.size <= 8 * 50


PROCESSES = [
    "{process: poisson}",
    "{process: gamma, cv: 2.5}",
    "{process: mmpp, states: [{rate: 1, holding_s: 3}, {rate: 6, holding_s: 1}]}",
    "{process: time_varying, points: [[0, 1], [10, 4], [20, 1]]}",
    "{process: spike, factor: 3, at_s: 4, duration_s: 2}",
]


@pytest.mark.parametrize("process", PROCESSES)
def test_arrivals_in_pieces_are_the_same_times(process: str) -> None:
    """Bit for bit, whatever the size of a piece."""
    scenario = loader.load("highconc", [f"arrivals={process}", "load={rps: [50]}", "measurement.requests=5000"])
    whole = arrivals_of(scenario, 50.0, Streams(3, 1))
    assert isinstance(whole, OpenLoop)
    for size in (1, 777, 5000):
        pieces = list(times_in_pieces(scenario, 50.0, 5000, size, OngoingStreams(3, 1)))
        assert np.array_equal(np.concatenate(pieces), whole.times)


@pytest.mark.parametrize("name", loader.shipped_names())
def test_every_shipped_scenario_draws_the_same_work_in_pieces(name: str) -> None:
    """Classes, lengths, needs, service times, failures, compile times and memory, bit for bit."""
    scenario = loader.load(name)
    profile = store.load(scenario.profile) if scenario.profile else profile_of_mini_models()
    n, streams = 1000, OngoingStreams(7, 2)
    whole = draw_work(scenario, profile, Streams(7, 2), n)
    pieces = [draw_work(scenario, profile, streams, min(333, n - at), piece=Piece(at, n)) for at in range(0, n, 333)]
    for column, values in (whole.columns() | whole.asked_later).items():
        got = np.concatenate([(piece.columns() | piece.asked_later)[column] for piece in pieces])
        np.testing.assert_array_equal(got, values, err_msg=column)


def both_figures(
    node: NodeSpec, work: Work, times: np.ndarray, *, size: int, steady: bool, name: EngineName, slo_s: float = 0.05
) -> tuple[Figures, Figures, int]:
    """(of the ledger, of the whole run with the same requests removed, requests of a block)."""
    ledger = Ledger(node, ("a", "b"), slo_s, requests=times.size, page=size, steady=steady)

    def told() -> Iterator[Page]:
        for page, at in cut(work, times, size):
            ledger.drawn(at)
            yield page, at

    engine.simulate_in_pages(node, House(told(), times.size), OngoingStreams(1, 0), ledger.add, name)
    got = ledger.figures(0.9)
    records = engine.simulate(node, work, OpenLoop(times), Streams(1, 0), engine="simpy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "warm_up", lambda _: got.warmup_removed)
        return got, figures(records, ("a", "b"), slo_s, 0.9, bursts=False, steady=steady), size


def assert_close(got: Figures, exact: Figures) -> None:
    """Sums to rounding, percentiles to the sketch's error (and a microsecond, below which a duration counts as 0)."""
    for field in dataclasses.fields(Figures):
        mine, theirs = getattr(got, field.name), getattr(exact, field.name)
        if field.name == "histogram":
            assert mine.sum() == theirs.sum()
            # Latencies of these nodes are often round, and so are five edges: there rounding decides.
            sharp = ~np.isclose(HISTOGRAM_EDGES[1:], 10.0 ** np.rint(np.log10(HISTOGRAM_EDGES[1:])))
            apart = np.abs(np.cumsum(mine) - np.cumsum(theirs))[sharp]
            assert apart.max() <= 1, "one value on an edge at most"
        elif isinstance(mine, dict):
            assert_dicts_close(mine, theirs, field.name)
        else:
            assert mine == theirs, field.name


def assert_dicts_close(mine: dict[str, Any], theirs: dict[str, Any], where: str) -> None:
    assert mine.keys() == theirs.keys(), where
    for key, value in theirs.items():
        if isinstance(value, dict):
            assert_dicts_close(mine[key], value, f"{where}.{key}")
            continue
        sketched = key.startswith(("p5", "p9")) or key in {"slo_percentile_s", "queue_wait_p99_s"}
        error = {"rel": ERROR, "abs": 1e-6} if sketched else {"rel": 1e-9, "abs": 1e-12}
        assert mine[key] == pytest.approx(value, **error, nan_ok=True), f"{where}.{key}"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(core.cases(), st.integers(1, 9), st.booleans(), st.sampled_from(["simpy", "compiled"]))
def test_figures_of_the_closed_core_are_those_of_the_whole_run(
    case: tuple[NodeSpec, Work, object, int], size: int, steady: bool, name: EngineName
) -> None:
    """Every sum, share, rate and utilisation to rounding, every percentile to the error that results state."""
    node, work, arrivals, _ = case
    assume(isinstance(arrivals, OpenLoop))
    assert isinstance(arrivals, OpenLoop)
    assume(arrivals.times.size > 1)
    assume(np.diff(arrivals.times).min() > 0)  # else a moment may belong to two stretches of time
    work.class_of[::3] = 1
    got, exact, _ = both_figures(node, work, arrivals.times, size=size, steady=steady, name=name)
    assert_close(got, exact)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn(full), st.integers(1, 9), st.booleans())
def test_figures_of_every_mechanism_are_those_of_the_whole_run(case: Case, size: int, steady: bool) -> None:
    """Stalls, fallbacks, steps down, memory peaks, watermarks and holds among them."""
    assume(case.times.size > 1)
    got, exact, _ = both_figures(case.node, case.work, case.times, size=size, steady=steady, name="simpy")
    assert_close(got, exact)


def long_scenario(tmp_path: Path, arrivals: str) -> Scenario:
    """Two classes, three thousand requests; lengths from the trace where there is one."""
    rows = "".join(f"{k * 0.012:.3f},{64 + 37 * k % 400},0\n" for k in range(3000))
    (tmp_path / "trace.csv").write_text("timestamp,num_prefill_tokens,num_decode_tokens\n" + rows, encoding="utf-8")
    law, load = "{law: uniform, min: 8, max: 500}", "{rps: [80]}"
    if arrivals == "trace":
        arrivals, law = f"{{process: trace, path: {tmp_path / 'trace.csv'}}}", "{law: trace}"
        load = "{rate_scale: [1]}"
    classes = f"{{chat: {{weight: 0.75, tokens: {law}}}, other: {{weight: 0.25, tokens: {law}}}}}"
    return loader.load(
        "highconc", [f"arrivals={arrivals}", f"classes={classes}", f"load={load}", "measurement.requests=3000"]
    )


@pytest.mark.parametrize("arrivals", ["trace", *PROCESSES])
@pytest.mark.parametrize("name", ["simpy", "compiled"])
def test_a_task_of_a_sweep_answers_the_same_in_pages(
    arrivals: str, name: EngineName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From scenario to figures and kept requests, drawn page by page, in both engines; and the notes say which it was."""
    scenario = long_scenario(tmp_path, arrivals)
    profile, trace = store.load("mi300x-published"), loader.read_trace(scenario)
    task = (scenario.load.points[0], 1)
    sweep = Sweep(scenario, profile, 1, name, trace, keep_records=True)
    whole = Bench(sweep).do(*task)
    assert not notes_of_pages(scenario, trace)
    monkeypatch.setattr(pages, "WHOLE_UP_TO", 2999)
    monkeypatch.setattr("sim.sweep.PAGE", 256)
    paged = Bench(sweep).do(*task)
    assert whole.records is not None
    assert paged.records is not None
    for column, values in whole.records.to_table().items():
        np.testing.assert_array_equal(paged.records.to_table()[column], values, err_msg=column)
    assert "0.5%" in notes_of_pages(scenario, trace)[0]
    if not scenario.arrivals.steady:
        assert_close(paged.figures, whole.figures)


def test_both_engines_give_the_same_figures_of_a_long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, with time-outs that leave inferences behind: sums are made of the same pages in the same order."""
    scenario = long_scenario(tmp_path, PROCESSES[0]).model_copy(update={"limits": Limits(timeout_ms=40)})
    profile = store.load("mi300x-published")
    monkeypatch.setattr(pages, "WHOLE_UP_TO", 2999)
    monkeypatch.setattr("sim.sweep.PAGE", 256)
    one, two = (Bench(Sweep(scenario, profile, 1, name)).do(80.0, 0).figures for name in ("simpy", "compiled"))
    assert one.scalars["failed_fraction"] > 0.05
    assert [repr(value) for value in dataclasses.astuple(one)] == [repr(value) for value in dataclasses.astuple(two)]
