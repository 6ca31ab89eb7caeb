"""`simcap validate metrics`: what a router's histograms allow, at which load, and every way in which dumps can be wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from profiles import store
from profiles.errors import InputError
from scenarios import loader
from sim.engine import run_once
from simcap import cli
from simcap.validate import exposition, metrics
from simcap.validate.exposition import Observed
from tests.support.router_dumps import dump

TYPES = {"intent": "domain", "jailbreak": "jailbreak", "user-feedback": "user_feedback"}
RATE, BEFORE, REQUESTS = 60.0, 2000, 8000
QUICK = ("--scenario", "highconc", "--set", "measurement.requests=4000")


@pytest.fixture(scope="module")
def latencies() -> dict[str, np.ndarray]:
    """What a router would record whose node is exactly the simulated one: another seed, its own requests."""
    scenario = loader.load("highconc", [f"load.rps=[{RATE}]", f"measurement.requests={REQUESTS}"])
    records = run_once(scenario, store.load("mi300x-published"), 99, RATE)
    columns = (records.ended - records.ready).T
    return {TYPES[name]: column for name, column in zip(scenario.signals, columns, strict=True)}


@pytest.fixture
def dumps(latencies: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two dumps; every tenth jailbreak matched a rule and was recorded twice."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name, end in (("before", BEFORE), ("after", REQUESTS)):
        once = {kind: values[:end] for kind, values in latencies.items()}
        text = dump(once, matched={"jailbreak": once["jailbreak"][::10]})
        (tmp_path / f"{name}.prom").write_text(text, encoding="utf-8")
    return tmp_path / "before.prom", tmp_path / "after.prom"


def command(dumps: tuple[Path, Path], *arguments: str, seconds: float = (REQUESTS - BEFORE) / RATE) -> int | str | None:
    flags = ["--before", str(dumps[0]), "--after", str(dumps[1]), "--seconds", str(seconds)]
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "metrics", *flags, *QUICK, *arguments])
    return ended.value.code


def test_a_router_like_the_scenario_is_inside(dumps: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The load is found from the counts, rules that matched are no requests, and every quantile lies in its range."""
    assert command(dumps, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    quantiles = [row for row in made["rows"] if row["figure"] != "mean"]
    assert [row["remark"] for row in quantiles] == ["inside"] * 9
    assert all(f"{REQUESTS - BEFORE} requests at 60 requests/s" in row["where"] for row in made["rows"])
    means = {row["where"].split()[0]: row["error"] for row in made["rows"] if row["figure"] == "mean"}
    assert all(abs(error) < 0.15 for error in means.values())


def test_a_wrong_law_is_caught_with_4(dumps: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario without the router's mutex predicts medians that the histograms do not allow, and is named."""
    free = ["--set", "signals.jailbreak.lock_domain=null", "--set", "signals.user-feedback.lock_domain=null"]
    assert command(dumps, *free) == 4
    shown = " ".join(capsys.readouterr().out.split())
    assert "predicted quantiles lie outside what the histograms allow" in shown
    assert "intent p50 is above" in shown


def test_another_load_is_caught_with_4(dumps: tuple[Path, Path]) -> None:
    """The same counts in half the time are twice the rate, at which this node would be far slower."""
    assert command(dumps, seconds=(REQUESTS - BEFORE) / RATE / 1.9) == 4


def test_ranges_hold_the_quantile() -> None:
    """Over 300 samples of a known law the ranges contain the true quantile in at least 95 of 100, whatever was recorded twice."""
    rng, edges = np.random.default_rng(5), (*np.geomspace(0.01, 10, 40).tolist(), math.inf)
    inside = 0
    for _ in range(300):
        drawn = rng.exponential(size=400)
        extra = np.sort(drawn)[: int(rng.integers(0, 60))]  # the worst case: all of the fast ones match a rule
        counts = np.histogram(np.concatenate([drawn, extra]), [0.0, *edges])[0]
        observed = Observed("domain", edges, tuple(counts.tolist()), 0.0, drawn.size, extra.size)
        for q in (0.5, 0.95, 0.99):
            low, high = metrics.quantile_range(observed, q, 0.05)
            inside += low <= -math.log(1 - q) <= high
    assert inside >= 0.95 * 900


def test_few_requests_bound_no_high_quantile() -> None:
    """Of 20 requests none need lie above the 99 % quantile, so it has no upper bound."""
    few = Observed("domain", (0.01, 0.1, math.inf), (10, 10, 0), 1.0, 20, 0)
    assert metrics.quantile_range(few, 0.99, 0.05) == (0.01, math.inf)
    assert metrics.quantile_range(few, 0.5, 0.05) == (0.0, 0.1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"after": ("process_start_time_seconds 1.7e+09", "process_start_time_seconds 5")}, "was started anew between"),
        ({"after": ('le="0.005"', 'le="0.004"')}, "the buckets of 'domain' are not those of"),
        ({"after": ('signal_type="domain"', 'signal_type="modality"')}, "signal type 'domain' of .* is missing"),
        (
            {"before": ("llm_signal", "llm_other"), "after": ("llm_signal", "llm_other")},
            "holds no llm_signal_extraction",
        ),
        ({"after": ('le="+Inf"', 'le="99"')}, "lacks its .Inf bucket"),
        ({"after": ('le="0.01"} ', 'le="0.01"} 9')}, "do not add up to its count; the dump is damaged"),
        ({"after": ('le="0.01"} ', 'le="0.01"} x')}, "is not a Prometheus text dump"),
        ({"after": ('le="0.01"', 'le="soon"')}, "has le='soon', expected a number"),
        ({"after": ("signal_type=", "other=")}, "has no label signal_type"),
    ],
)
def test_damaged_dumps_are_refused_by_name(
    change: dict[str, tuple[str, str]], says: str, dumps: tuple[Path, Path]
) -> None:
    """Restarts, other buckets, missing signals, cut and damaged files: one error each, which names the file."""
    for path in dumps:
        if path.stem in change:
            text = path.read_text(encoding="utf-8").replace(
                "process_start_time_seconds 1700000000", "process_start_time_seconds 1.7e+09"
            )
            path.write_text(text.replace(*change[path.stem]), encoding="utf-8")
    with pytest.raises(InputError, match=says) as raised:
        exposition.between(exposition.read(dumps[0]), exposition.read(dumps[1]))
    assert ".prom" in str(raised.value)


def test_swapped_or_equal_dumps_are_refused(dumps: tuple[Path, Path]) -> None:
    """Counts that fall, and counts that do not grow, are no measurement."""
    first, second = (exposition.read(path) for path in dumps)
    with pytest.raises(InputError, match=r"lower than in .*swapped, or the router was started anew"):
        exposition.between(second, first)
    with pytest.raises(InputError, match="no signal was extracted between"):
        exposition.between(first, first)


def test_time_comes_from_a_flag_or_from_the_samples(dumps: tuple[Path, Path]) -> None:
    """Without --seconds the time stamps of the samples say how far apart the dumps are; without both it is asked for."""
    first, second = (exposition.read(path) for path in dumps)
    with pytest.raises(InputError, match="say how far apart they were taken with --seconds"):
        exposition.seconds_between(first, second, None)
    for path, at in zip(dumps, (1_000_000, 1_100_000), strict=True):
        lines = path.read_text(encoding="utf-8").splitlines()
        stamped = [line if line.startswith("#") else f"{line} {at}" for line in lines]
        path.write_text("\n".join(stamped) + "\n", encoding="utf-8")
    first, second = (exposition.read(path) for path in dumps)
    assert exposition.seconds_between(first, second, None) == 100
    with pytest.raises(InputError, match="swap --before and --after"):
        exposition.seconds_between(second, first, None)


def test_a_missing_signal_names_the_nearest_type(dumps: tuple[Path, Path]) -> None:
    """A scenario signal that the dumps do not know is named with what they hold; --signal says which one it is."""
    found = exposition.between(*(exposition.read(path) for path in dumps))
    scenario = loader.load("highconc")
    with pytest.raises(InputError, match=r"signal user-feedback: .*'feedback'; did you mean 'user_feedback'"):
        metrics.match(scenario, found, {"user-feedback": "feedback"})
    with pytest.raises(InputError, match="no such signal"):
        metrics.match(scenario, found, {"intend": "domain"})
    assert metrics.match(scenario, found, {"jailbreak": "domain"})["jailbreak"].signal_type == "domain"


def test_a_load_that_is_no_rate_is_refused(dumps: tuple[Path, Path]) -> None:
    """A scenario of bursts has no rate to set."""
    found = exposition.between(*(exposition.read(path) for path in dumps))
    with pytest.raises(InputError, match="its load is burst_size; a router's rate is requests a second"):
        metrics.compare("published_fa_concurrency", (), store.load("mi300x-published"), found, 10.0, seed=1)
