"""The sketch of durations: its stated error, and that merging is adding."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sim.metrics import HISTOGRAM_EDGES
from sim.sketch import DECADES, ERROR, LOWEST_S, Sketch

LEVELS = [0.0, 1.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0]
SECONDS = st.floats(LOWEST_S, LOWEST_S * 10**DECADES) | st.floats(0.0, 2 * LOWEST_S)


def sketch_of(values: np.ndarray) -> Sketch:
    sketch = Sketch()
    sketch.add(values)
    return sketch


@settings(max_examples=200)
@given(arrays.arrays(float, st.integers(1, 300), elements=SECONDS))
def test_a_percentile_is_within_the_stated_error(values: np.ndarray) -> None:
    """Any values from 0 to the largest, any level: 0.5 % of the exact percentile and a microsecond."""
    exact = np.percentile(values, LEVELS)
    assert np.all(np.abs(sketch_of(values).percentiles(LEVELS) - exact) <= ERROR * exact + LOWEST_S)


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_percentile_is_infinite_exactly_where_failures_begin(answered: int, failed: int) -> None:
    """A failed request counts as endless: a percentile that touches one is infinite, and of nothing there is none."""
    sketch = sketch_of(np.concatenate([np.ones(answered), np.full(failed, np.inf)]))
    for level, value in zip(LEVELS, sketch.percentiles(LEVELS), strict=True):
        rank = level / 100 * (answered + failed - 1)
        if answered + failed == 0:
            assert np.isnan(value)
        else:
            assert np.isinf(value) == (np.ceil(rank) >= answered)


@given(st.lists(arrays.arrays(float, st.integers(0, 40), elements=SECONDS | st.just(np.inf)), min_size=1, max_size=6))
def test_merging_gives_the_sketch_of_all_values_in_any_order_and_grouping(parts: list[np.ndarray]) -> None:
    """(a + b) + c, a + (b + c) and the sketch of everything at once have the same counts."""
    forwards, backwards = Sketch(), Sketch()
    for part in parts:
        forwards.merge(sketch_of(part))
    grouped = [sketch_of(part) for part in parts]
    while len(grouped) > 1:
        last = grouped.pop()
        grouped[-1].merge(last)
    backwards.merge(grouped[0])
    once = sketch_of(np.concatenate(parts))
    assert np.array_equal(forwards.counts, once.counts)
    assert np.array_equal(backwards.counts, once.counts)
    assert len(once) == sum(part.size for part in parts)


def test_the_histogram_of_results_is_read_off_the_buckets() -> None:
    """The counts are those of the values themselves, with what lies outside clipped into the first and the last bin."""
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(-3, 4, 100_000))
    clipped = np.clip(values, HISTOGRAM_EDGES[0], HISTOGRAM_EDGES[-1])
    exact = np.histogram(clipped, HISTOGRAM_EDGES)[0]
    assert np.array_equal(sketch_of(np.append(values, np.inf)).histogram(HISTOGRAM_EDGES), exact)
