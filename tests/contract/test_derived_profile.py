"""Profiles for GPUs that nobody measured: what is scaled, how wide the bounds are, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from profiles import store
from profiles.derive import LAUNCH, derive, error_between, largest, split_of
from profiles.errors import InputError
from profiles.schema import Profile
from sim.calibration import Calibration

SDPA = {512: 6.0, 1024: 7.7, 2048: 14.1, 4096: 57.6, 8192: 237.0}  # ms, published for one session (white paper)
CK = {512: 19.0, 1024: 23.0, 2048: 32.0, 4096: 51.0, 8192: 105.0}  # ms, published for three classifiers at once
RATIO = 8.0 / 5.3  # TB/s, MI355X over MI300X


@pytest.fixture(scope="module")
def published() -> Profile:
    return store.load("mi300x-published")


def test_a_known_split_is_found_again():
    """Times made of launching, a linear and a square part give these parts back."""
    split = split_of({t: 2.0 + 0.003 * t + 1e-6 * t * t for t in (128, 512, 2048, 8192)})
    assert (split.launch, split.linear, split.square) == pytest.approx((2.0, 0.003, 1e-6))


@pytest.mark.parametrize("medians", [SDPA, CK])
def test_two_lengths_predict_the_published_ones_between_within_the_factor_that_bounds_have(medians: dict[int, float]):
    """The law of length is off by no more than launching may be off: bounds of a derived time are no narrower than it is."""
    assert 1.05 < largest(error_between(medians)) < LAUNCH


def test_launching_stays_and_work_goes_with_bandwidth(published: Profile):
    """Between no change and the ratio of bandwidths, nearer to the latter the longer the text."""
    entry = derive(published, "mi355x", "x").profile.entry("mmbert32k-intent", "sdpa_fp16", "rocm")
    before = published.entry("mmbert32k-intent", "sdpa_fp16", "rocm")
    assert entry.service is not None
    assert before.service is not None
    gains = [
        float(old.law().ppf(0.5) / new.law().ppf(0.5))
        for old, new in zip(before.service.cells, entry.service.cells, strict=True)
    ]
    assert gains == sorted(gains)
    assert 1.0 < gains[0] < 1.15
    assert RATIO * 0.95 < gains[-1] < RATIO


def test_bounds_hold_no_gain_and_twice_the_gain(published: Profile):
    """The bounds of each cell contain the source's own time for its work, and the work at the ratio squared."""
    for entry in derive(published, "mi355x", "x").profile.entries:
        for cell in entry.service.cells if entry.service else ():
            median = float(cell.law().ppf(0.5))
            assert cell.median_lo is not None
            assert cell.median_hi is not None
            assert 1.4 < cell.median_hi / median < 1.6
            assert 1.4 < median / cell.median_lo < 1.6
            assert (cell.n, cell.run_medians) == (0, None)
            assert cell.origin in {"modeled", "assumed"}


def test_the_bounds_reach_the_result(published: Profile):
    """A derived profile states its uncertainty, common to all cells, so that intervals of a run on it are wide."""
    made = derive(published, "mi355x", "x").profile
    known = Calibration.of(made, made.entries)
    assert (known.moves, known.common, known.freedom) == (True, True, math.inf)


def test_it_is_a_profile_that_loads_again(published: Profile, tmp_path: Path):
    """Written and read, with the device of the catalog, no run and no first-hand claim."""
    made = derive(published, "mi355x", "x").profile
    store.save(made, tmp_path / "x.json")
    again = store.load(str(tmp_path / "x.json"))
    assert again == made
    assert again.device.catalog == "mi355x"
    assert all(e.load is None and e.compile is None and e.ownership is None for e in again.entries)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("mi355", "did you mean 'mi355x'"),
        ("mi300x", "of this device already"),
        ("mi210", "no memory bandwidth of mi210 with a source"),
        ("cpu", "cpu is not a GPU"),
    ],
)
def test_targets_without_figures_to_trust_are_refused(published: Profile, target: str, says: str):
    """One error that says what is missing."""
    with pytest.raises(InputError, match=says):
        derive(published, target, "x")


def test_what_cannot_be_derived_is_left_out_by_name(published: Profile):
    """Processor entries and entries with one length; a profile of such only is refused."""
    derived = derive(published, "mi355x", "x")
    assert any("mmbert32k-pii fp32 on migraphx" in line and "two lengths" in line for line in derived.left_out)
    assert any("runs on the processor" in line for line in derived.left_out)
    only = [e for e in published.entries if e.provider.name == "cpu"]
    with pytest.raises(InputError, match="nothing in profile"):
        derive(published.model_copy(update={"entries": tuple(only)}), "mi355x", "x")
