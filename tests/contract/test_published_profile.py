"""The shipped profile `mi300x-published` is what the committed script makes of the committed table."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from profiles import schema, store
from profiles.document import Strict

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "profiles" / "data" / "mi300x_published.csv"


@pytest.fixture(scope="module")
def profile() -> schema.Profile:
    return store.load("mi300x-published")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_script_writes_the_same_bytes_again(tmp_path: Path) -> None:
    """Whoever runs the script gets the committed profile and the committed tables, byte for byte."""
    script = ROOT / "tools" / "build_published_profile.py"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True, capture_output=True)
    for name in ("profiles/data/mi300x-published.profile.json", "docs/explanation/published-fit.md"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes(), name


def test_every_row_says_where_it_comes_from_and_what_it_is_for(rows: list[dict[str, str]]) -> None:
    """A published number without address, date, trust or use does not get into the table."""
    for row in rows:
        assert all(row[key] for key in ("source_key", "source", "url", "date", "trust", "metric", "value", "use")), row


def test_published_figures_are_carried_over_exactly(profile: schema.Profile, rows: list[dict[str, str]]) -> None:
    """A published single-session latency is the median of its cell, and a published MIGraphX p95 and p99 are kept."""
    for row in rows:
        if row["source_key"] != "vsr-paper-gpu-acceleration":
            continue
        entry = profile.entry("mmbert32k-intent", row["artifact"], "cpu" if row["artifact"] == "fp32" else "rocm")
        assert entry.surface().law(int(row["tokens"])).ppf(0.5) == pytest.approx(float(row["value"]) / 1000, rel=1e-5)
    law = profile.entry("mmbert32k-jailbreak", "sdpa_fp16", "migraphx").surface().law(512)
    assert law.ppf([0.5, 0.95, 0.99]) == pytest.approx([0.002687, 0.002712, 0.002732], rel=1e-5)


def test_concurrency_one_follows_from_service_time_occupancy_and_overhead(
    profile: schema.Profile, rows: list[dict[str, str]]
) -> None:
    """r + (g + 1) s gives back the published median of three classifiers at every length."""
    entry = profile.entry("mmbert32k-pii", "ck_fa_fp16", "rocm")
    assert profile.router is not None
    for row in rows:
        if row["source_key"] == "vsr-paper-fa-concurrency" and row["use"].startswith("fitted: service"):
            tokens = int(row["tokens"])
            g = max(1.0, 2 * float(entry.occupancy_curve().at(tokens)))
            service = float(entry.surface().law(tokens).ppf(0.5))
            assert profile.router.base_s.value + (g + 1) * service == pytest.approx(
                float(row["value"]) / 1000, rel=1e-3
            )


def test_nothing_in_it_claims_to_be_measured(profile: schema.Profile) -> None:
    """No number of a profile made from tables is `measured`, and no spread without published percentiles is published."""
    assert "measured" not in schema.origins(profile)
    for entry in profile.entries:
        for cell in entry.service.cells if entry.service else ():
            spread_published = entry.provider.name == "migraphx" and cell.tokens == 512
            assert cell.spread_origin == ("published" if spread_published else "assumed")
            assert cell.n == 0


def test_what_was_modeled_or_assumed_states_its_doubt(profile: schema.Profile) -> None:
    """A number that nobody published never stands there without a reason to doubt it."""

    def walk(model: Strict) -> None:
        if getattr(model, "origin", None) in {"modeled", "assumed"}:
            assert model.doubt, model  # type: ignore[attr-defined]
        for name in type(model).model_fields:
            value = getattr(model, name)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Strict):
                    walk(item)

    walk(profile)


def test_the_unnamed_gpu_is_told_beside_every_migraphx_number(profile: schema.Profile) -> None:
    """The source of the MIGraphX figures names no GPU model; each cell and share says so."""
    entries = [entry for entry in profile.entries if entry.provider.name == "migraphx"]
    assert len(entries) == 4
    for entry in entries:
        assert entry.service is not None
        assert entry.compile is not None
        for figure in (*entry.service.cells, *entry.compile.cells, *entry.first_run, *entry.occupancy):
            assert "GPU MODEL IS NOT STATED" in (figure.doubt or ""), entry.key


def test_longer_text_never_takes_less_time(profile: schema.Profile) -> None:
    """Every service surface grows with tokens at every quantile."""
    for entry in profile.entries:
        cells = sorted(entry.service.cells if entry.service else (), key=lambda cell: cell.tokens)
        assert np.all(np.diff([cell.seconds for cell in cells], axis=0) > 0), entry.key
