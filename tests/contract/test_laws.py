"""Quantile laws and service surfaces: exact moments, exact cells, no crossing, no extrapolation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate

from profiles.distribution import LEVELS, QuantileLaw, from_samples, lognormal_about
from profiles.errors import InputError
from profiles.surface import ServiceSurface, TokenCurve

Seconds = st.floats(min_value=1e-5, max_value=1e3, allow_nan=False)


@st.composite
def laws(draw: st.DrawFn) -> QuantileLaw:
    inner = draw(st.lists(st.integers(1, 999), min_size=0, max_size=12, unique=True))
    levels = [0.0, *(k / 1000 for k in sorted(inner)), 1.0]
    values = sorted(draw(st.lists(Seconds, min_size=len(levels), max_size=len(levels))))
    return QuantileLaw(levels, values)


@st.composite
def surfaces(draw: st.DrawFn) -> tuple[ServiceSurface, dict[int, dict[int, tuple[float, ...]]]]:
    """A surface whose quantiles grow with tokens, over one or two batch sizes."""
    tokens = sorted(draw(st.lists(st.integers(1, 40_000), min_size=1, max_size=5, unique=True)))
    steps = draw(st.lists(st.floats(1.0, 4.0), min_size=len(tokens), max_size=len(tokens)))
    shape = sorted(draw(st.lists(st.floats(1.0, 3.0), min_size=len(LEVELS), max_size=len(LEVELS))))
    scale = draw(st.floats(1e-4, 1.0)) * np.cumprod(steps)
    batches = draw(st.sampled_from([(1,), (1, 4)]))
    grid = {b: {t: tuple(float(s * b * x) for x in shape) for t, s in zip(tokens, scale, strict=True)} for b in batches}
    return ServiceSurface("a model", LEVELS, grid), grid


@settings(deadline=None)
@given(laws())
def test_mean_and_variance_are_those_of_what_is_drawn(law: QuantileLaw) -> None:
    """The exact moments equal the integrals of the quantile function and its square over 0 to 1."""

    def moment(f: object) -> float:
        pieces = zip(law.levels[:-1], law.levels[1:], strict=True)
        return float(sum(integrate.fixed_quad(f, a, b, n=3)[0] for a, b in pieces))

    mean = moment(lambda u: law.ppf(u))
    variance = moment(lambda u: (law.ppf(u) - mean) ** 2)
    assert law.mean == pytest.approx(mean, rel=1e-9)
    assert law.variance == pytest.approx(variance, rel=1e-6, abs=1e-12 * mean * mean)


@settings(deadline=None)
@given(laws(), st.lists(st.floats(0, 1), min_size=2, max_size=50))
def test_quantiles_never_fall(law: QuantileLaw, us: list[float]) -> None:
    """A higher level gives no smaller value, and no value leaves the range of the stored ones."""
    values = law.ppf(np.sort(us))
    slack = 1e-12 * law.values[-1]
    assert np.all(np.diff(values) >= -slack)
    assert law.values[0] - slack <= values.min() <= values.max() <= law.values[-1] + slack


@settings(deadline=None)
@given(laws(), st.floats(0, 1))
def test_cdf_undoes_ppf(law: QuantileLaw, u: float) -> None:
    """P(X <= quantile at u) is at least u, up to rounding."""
    x = float(np.nextafter(law.ppf(u), np.inf))  # between two neighbouring floats ppf has to round down
    assert law.cdf(x) >= u - 1e-9


def test_sampling_agrees_with_the_exact_moments() -> None:
    """The mean of a million stratified draws is the exact mean, and their variance the exact variance."""
    law = from_samples(np.random.default_rng(3).gamma(4.0, 0.01, size=5000))
    u = (np.arange(1_000_000) + 0.5) / 1_000_000
    draws = law.ppf(u)
    assert draws.mean() == pytest.approx(law.mean, rel=1e-6)
    assert draws.var() == pytest.approx(law.variance, rel=1e-4)


def test_an_assumed_spread_keeps_median_and_variation() -> None:
    """The lognormal about a median has that median, and its cut tails cost less than a fifth of the variation."""
    law = lognormal_about(0.040, 0.1)
    assert float(law.ppf(0.5)) == pytest.approx(0.040)
    assert np.sqrt(law.variance) / law.mean == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize(
    ("levels", "values"),
    [
        ([0, 1], [2.0, 1.0]),
        ([0, 0.5, 0.5, 1], [1.0, 1.0, 2.0, 3.0]),
        ([0.1, 1], [1.0, 2.0]),
        ([0, 1], [1.0, float("nan")]),
        ([0, 1], [1.0, 2.0, 3.0]),
        ([0], [1.0]),
    ],
)
def test_a_malformed_law_is_refused(levels: list[float], values: list[float]) -> None:
    """Falling values, repeated or missing levels, not-a-number and unequal lengths do not become a law."""
    with pytest.raises(InputError, match="quantiles"):
        QuantileLaw(levels, values)


@settings(deadline=None)
@given(surfaces())
def test_a_surface_gives_back_its_cells(
    given_surface: tuple[ServiceSurface, dict[int, dict[int, tuple[float, ...]]]],
) -> None:
    """At a calibrated point the law is the calibrated one."""
    surface, grid = given_surface
    for batch, column in grid.items():
        for tokens, seconds in column.items():
            assert surface.law(tokens, batch).values == pytest.approx(seconds, rel=1e-9)


@settings(deadline=None)
@given(surfaces(), st.data())
def test_between_cells_it_is_monotone_and_quantiles_do_not_cross(
    given_surface: tuple[ServiceSurface, dict[int, dict[int, tuple[float, ...]]]], data: st.DataObject
) -> None:
    """More tokens never take less time at one level, and a higher level never takes less time at one length."""
    surface, grid = given_surface
    batch = data.draw(st.integers(1, max(grid)))
    lo, hi = surface.range_of_tokens(batch)
    tokens = np.array(sorted(data.draw(st.lists(st.integers(lo, hi), min_size=2, max_size=20))))
    levels = np.array(LEVELS)
    table: NDArray[np.float64] = np.array([surface.sample(tokens, np.full(tokens.size, u), batch) for u in levels])
    assert np.all(np.diff(table, axis=1) >= -1e-9 * table.max())
    assert np.all(np.diff(table, axis=0) >= -1e-9 * table.max())


@settings(deadline=None)
@given(surfaces(), st.integers(1, 100_000))
def test_outside_the_calibrated_range_is_an_error_that_says_what_to_measure(
    given_surface: tuple[ServiceSurface, dict[int, dict[int, tuple[float, ...]]]], tokens: int
) -> None:
    """A length outside the range is refused by the check and by the draw, and the message names it."""
    surface, _ = given_surface
    lo, hi = surface.range_of_tokens()
    if lo <= tokens <= hi:
        assert surface.sample([tokens], [0.5])[0] > 0
        return
    with pytest.raises(InputError, match=f"--tokens …,{tokens}"):
        surface.check(tokens, tokens)
    with pytest.raises(InputError, match="never extrapolated"):
        surface.sample([tokens], [0.5])


def test_a_batch_outside_the_calibrated_ones_is_refused() -> None:
    """Batch sizes are not extrapolated either."""
    surface = ServiceSurface("a model", (0.0, 1.0), {1: {8: (1.0, 2.0)}, 4: {8: (3.0, 4.0)}})
    assert surface.law(8, 2).values == pytest.approx([1 + 2 / 3, 2 + 2 / 3])
    with pytest.raises(InputError, match="batch 5"):
        surface.sample([8], [0.5], batch=5)


def test_occupancy_is_linear_in_log_tokens_and_refuses_to_extrapolate() -> None:
    """Half way in log(tokens) the occupancy is half way; outside it is an error."""
    curve = TokenCurve("occupancy", {100: 0.4, 10_000: 0.8})
    assert float(curve.at(1000)) == pytest.approx(0.6)
    with pytest.raises(InputError, match="99 tokens"):
        curve.at([99, 1000])
