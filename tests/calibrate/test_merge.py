"""Repeated runs become one profile, and what does not belong together is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.fit import figure, law
from calibrate.merge import merge
from calibrate.pooling import between_runs, pool_figures, pool_laws
from profiles import store
from profiles.entry import (
    Accuracy,
    Cell,
    Entry,
    FellBackCell,
    Memory,
    MemoryCell,
    OptionEffect,
    Ownership,
    Provider,
    Surface,
)
from profiles.errors import InputError
from profiles.interference import Interference, Member
from profiles.quantity import Figure, Law
from profiles.schema import Device, Host, Profile
from simcap.cli import main


def run(start: int, *, scale: float = 1.0, n: int = 20, tokens: tuple[int, ...] = (16, 64), **changes: Any) -> Profile:
    """A profile of one run: lognormal service times about `scale` milliseconds times tokens / 16."""
    noise = np.random.default_rng(start).lognormal(0, 0.1, n)
    cells = tuple(Cell(tokens=t, **law(list(scale * t / 16 / 1000 * noise))) for t in tokens)
    peaks = tuple(MemoryCell(tokens=t, peak_bytes=figure([1e6 * scale + t])) for t in tokens)
    entry: dict[str, Any] = {
        "model": "intent",
        "artifact": "fp32",
        "provider": Provider(name="cpu", threads=1),
        "task": "sequence_classification",
        "digest": "sha256:1",
        "service": Surface(cadence="tight", cells=cells),
        "memory": Memory(weights_bytes=figure([5e5]), cells=peaks),
    }
    whole: dict[str, Any] = {
        "name": f"run-{start}",
        "description": "one run",
        "created": f"2026-12-01T00:00:{start:02d}+00:00",
        "device": Device(catalog="cpu", kind="cpu", name="a processor", cores=2),
        "host": Host(cpu="a processor", cores=2, memory_bytes=8 << 30),
        "software": {"onnxruntime": "1.24"},
        "interference": None,
    }
    whole |= {key: value for key, value in changes.items() if key in whole}
    entry |= {key: value for key, value in changes.items() if key not in whole}
    return Profile(schema="simcap.profile/1", entries=(Entry(**entry),), **whole)


def cells_of(profile: Profile) -> tuple[Cell, ...]:
    service = profile.entries[0].service
    return service.cells if service else ()


LEVELS = (0.0, 0.5, 1.0)


def three(low: float, median: float, high: float, n: int, **more: Any) -> Law:
    fields = {"n": n, "origin": "measured", "spread_origin": "measured", **more}
    return Law(levels=LEVELS, seconds=(low, median, high), **fields)


def test_quantiles_are_averaged_by_counts() -> None:
    """One run of 10 and one of 30 samples: each quantile is a quarter of the first and three quarters of the second."""
    pooled = pool_laws([three(1, 2, 3, 10), three(5, 6, 7, 30)], "x")
    assert pooled.seconds == (4, 5, 6)
    assert pooled.n == 40
    assert pooled.run_medians == (2, 6)


def test_spread_between_runs_does_not_widen_the_law() -> None:
    """Two runs equally wide and far apart pool to a law as wide as each; how far apart they were is in their medians."""
    pooled = pool_laws([three(1, 2, 3, 10), three(101, 102, 103, 10)], "x")
    assert pooled.seconds[-1] - pooled.seconds[0] == 2
    assert pooled.run_medians == (2, 102)


def test_interval_of_the_median_is_that_over_runs() -> None:
    """For two runs t is 12.706, so medians of 1 and e give exp(1/2 ± 12.706 / 2); equal medians give no width."""
    lo, hi = between_runs((1.0, math.e))
    assert math.log(lo) == pytest.approx(0.5 - 12.7062 / 2, rel=1e-5)
    assert math.log(hi) == pytest.approx(0.5 + 12.7062 / 2, rel=1e-5)
    assert between_runs((0.2, 0.2, 0.2)) == pytest.approx((0.2, 0.2))


def test_interval_over_runs_covers_the_true_median() -> None:
    """Over 2,000 sets of four runs whose medians scatter lognormally, the interval holds the true one 95 % of the time."""
    medians = np.random.default_rng(1).lognormal(math.log(0.01), 0.1, (2000, 4))
    held = sum(lo <= 0.01 <= hi for lo, hi in (between_runs(tuple(row)) for row in medians))
    assert abs(held / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


runs = st.lists(
    st.tuples(st.floats(0.1, 10), st.integers(6, 50), st.sampled_from([(16,), (16, 64), (64, 128), (16, 32, 64, 128)])),
    min_size=3,
    max_size=5,
)


@given(runs)
def test_merging_in_steps_is_merging_at_once(parts: list[tuple[float, int, tuple[int, ...]]]) -> None:
    """((A, B), C) gives the same profile as (A, B, C), whatever counts, speeds and cells, up to rounding."""
    profiles = [run(i, scale=s, n=n, tokens=t) for i, (s, n, t) in enumerate(parts)]
    at_once = merge(profiles, "m")
    steps = profiles[0]
    for profile in profiles[1:]:
        steps = merge([steps, profile], "m")
    one, other = ({c.tokens: c for c in cells_of(p)} for p in (at_once, steps))
    assert one.keys() == other.keys()
    for tokens, cell in one.items():
        again = other[tokens]
        np.testing.assert_allclose(cell.seconds, again.seconds, rtol=1e-12)
        assert (cell.n, cell.run_medians) == (again.n, again.run_medians)
        assert (cell.median_lo, cell.median_hi) == pytest.approx((again.median_lo, again.median_hi))
    assert at_once.runs == steps.runs
    assert len(at_once.runs or ()) == len(parts)
    first, second = (p.entries[0].memory for p in (at_once, steps))
    assert [c.peak_bytes.value for c in first.cells] == pytest.approx([c.peak_bytes.value for c in second.cells])  # type: ignore[union-attr]


@given(st.permutations([0, 1, 2]))
def test_order_of_runs_changes_no_figure(order: list[int]) -> None:
    """The order in which files are named changes the order of the medians and nothing else."""
    profiles = [run(i, scale=1 + i / 10, n=10 + i) for i in range(3)]
    for cell, other in zip(
        cells_of(merge(profiles, "m")), cells_of(merge([profiles[i] for i in order], "m")), strict=True
    ):
        np.testing.assert_allclose(cell.seconds, other.seconds, rtol=1e-12)
        assert sorted(cell.run_medians or ()) == sorted(other.run_medians or ())


def test_a_cell_of_one_run_stays_as_it_was() -> None:
    """What only one run measured keeps its law and its own interval, with one median behind it."""
    alone = run(1, tokens=(16, 64))
    merged = merge([alone, run(2, tokens=(16,))], "m")
    kept, before = cells_of(merged)[1], cells_of(alone)[1]
    np.testing.assert_allclose(kept.seconds, before.seconds, rtol=1e-14)
    assert (kept.n, kept.median_lo) == (before.n, before.median_lo)
    assert len(kept.run_medians or ()) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": Device(catalog="cpu", kind="cpu", name="another", cores=2)}, "device.name differs"),
        ({"host": Host(cpu="a processor", cores=4, memory_bytes=8 << 30)}, "host.cores differs: 2 and 4"),
        ({"host": Host(cpu="a processor", cores=2, memory_bytes=16 << 30)}, "host.memory_bytes differs"),
        ({"host": None}, "host differs"),
        ({"software": {"onnxruntime": "1.25"}}, "software.onnxruntime differs: '1.24' and '1.25'"),
        ({"software": {"onnxruntime": "1.24", "kernel": "6"}}, "software.kernel differs: None and '6'"),
        ({"digest": "sha256:2"}, "intent fp32 on cpu: digest differs: 'sha256:1' and 'sha256:2'"),
        ({"provider": Provider(name="cpu", threads=2)}, "intent fp32 on cpu: provider differs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_differs_is_named(changes: dict[str, Any], words: str) -> None:
    """Runs of another machine, software or file do not merge, and the first key that differs is named."""
    with pytest.raises(InputError) as error:
        merge([run(1), run(2, **changes)], "m")
    assert words in str(error.value)


def test_two_runs_may_start_in_the_same_second() -> None:
    """What tells runs apart is their digest, too."""
    assert len(merge([run(1), run(2, created=run(1).created)], "m").runs or ()) == 2


def test_memory_of_a_host_may_move_a_little() -> None:
    """The kernel counts a few pages more or fewer after a boot; that is the same machine."""
    moved = Host(cpu="a processor", cores=2, memory_bytes=(8 << 30) - 4096)
    assert merge([run(1), run(2, host=moved)], "m").host == run(1).host


def test_a_run_counts_once() -> None:
    """The same file twice is refused, and so is one that the other was merged from."""
    a, b = run(1), run(2)
    with pytest.raises(InputError, match="stands in the list twice"):
        merge([a, b, a], "m")
    with pytest.raises(InputError, match="stands in the list twice"):
        merge([merge([a, b], "m"), b], "m")
    with pytest.raises(InputError, match="at least two"):
        merge([a], "m")


def test_only_measured_runs_merge() -> None:
    """Published profiles, and laws without samples, are refused."""
    published = store.load(next(name for name in store.shipped_names() if "published" in name))
    with pytest.raises(InputError, match="only measured runs merge"):
        merge([published, published.model_copy(update={"created": "later"})], "m")
    with pytest.raises(InputError, match="no sample"):
        pool_laws([three(1, 2, 3, 0, origin="modeled"), three(1, 2, 3, 5)], "x")


def test_worst_of_drift_and_ownership_is_kept() -> None:
    """A cell that fell back in one run is in no surface, and a rejection in one run takes the service times away."""
    fell = Ownership(
        asked="cpu",
        session_providers=(),
        nodes={},
        verdict="fell_back",
        reason="no library",
        fell_back=(FellBackCell(tokens=64, reason="no library"),),
    )
    owned = Ownership(asked="cpu", session_providers=("cpu",), nodes={"cpu": 3}, verdict="owned")
    merged = merge([run(1, ownership=owned), run(2, ownership=fell, tokens=(16,))], "m")
    assert merged.entries[0].ownership == fell
    assert [c.tokens for c in cells_of(merged)] == [16]
    bad = Accuracy(reference="r", inputs=16, rejected="cosine 0.1")
    merged = merge([run(1, accuracy=Accuracy(reference="r", inputs=16)), run(2, accuracy=bad)], "m")
    assert merged.entries[0].accuracy == bad
    assert merged.entries[0].service is None


def test_figures_without_a_count_must_agree() -> None:
    """A modeled figure is kept when all runs have it and refused when they differ."""
    half, whole = Figure(value=0.5, origin="modeled"), Figure(value=1, origin="modeled")
    assert pool_figures([half, half], "occupancy") == half
    with pytest.raises(InputError, match="occupancy differs"):
        pool_figures([half, whole], "occupancy")


def test_command_writes_a_profile_that_simcap_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`simcap profiles merge` writes the file, and its table says how far runs lie apart; a wrong pair exits with 2."""
    for i, scale in ((1, 1.0), (2, 1.5)):
        store.save(run(i, scale=scale, tokens=(16,)), tmp_path / f"{i}.json")
    store.save(run(3, digest="sha256:2"), tmp_path / "3.json")
    files = [str(tmp_path / f"{i}.json") for i in (1, 2, 3)]
    out = tmp_path / "node.profile.json"
    with pytest.raises(SystemExit) as stop:
        main(["profiles", "merge", *files[:2], "--out", str(out)])
    assert stop.value.code == 0
    read = store.load(str(out))
    assert read.name == "node"
    assert read == merge([store.load(f) for f in files[:2]], "node")
    medians = cells_of(read)[0].run_medians or ()
    assert f"{abs(medians[1] - medians[0]) / cells_of(read)[0].seconds[7]:.1%}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["profiles", "merge", *files, "--out", str(tmp_path / "no.json")])
    assert stop.value.code == 2
    assert "digest differs" in capsys.readouterr().err
    assert not (tmp_path / "no.json").exists()


def _together(residual: float) -> Interference:
    members = tuple(
        Member(model=m, artifact="fp32", tokens=64, slowdown=1 + residual, median_s=0.01, n=9) for m in "ab"
    )
    return Interference(provider="cpu", members=members, expected=1.0, residual=residual)


def test_of_models_together_the_worst_run_is_kept() -> None:
    """Where runs saw the sharing law err by different amounts, the merged profile states the larger one, once."""
    merged = merge([run(1, interference=(_together(0.1),)), run(2, interference=(_together(0.3),)), run(3)], "m")
    assert merged.interference == (_together(0.3),)


def test_an_option_that_one_run_saw_at_work_is_not_called_ignored() -> None:
    """An effect seen in one run stands; an option of which no run saw anything stays a finding."""

    def effect(name: str, seen: Any) -> OptionEffect:
        return OptionEffect(name=name, value="1", seen=seen, told=seen)

    merged = merge(
        [
            run(1, effects=(effect("tune", "none"), effect("streams", "none"))),
            run(2, effects=(effect("tune", "latency"), effect("streams", "none"))),
        ],
        "m",
    )
    assert [(e.name, e.seen) for e in merged.entries[0].effects or ()] == [("tune", "latency"), ("streams", "none")]
