"""Sweeps in this process, over processes and on a cluster: the same figures everywhere, clean ends, nothing left behind."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from profiles import store
from profiles.errors import InputError, SimcapError
from profiles.schema import Profile
from scenarios import loader
from scenarios.schema import Scenario
from sim import executor, replicate
from sim.executor import Dask, InProcess, Processes
from sim.sweep import Bench, Sweep, figures_of
from simcap.table import curve_csv

ROOT = Path(__file__).parents[2]


def scenario(requests: int = 300, loads: str = "[1,4,6]") -> Scenario:
    return loader.load("longctx", (f"measurement.requests={requests}", f"load.rps={loads}"))


@pytest.fixture(scope="module")
def profile() -> Profile:
    return store.load("mi300x-published")


def curve(result: object) -> bytes:
    return curve_csv(result)  # type: ignore[arg-type]  # a Result


def test_a_task_is_run_once_and_its_figures(profile: Profile) -> None:
    """Keeping a replication's work for the next load changes nothing: equal to a fresh `run_once` of that load."""
    from sim.engine import run_once

    wanted = scenario()
    bench = Bench(Sweep(wanted, profile, 1, "simpy"))
    for load, r in [(1.0, 0), (6.0, 0), (4.0, 1), (1.0, 0)]:
        fresh = figures_of(wanted, run_once(wanted, profile, 1, load, r, engine="simpy"))
        got = bench.do(load, r).figures
        assert got.scalars == pytest.approx(fresh.scalars, rel=0, abs=0, nan_ok=True)
        assert got.latency_s == fresh.latency_s
        assert got.histogram.tolist() == fresh.histogram.tolist()


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_the_curve_is_byte_identical_whatever_the_number_of_workers(
    profile: Profile, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One, two or five processes, either engine: the same curve.csv and the same result, byte for byte."""
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    wanted = scenario()
    reference = replicate.run(wanted, profile, 1, engine="simpy", workers=1)[0]
    for workers in (1, 2, 5):
        result = replicate.run(wanted, profile, 1, engine=engine, workers=workers)[0]  # type: ignore[arg-type]
        assert curve(result) == curve(reference)
        assert result == reference


def test_kept_records_come_back_from_workers_in_order(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request of every replication, load by load, is the same from two processes as from one."""
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    wanted = scenario(100)
    one = replicate.run(wanted, profile, 1, keep_records=True)[1]
    two = replicate.run(wanted, profile, 1, keep_records=True, workers=2)[1]
    assert [(load, r) for load, r, _ in two] == list(itertools.product((1.0, 4.0, 6.0), range(5)))
    for (_, _, a), (_, _, b) in zip(one, two, strict=True):
        assert {k: v.tobytes() for k, v in a.to_table().items()} == {k: v.tobytes() for k, v in b.to_table().items()}


def test_small_sweeps_stay_in_this_process(profile: Profile) -> None:
    """Where starting a process would take longer than the work, none is started."""
    assert isinstance(executor.local(8, Sweep(scenario(100), profile, 1, "simpy")), InProcess)
    large = executor.local(8, Sweep(scenario(20_000), profile, 1, "simpy"))
    assert isinstance(large, Processes)
    assert large.workers == 8


def test_an_error_in_a_worker_is_raised_here_and_ends_all_workers(profile: Profile) -> None:
    """Wrong input found by a task keeps its type and words, and no process is left."""
    retry = ("limits.timeout_ms=1000", "limits.retry={attempts: 1, backoff_ms: 5}")
    broken = Sweep(loader.load("longctx", retry), profile, 1, "compiled")
    with pytest.raises(InputError, match="not compiled: retries"):
        list(Processes(2).outcomes(broken, broken.tasks()))
    assert multiprocessing.active_children() == []


def test_who_stops_listening_leaves_no_process(profile: Profile) -> None:
    """Closing the stream of outcomes early ends workers that are in the middle of a task."""
    sweep = Sweep(scenario(3_000), profile, 1, "simpy")
    running = Processes(2).outcomes(sweep, [(1.0, r) for r in range(9)])
    next(running)
    assert len(multiprocessing.active_children()) == 2
    running.close()
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_killed_is_an_error_that_says_so(profile: Profile) -> None:
    """kill -9 of a worker: one sentence instead of a hang, and the others are ended."""
    sweep = Sweep(scenario(30_000), profile, 1, "simpy")
    outcomes = Processes(2).outcomes(sweep, [(1.0, r) for r in range(6)])
    with pytest.raises(SimcapError, match="a worker process ended"):  # noqa: PT012 - the kill comes between outcomes
        for _ in outcomes:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
    assert multiprocessing.active_children() == []


SWEEP = [
    "run", "longctx", "--set", "measurement.requests=60000", "--engine", "simpy", "--workers", "2", "--no-report", "-q"
]  # fmt: skip


def _children(pid: int) -> list[int]:
    task = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in task.read_text().split()] if task.exists() else []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_an_interrupted_or_killed_run(tmp_path: Path, how: signal.Signals) -> None:
    """Ctrl-C ends with code 5 and nothing written; after kill -9 of the run its workers end by themselves."""
    command = [sys.executable, "-m", "simcap", *SWEEP, "--out", str(tmp_path / "out")]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    workers = _until(lambda: found if len(found := _children(run.pid)) == 2 else None, 60)
    time.sleep(0.5)
    run.send_signal(how)
    _, said = run.communicate(timeout=60)
    assert run.returncode == (5 if how == signal.SIGINT else -9), said
    if how == signal.SIGINT:
        assert b"Traceback" not in said
        assert not (tmp_path / "out").exists()
    assert _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers) or None, 60)


def _until(look: Callable[[], Any], seconds: float) -> Any:
    """What `look` finds, as soon as it is not None."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
    return found


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and workers as processes of their own, over TCP on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1]]
    worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    running = [subprocess.Popen([sys.executable, "-m", *scheduler, "--no-dashboard"], **quiet)]  # type: ignore[call-overload]
    try:
        running += [subprocess.Popen([sys.executable, "-m", *worker], **quiet) for _ in range(workers)]  # type: ignore[call-overload]
        _wait_for_workers(address, workers)
        yield address, running[1:]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _wait_for_workers(address: str, workers: int) -> None:
    import distributed

    deadline = time.monotonic() + 60
    while True:
        try:
            with distributed.Client(address, timeout=5, set_as_default=False) as client:
                if workers:
                    client.wait_for_workers(workers, timeout=50)
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_a_cluster_gives_the_same_curve_and_survives_the_loss_of_a_worker(profile: Profile) -> None:
    """On a scheduler and two workers over TCP: byte-identical, and again after one worker is killed amid the sweep."""
    wanted = scenario(20_000)
    reference = curve(replicate.run(wanted, profile, 1, engine="compiled")[0])
    with cluster(2) as (address, workers):
        assert curve(replicate.run(wanted, profile, 1, engine="compiled", dask=address)[0]) == reference

        def kill_one(done: int, _: int) -> None:
            if done == 2:
                workers[0].kill()

        killed = replicate.run(wanted, profile, 1, engine="compiled", dask=address, progress=kill_one)[0]
        assert curve(killed) == reference


def test_a_cluster_that_is_not_there_is_an_error_that_names_the_address(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No scheduler at the address, or one without workers: one sentence, at once."""
    monkeypatch.setattr(executor, "CONNECT_S", 1)
    sweep = Sweep(scenario(), profile, 1, "simpy")
    with pytest.raises(InputError, match=r"--dask tcp://127.0.0.1:1: no Dask scheduler"):
        next(Dask("tcp://127.0.0.1:1").outcomes(sweep, sweep.tasks()))
    with cluster(0) as (address, _), pytest.raises(InputError, match="has no workers"):
        next(Dask(address).outcomes(sweep, sweep.tasks()))
