"""Token lengths of a scenario as fleet-sim's workload: points of [tokens, cumulative fraction] ending at 1.

Enters: request classes with their weights (or the rows of a trace). Leaves: points over fleet-sim's lengths, which are
prompt and answer together: its generator and its optimizer take 80 % of each as the prompt, and the router reads the
prompt, so a length here is tokens / 0.8. Between points fleet-sim draws whole lengths uniformly; a point with fraction
0 bounds the shortest, and lengths that carry mass of their own (fixed ones) stand between two points one token apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from scenarios.workload import Cdf, CdfFile, Choice, Fixed, FromTrace, LogNormal, LogUniform, TokenLaw, Uniform

PROMPT_SHARE = 0.8
GRID = 96  # points of a smooth law
MOST_ATOMS = 400  # different lengths of a trace that are kept one by one
Law = Fixed | Uniform | LogUniform | LogNormal | Choice | Cdf

Floats = NDArray[np.float64]


def fraction_up_to(law: Law, tokens: Floats) -> Floats:
    """P(length <= tokens) of the whole lengths that the law draws, for whole `tokens`."""
    t = np.asarray(tokens, dtype=float)
    lo, hi = law.support
    if isinstance(law, Fixed):
        return np.asarray(t >= law.tokens, dtype=float)
    if isinstance(law, Choice):
        weights = law.weights or [1 / len(law.tokens)] * len(law.tokens)
        parts = [w * (t >= length) for length, w in zip(law.tokens, weights, strict=True)]
        return np.asarray(np.sum(parts, axis=0), dtype=float)
    if isinstance(law, Uniform):
        inside = (t - lo + 1) / (hi - lo + 1)
    elif isinstance(law, LogUniform):
        inside = (np.log(t + 0.5) - np.log(lo)) / max(np.log(hi) - np.log(lo), 1e-300)
    elif isinstance(law, LogNormal):
        inside = stats.norm.cdf(np.log((t + 0.5) / law.median) / law.sigma)
    else:
        inside = _of_points(law, t + 0.5)
    return np.where(t >= hi, 1.0, np.where(t < lo, 0.0, np.clip(inside, 0.0, 1.0)))


def _of_points(law: Cdf, t: Floats) -> Floats:
    """The piecewise linear law at `t`; where several points share a length the last fraction counts."""
    lengths = np.array([law.min, *(length for length, _ in law.points)], dtype=float)
    fractions = np.array([0.0, *(f for _, f in law.points)])
    right = np.clip(np.searchsorted(lengths, t, side="right"), 1, lengths.size - 1)
    a, b = lengths[right - 1], lengths[right]
    share = np.clip((t - a) / np.maximum(b - a, 1e-9), 0.0, 1.0)
    return np.asarray(fractions[right - 1] + share * (fractions[right] - fractions[right - 1]))


def workload_points(scenario: Scenario, trace: TraceRows | None) -> list[tuple[int, float]]:
    """fleet-sim's points for all classes together. `trace`: rows of `loader.read_trace` where the scenario has one."""
    if trace is not None and trace.tokens is not None:
        return _fleet_sim_points(*_of_sample(trace.tokens))
    classes = [(kind.weight or 0.0, kind.tokens) for kind in scenario.classes.values()]
    if len(classes) == 1 and isinstance(only := classes[0][1], Cdf):
        return _fleet_sim_points([only.min, *(t for t, _ in only.points)], [0.0, *(f for _, f in only.points)])
    laws = [(weight, _settled(law)) for weight, law in classes]
    knots = sorted({int(t) for _, law in laws for t in _knots(law)})
    at = np.array(knots, dtype=float)
    total = np.sum([weight * fraction_up_to(law, at) for weight, law in laws], axis=0)
    return _fleet_sim_points(knots, [float(f) for f in total])


def mean_over(scenario: Scenario, trace: TraceRows | None, tokens: Floats, values: Floats) -> float:
    """The mean of a figure over the scenario's lengths; `values` at `tokens`, log-log in between."""
    points = workload_points(scenario, trace)
    lengths = np.array([t for t, _ in points], dtype=float) * PROMPT_SHARE
    fractions = np.array([f for _, f in points])
    u = (np.arange(4000) + 0.5) / 4000
    drawn = np.clip(np.interp(u, fractions, lengths), tokens[0], tokens[-1])
    return float(np.exp(np.interp(np.log(drawn), np.log(tokens), np.log(values))).mean())


def _settled(law: TokenLaw) -> Law:
    if isinstance(law, CdfFile):
        return law.read()
    if isinstance(law, FromTrace):
        raise ValueError("law trace without the trace's rows")
    return law


def _knots(law: Law) -> list[int]:
    """Where the law's distribution function is to be stated: everywhere it bends, and one token before each atom."""
    lo, hi = law.support
    if isinstance(law, Fixed | Choice):
        atoms = [law.tokens] if isinstance(law, Fixed) else list(law.tokens)
        return [t for atom in atoms for t in (atom - 1, atom) if t >= 1]
    if isinstance(law, Cdf):
        return [max(lo - 1, 1), lo, *(t for t, _ in law.points)]
    grid = np.rint(np.geomspace(lo, hi, GRID)).astype(int).tolist()
    return [max(lo - 1, 1), *grid, max(hi - 1, 1)]


def _of_sample(tokens: NDArray[np.int32]) -> tuple[list[int], list[float]]:
    lengths, counts = np.unique(tokens, return_counts=True)
    below = np.cumsum(counts) / tokens.size
    if lengths.size > MOST_ATOMS:
        kept = np.unique(np.linspace(0, lengths.size - 1, MOST_ATOMS).astype(int))
        lengths, below = lengths[kept], below[kept]
        return [int(lengths[0]), *lengths.tolist()], [0.0, *below.tolist()]
    knots, fractions, before = [], [], 0.0
    for length, fraction in zip(lengths.tolist(), below.tolist(), strict=True):
        knots += [max(length - 1, 1), length]
        fractions += [before, fraction]
        before = fraction
    return knots, fractions


def _fleet_sim_points(tokens: Sequence[int], fractions: Sequence[float]) -> list[tuple[int, float]]:
    """Prompt tokens as fleet-sim's lengths, increasing, the last fraction 1."""
    points: dict[int, float] = {}
    for t, f in zip(tokens, fractions, strict=True):
        length = max(round(t / PROMPT_SHARE), 1)
        if length in points and length > 1:
            points.setdefault(length - 1, points[length])  # mass on one length: a step of one token
        points[length] = max(points.get(length, 0.0), f)
    ordered = sorted(points.items())
    while len(ordered) > 1 and ordered[1][1] == 0.0:
        ordered.pop(0)
    return [*ordered[:-1], (ordered[-1][0], 1.0)]
