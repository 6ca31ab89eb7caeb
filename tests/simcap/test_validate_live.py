"""`simcap validate live` on tiny models: what it catches, and that right structures are told from wrong ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import calibrate.live
import simcap.validate.live.predict
from calibrate.artifacts import OwnModel
from calibrate.in_place_request import InPlaceRequest, carry_out
from calibrate.launch import WorkerLauncher
from calibrate.live import Load, Played, check_playable
from calibrate.machine import available_cores
from calibrate.merge import merge
from calibrate.results import LiveRecord, SentinelLook
from profiles import store
from profiles.errors import FindingError, InputError
from profiles.quantity import Figure
from profiles.schema import Profile, Scheduling
from scenarios import loader
from scenarios.schema import Scenario
from scenarios.threads import most_threads
from sim.engine import simulate
from sim.node import node_of
from sim.streams import Streams
from simcap.commands.validate import app
from simcap.validate.live import figures, summary
from simcap.validate.live.judge import judge
from simcap.validate.live.law import arrivals_of, own_work, work_of
from simcap.validate.live.points import Point
from simcap.validate.live.recording import Folder, Recording
from tests.calibrate.tiny import tiny_file

pytestmark = pytest.mark.xdist_group("live")  # they share a calibration and two runs

SCENARIO = """
schema: simcap.scenario/1
name: tiny-live
question: Does the live host play what the scenario says?
node: {cpu_workers: 1}
router: {cpu: {base_s: 0}}
lock_domains: {pool: {width: 2}}
signals:
  a: {model: tiny-a, artifact: intent_fp32, provider: cpu, sessions: 2, lock_domain: pool}
  b: {model: tiny-b, artifact: intent_fp32, provider: cpu, sessions: 2, lock_domain: pool}
stages: [[a, b]]
classes:
  chat: {weight: 1, tokens: {law: uniform, min: 192, max: 256}}
arrivals: {process: poisson}
load: {rps: [10]}
slo: {latency_ms: 100}
"""


@contextmanager
def busy_cores() -> Iterator[None]:
    """Somebody else on every core."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(available_cores())]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the scenario, a model file, and a profile measured in place. Looks at the sentinel are kept short."""
    folder = tmp_path_factory.mktemp("live")
    model = tiny_file(folder)
    (folder / "s.yaml").write_text(SCENARIO)
    own = [OwnModel(name, None, model) for name in ("tiny-a", "tiny-b")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate.live, "LEAST_SENTINEL_S", 0.05)
        patch.setattr(simcap.validate.live.predict, "REPLICATIONS", 20)
        wanted = InPlaceRequest(
            loader.load(str(folder / "s.yaml")), own, [192, 256], 1, 1.0, 1, folder / "p.json", folder
        )
        carry_out(wanted, WorkerLauncher, lambda _: None)
        yield folder


def arguments(place: Path, *more: str) -> list[str]:
    model = place / "intent_fp32.onnx"
    flags = ["live", "--scenario", str(place / "s.yaml"), "--played", str(place / "played"), "--runs", "1"]
    return [*flags, "--model", f"tiny-a={model}", "--model", f"tiny-b={model}", *more]


@pytest.fixture(scope="module")
def disturbed(place: Path) -> Result:
    """What the command said of two runs on a machine with a guest on every core, by a profile of another processor."""
    old = store.load(str(place / "p.json"))
    assert old.host is not None
    stale = old.model_copy(update={"host": old.host.model_copy(update={"cpu": "Another CPU"})})
    store.save(stale, place / "stale.json")
    with busy_cores():
        flags = ("--profile", str(place / "stale.json"), "--clients", "2,4", "--shares", "", "--seconds", "1")
        return CliRunner().invoke(app, arguments(place, *flags))


def test_in_place_calibration_knows_the_machine(place: Path) -> None:
    """Both cadences at every token count, and the sentinel by which a later run is judged."""
    profile = store.load(str(place / "p.json"))
    assert [e.model for e in profile.entries] == ["tiny-a", "tiny-b"]
    for entry in profile.entries:
        assert entry.service
        assert entry.paced_service
        assert [c.tokens for c in entry.service.cells] == [c.tokens for c in entry.paced_service.cells] == [192, 256]
    assert profile.sentinel is not None
    assert profile.sentinel.tokens == 192


def test_a_busy_machine_a_stale_profile_and_a_wrong_law_are_caught(place: Path, disturbed: Result) -> None:
    """Done when: exit 4 that names the processes on the other cores, the other processor, and the wrong structure."""
    runner, found = CliRunner(), disturbed
    assert isinstance(found.exception, FindingError)
    assert found.exception.exit_code == 4
    assert "profile p was measured elsewhere (processor was Another CPU, here it is" in str(found.exception)
    assert "machine moved or shared at 2 of 2 points" in str(found.exception)
    record = json.loads((place / "stale.validation-live.json").read_text())
    assert record["verdict"] == "attention"
    assert {row["basis"] for row in record["rows"]} == {"law", "prediction"}

    mutex = ("--profile", str(place / "p.json"), "--judge", "--set", "lock_domains.pool.width=1")
    wrong = runner.invoke(app, arguments(place, *mutex))
    assert isinstance(wrong.exception, FindingError)
    assert "wrong law" in str(wrong.exception)

    refused = runner.invoke(app, arguments(place, "--profile", str(place / "stale.json"), "--strict"))
    assert isinstance(refused.exception, FindingError)
    assert "--strict" in str(refused.exception)


@pytest.mark.usefixtures("disturbed")
def test_the_host_plays_the_structure(place: Path) -> None:
    """No more at once than the pool has workers, steps in order, each client one request at a time, generator not early."""
    for recording in Folder(place / "played").read():
        p = recording.played
        assert np.all((p.ready <= p.locked) & (p.locked <= p.started) & (p.started <= p.ended))
        edges = sorted([(t, 1) for t in p.started.ravel()] + [(t, -1) for t in p.ended.ravel()])
        assert max(np.cumsum([step for _, step in edges])) == 2
        inside = sorted([(t, 1) for t in p.arrived] + [(t, -1) for t in p.answered])
        assert max(np.cumsum([step for _, step in inside])) <= recording.point.clients
        assert np.all(p.answered >= p.ended.max(axis=1))


def synthetic(scenario: Scenario, profile: Profile, point: Point, run: int, slow: float = 1.0) -> Recording:
    """What a machine that obeys the law exactly would have recorded; `slow`: all times are longer by it."""
    n, rng = 200, np.random.default_rng(run)
    needed = np.ones((n, len(scenario.signals)), dtype=bool)
    tokens = np.repeat(rng.integers(192, 257, n)[:, None], 2, axis=1)
    times = np.zeros(n) if point.clients else np.cumsum(rng.exponential(1 / point.rps, n))
    load = Load(needed, tokens, times, point.clients)
    look = SentinelLook(alone=(10**6,), together=(10**6,))
    record = LiveRecord(
        kind="live",
        sentinels=(look,),
        pulses=(round(slow * 10**6),),
        span_s=1,
        own_cores=1,
        other_cores=0,
        stolen_cores=0,
    )
    empty = np.zeros((n, 2))
    blank = Played(load, times, times, empty, empty, empty, empty, empty, record)
    recording = Recording(point, run, np.zeros(n, dtype=np.int64), blank, "now")
    entry = profile.entries[0]
    own = slow * np.column_stack([entry.surface("tight").sample(tokens[:, 0], rng.random(n)) for _ in range(2)])
    node = node_of(scenario, profile)
    records = simulate(node, work_of(recording, own, np.array([0.5, 0.5])), arrivals_of(recording), Streams(1, 1))
    played = Played(
        load,
        records.arrived,
        records.answered,
        records.ready,
        records.locked,
        records.started,
        records.ended,
        own,
        record,
    )
    return Recording(point, run, recording.class_of, played, "now")


def known(place: Path) -> tuple[Scenario, Profile]:
    """The scenario, and a profile whose sentinel took a millisecond in every way."""
    profile = store.load(str(place / "p.json"))
    assert profile.sentinel
    one = profile.sentinel.alone_s.model_copy(update={"value": 1e-3, "lo": None, "hi": None})
    times = dict.fromkeys(("alone_s", "together_s", "tight_s", "paced_s"), one)
    sentinel = profile.sentinel.model_copy(update=times)
    return loader.load(str(place / "s.yaml")), profile.model_copy(update={"sentinel": sentinel})


def test_a_machine_that_obeys_the_law_has_no_law_error(place: Path) -> None:
    """The law's replay of what the law itself produced is exact, and the prediction's interval holds it."""
    scenario, profile = known(place)
    plays = [synthetic(scenario, profile, Point("closed", clients=c), run) for c in (2, 4) for run in (1, 2)]
    judged = judge(scenario, profile, plays, {"a": 1, "b": 1}, cores=2, seed=3)
    for one in judged:
        assert one.law is not None
        assert one.counted
        assert [one.error(one.law, f) for f in figures.FIGURES] == pytest.approx([0] * 5, abs=1e-9)
    covered = summary.coverage(judged)
    assert covered.of == 12
    assert covered.inside >= 5  # the profile has seven samples a cell, so its tails are hardly known
    assert summary.wrong_law(judged) is None
    assert summary.moved(judged) is None


def test_a_slower_machine_is_marked_and_not_counted(place: Path) -> None:
    """Thirty per cent slower by the sentinel: the law still holds, the prediction misses, and it does not count."""
    scenario, profile = known(place)
    (one,) = judge(
        scenario,
        profile,
        [synthetic(scenario, profile, Point("closed", clients=4), 1, 1.3)],
        {"a": 1, "b": 1},
        cores=2,
        seed=3,
    )
    assert one.remarks == ("machine moved",)
    assert one.speed is not None
    assert one.speed.during == pytest.approx(1.3)
    assert one.law is not None
    assert one.error(one.law, "p50") == pytest.approx(0, abs=1e-9)
    assert one.error(one.prediction.mean, "p50") < -0.1
    assert "machine moved or shared at 1 of 1" in (summary.moved([one]) or "")


def test_heavy_loads_are_shown_and_not_counted(place: Path) -> None:
    """Above half of the saturation a prediction is marked unstable and enters no median."""
    scenario, profile = known(place)
    point = Point("open", share=0.7, rps=20)
    (one,) = judge(scenario, profile, [synthetic(scenario, profile, point, 1)], {"a": 1, "b": 1}, cores=2, seed=3)
    assert one.remarks == ("unstable here",)
    assert [g.basis for g in summary.groups([one], "pool")] == ["law"]
    assert any(not row.counted and row.basis == "prediction" for row in summary.rows_of([one]))


def test_how_own_work_is_known(place: Path) -> None:
    """A pool within the cores: end - start. Free threads: CPU time. Free sessions of several threads: not identifiable."""
    scenario, profile = known(place)
    recording = synthetic(scenario, profile, Point("closed", clients=2), 1)
    one, two = {"a": 1, "b": 1}, {"a": 2, "b": 2}
    assert most_threads(scenario, one) == 2
    assert (own_work(scenario, one, 2, recording) or ("", ""))[1] == "end - start"
    assert (own_work(scenario, one, 1, recording) or ("", ""))[1] == "CPU time"
    assert own_work(scenario, two, 2, recording) is None


def test_recordings_come_back_as_they_were(tmp_path: Path, place: Path) -> None:
    """Every array and the record survive the file; a folder of another scenario is refused."""
    scenario, profile = known(place)
    recording = synthetic(scenario, profile, Point("closed", clients=2), 1)
    folder = Folder(tmp_path / "f", {"scenario": "x"})
    folder.save(recording)
    (back,) = Folder(tmp_path / "f").read()
    assert back.point == recording.point
    assert back.played.record == recording.played.record
    np.testing.assert_array_equal(back.played.answered, recording.played.answered)
    with pytest.raises(InputError, match="another scenario"):
        Folder(tmp_path / "f", {"scenario": "y"})
    with pytest.raises(InputError, match=r"no recordings"):
        Folder(tmp_path)


def test_the_bootstrap_holds_the_truth_of_a_known_law(place: Path) -> None:
    """Twenty runs of one law: most intervals hold the median, throughput and utilisation of all runs together, and are narrow."""
    scenario, profile = known(place)
    plays = [synthetic(scenario, profile, Point("closed", clients=4), run).played for run in range(20)]
    measured = [figures.of_played(p, float(p.cpu_s.sum()), 2) for p in plays]
    intervals = [figures.bootstrap(p, p.cpu_s, 2, seed=1) for p in plays]
    for figure in ("p50", "throughput", "utilisation"):
        truth = float(np.mean([one[figure] for one in measured]))
        bounds = np.array([one[figure] for one in intervals])
        assert np.mean((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])) >= 0.7
        assert np.median(bounds[:, 1] - bounds[:, 0]) < 0.25 * truth


def test_the_record_has_an_interval_on_both_sides(place: Path) -> None:
    """Each measured figure lies in its own 95 % interval, the same one for the same seed; each prediction has one too."""
    scenario, profile = known(place)
    plays = [synthetic(scenario, profile, Point("open", share=0.3, rps=20), 1)]
    first, again = (summary.rows_of(judge(scenario, profile, plays, {"a": 1, "b": 1}, cores=2, seed=3)) for _ in "ab")
    assert first == again
    assert {row.figure for row in first} == set(figures.FIGURES)
    for row in first:
        assert row.measured is not None
        assert row.measured.lo is not None
        assert row.measured.lo <= (row.measured.value or 0) <= (row.measured.hi or 0)
        assert row.measured.lo < (row.measured.hi or 0)
        assert row.basis == "law" or (row.predicted and row.predicted.lo is not None)


def test_what_the_host_does_not_play_is_refused(place: Path) -> None:
    """Windows, co-tenants and router work are named, not left out in silence."""
    scenario = loader.load(str(place / "s.yaml"), ["signals.a.windows={tokens: 64}", "router.cpu.base_s=0.001"])
    with pytest.raises(InputError, match=r"router\.cpu.*signals\.\*\.windows"):
        check_playable(scenario)


def test_merged_runs_keep_the_sentinel_of_each(place: Path) -> None:
    """Its times are pooled over the runs; how cores are dealt out over those that measured it."""
    one = store.load(str(place / "p.json"))
    assert one.sentinel
    slower = one.sentinel.tight_s.model_copy(update={"value": 3 * one.sentinel.tight_s.value})
    scheduling = Scheduling(
        slice_s=Figure(value=0.004, origin="measured", n=10), pull_s=Figure(value=0.01, origin="measured", n=10)
    )
    two = one.model_copy(
        update={
            "created": "2026-01-01T00:00:00+00:00",
            "sentinel": one.sentinel.model_copy(update={"tight_s": slower}),
            "device": one.device.model_copy(update={"scheduling": scheduling}),
        }
    )
    both = merge([one, two], "both")
    assert both.sentinel
    assert both.sentinel.tight_s.value == pytest.approx(2 * one.sentinel.tight_s.value)
    assert both.device.scheduling == scheduling


def test_the_scheduler_is_simulated_only_where_threads_outnumber_cores(place: Path) -> None:
    """A pool of two on two cores never queues for a core; free sessions do, and then the measured run queues are the law."""
    profile = store.load(str(place / "p.json"))
    figure = Figure(value=0.004, origin="measured", n=10)
    device = profile.device.model_copy(update={"cores": 2, "scheduling": Scheduling(slice_s=figure, pull_s=figure)})
    known = profile.model_copy(update={"device": device})
    path = str(place / "s.yaml")
    assert node_of(loader.load(path), known).run_queues is None
    free = loader.load(path, ["signals.a.lock_domain=null", "signals.b.lock_domain=null", "lock_domains={}"])
    queues = node_of(free, known).run_queues
    assert queues is not None
    assert (queues.cores, queues.slice_s, queues.pull_s) == (2, 0.004, 0.004)
    assert node_of(free, profile).run_queues is None
