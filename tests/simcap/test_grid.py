"""Grids of variants: which there are, the same answer wherever they run and after any stop, one row each, one page."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import test_compare as mm1
from test_compare_command import here, simcap

from profiles import store
from profiles.errors import InputError
from scenarios import loader
from sim import executor, journal
from simcap import compare, comparing, replications
from simcap.comparison import Comparison
from simcap.report import compare_figures
from simcap.report import comparison as said
from simcap.variants import paths_of, variants

__all__ = ["here"]

ROOT = Path(__file__).parents[2]


def test_a_grid_is_the_product_of_all_values_the_first_of_each_first() -> None:
    """Two keys of two values and two scenarios: eight variants, named by what tells them apart."""
    found = variants(["longctx", "highconc"], ["sessions=1,2", "node.cpu_workers=4,8"], ["measurement.requests=500"])
    assert [variant.name for variant in found[:5]] == [
        "longctx sessions=1 node.cpu_workers=4",
        "longctx sessions=1 node.cpu_workers=8",
        "longctx sessions=2 node.cpu_workers=4",
        "longctx sessions=2 node.cpu_workers=8",
        "highconc sessions=1 node.cpu_workers=4",
    ]
    assert {signal.sessions for signal in found[3].scenario.signals.values()} == {2}
    assert (found[3].scenario.node.cpu_workers, found[3].scenario.measurement.requests) == (8, 500)
    assert [variant.name for variant in variants(["longctx"], ["sessions=1,2"], [])] == ["sessions=1", "sessions=2"]


@pytest.mark.parametrize(
    ("key", "paths"),
    [
        ("sessions", ["signals.intent.sessions", "signals.jailbreak.sessions", "signals.pii.sessions"]),
        ("providers", ["signals.intent.provider", "signals.jailbreak.provider", "signals.pii.provider"]),
        ("cpu_workers", ["node.cpu_workers"]),
        ("latency_ms", ["slo.latency_ms"]),
        ("signals.pii.sessions", ["signals.pii.sessions"]),
        ("replicas", ["replicas"]),
    ],
)
def test_a_short_key_stands_for_its_path_or_for_that_of_all_signals(key: str, paths: list[str]) -> None:
    """The last part is enough where one path ends so; what every signal has is one path."""
    assert paths_of(key, loader.load("longctx")) == paths


def test_a_key_that_could_be_several_is_refused_with_all_of_them() -> None:
    """`max` of a token law and of nothing else is a path; two laws' keys of one name in different places are not."""
    wanted = loader.load(
        "longctx", ("classes.document.tokens.law=fixed", "classes.document.tokens={law: fixed, tokens: 2048}")
    )
    with pytest.raises(InputError, match=r"several such keys.*classes\.\*\.tokens, classes\.\*\.tokens\.tokens"):
        paths_of("tokens", wanted)
    with pytest.raises(InputError, match="at most 1000"):
        variants(["longctx"], ["sessions=1..40", "cpu_workers=1..40"], [])
    with pytest.raises(InputError, match="given twice"):
        variants(["longctx"], ["sessions=1", "sessions=2"], [])


def asked(tmp_path: Path) -> list[replications.Variant]:
    paths = [mm1.write(tmp_path, name, factor, requests=300) for name, factor in [("a", 1.0), ("b", 0.8), ("c", 0.9)]]
    return [
        replications.Variant(p.stem, wanted := loader.load(str(p)), store.load(wanted.profile or "")) for p in paths
    ]


def test_answers_are_the_same_whatever_the_workers_and_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process or three, or stopped among the variants and gone on: the same samples and results."""
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    three = asked(tmp_path)
    reference = replications.answers(three, 1)
    kept = tmp_path / "j"

    def stop(done: int, _: int) -> None:
        if done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replications.answers(three, 1, replications.How(workers=2, journal=kept, progress=stop))
    assert 30 <= journal.kept(kept) < 60
    for how in (replications.How(workers=3), replications.How(journal=kept)):
        found = replications.answers(three, 1, how)
        assert [answer.result for answer in found] == [answer.result for answer in reference]
        for one, other in zip(found, reference, strict=True):
            np.testing.assert_array_equal(one.sample.capacity, other.sample.capacity)


def test_variants_whose_capacity_lies_beyond_their_loads_get_more_loads(tmp_path: Path) -> None:
    """A server four times as fast keeps its promise at every load given: loads are added until it breaks, for it alone."""
    paths = [mm1.write(tmp_path, "slow", 1.0), mm1.write(tmp_path, "fast", 0.25)]
    two = [replications.Variant(p.stem, wanted := loader.load(str(p)), store.load(wanted.profile or "")) for p in paths]
    slow, fast = replications.answers(two, 1)
    assert max(point.load for point in slow.result.points) == 85
    assert max(point.load for point in fast.result.points) > 200
    ratio = float(np.mean(fast.sample.capacity) / np.mean(slow.sample.capacity))
    assert 3.7 < ratio < 4.3
    assert list(fast.sample.values) == list(slow.sample.values)


def test_intervals_of_several_variants_hold_together(tmp_path: Path) -> None:
    """Bonferroni: against three others each interval of capacity is at 98.33 %, wider by the ratio of the t quantiles."""
    values = [mm1.made("a", [1.0] * 5, [5, 5.1, 5.2, 5.1, 5.0]), mm1.made("b", [1.0] * 5, [5.2, 5.4, 5.3, 5.5, 5.2])]
    alone = compare.of_samples(values).others[0].capacity
    among = compare.of_samples([*values, values[0], values[0]])
    assert among.capacity_level == pytest.approx(1 - 0.05 / 3)
    wide = among.others[0].capacity
    assert alone.lo is not None
    assert alone.hi is not None
    assert wide.lo is not None
    assert wide.hi is not None
    ratio = np.log((1 + wide.hi) / (1 + wide.lo)) / np.log((1 + alone.hi) / (1 + alone.lo))
    assert ratio == pytest.approx(3.961 / 2.776, rel=1e-3)  # t of 4 degrees of freedom at 1 - 0.05 / 6 and at 0.975


def test_a_grid_writes_its_answer_a_page_and_plots_and_prints_a_row_a_variant(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`simcap run --vary`: rows in 80 columns, comparison.json after its schema, one page, the figures as files."""
    code, out, _ = simcap(capsys, "run", "one.yaml", "--vary", "cpu_workers=1,2,3", "--out", "grid")
    assert code == 0
    assert max(len(line) for line in out.splitlines()) <= 80
    assert [line.split()[0] for line in out.splitlines()[2:5]] == [f"cpu_workers={k}" for k in (1, 2, 3)]
    text = (here / "grid" / "comparison.json").read_text()
    schema = json.loads((ROOT / "docs" / "reference" / "schema" / "comparison.schema.json").read_text())
    jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator)
    found = Comparison.model_validate_json(text)
    assert [variant.settings for variant in found.variants] == [{"cpu_workers": str(k)} for k in (1, 2, 3)]
    page = (here / "grid" / "compare.html").read_text()
    assert len(page.encode()) < 3_000_000
    assert all(f">{said.capacity_of(variant)}</data>" in page for variant in found.variants)
    drawn = compare_figures.figures(found)
    assert {f"{figure.key}.svg" for figure in drawn} < {path.name for path in (here / "grid" / "plots").iterdir()}
    assert not comparing.journal_of(here / "grid").exists()
    before = text
    assert simcap(capsys, "run", "one.yaml", "--vary", "cpu_workers=1,2,3", "--out", "grid")[0] == 0
    assert (here / "grid" / "comparison.json").read_text() == before


def test_a_full_disk_at_the_end_says_what_is_safe(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page does not fit: one sentence with the directory, the reason and the parts kept; then the same command ends."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(comparing, "_draw", full)
        code, _, err = simcap(capsys, "compare", "one.yaml", "two.yaml", "--out", "both")
    assert code == 1
    assert "both: cannot be written (No space left on device)" in err
    assert "finished parts are safe in .both.finished, and the same command goes on from them" in err
    assert not (here / "both").exists()
    assert simcap(capsys, "compare", "one.yaml", "two.yaml", "--out", "both", "--no-report")[0] == 0
    assert not (here / ".both.finished").exists()


def test_flags_of_a_single_run_do_not_go_with_vary(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that would have no effect is refused by name."""
    code, _, err = simcap(capsys, "run", "one.yaml", "--vary", "cpu_workers=1,2", "--requests-parquet")
    assert (code, "--requests-parquet does not go with --vary" in err) == (2, True)
