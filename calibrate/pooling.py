"""Pool the same figure or law of several runs.

Enters: laws (seconds) or figures, one a run or of runs pooled before. Leaves: one law. Its quantile function is the
average of the runs' weighted by sample counts (Vincent averaging),
    Q(p) = sum n_i Q_i(p) / sum n_i
so its spread is that within a run, and pooling in steps gives what pooling at once gives; a mixture of the samples would
count the difference between runs as noise within each. That difference stays apart in `run_medians`, and the interval of
the median comes from it alone: exp(mean ± t(0.975, runs - 1) · s / sqrt(runs)) over the logarithms of the medians.
Source: Vincent 1912, as in Ratcliff, Psychological Bulletin 86 (1979), on group distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev
from typing import TypeVar

from profiles.errors import InputError
from profiles.quantity import Figure, Law

LawT = TypeVar("LawT", bound=Law)
FigureT = TypeVar("FigureT", bound=Figure)
T = TypeVar("T")


def pool_laws(laws: Sequence[LawT], what: str) -> LawT:
    """One law of at least one; InputError naming `what` when they cannot be pooled."""
    for law in laws:
        if law.n == 0:
            raise InputError(f"{what}: {law.origin}, with no sample behind it; only measured runs merge")
    agreed([law.levels for law in laws], f"{what}: levels")
    agreed([(law.origin, law.spread_origin) for law in laws], f"{what}: origin")
    total = sum(law.n for law in laws)
    columns = zip(*(law.seconds for law in laws), strict=True)
    seconds = [math.fsum(law.n * x for law, x in zip(laws, column, strict=True)) / total for column in columns]
    for place in range(1, len(seconds)):  # guards the last rounding bit only
        seconds[place] = max(seconds[place], seconds[place - 1])
    medians = tuple(m for law in laws for m in medians_of(law))
    lo, hi = (laws[0].median_lo, laws[0].median_hi) if len(laws) == 1 else between_runs(medians)
    fields = {
        "seconds": tuple(seconds),
        "n": total,
        "run_medians": medians,
        "median_lo": lo,
        "median_hi": hi,
        "doubt": joined(law.doubt for law in laws),
    }
    return type(laws[0]).model_validate(laws[0].model_dump() | fields)


def medians_of(law: Law) -> tuple[float, ...]:
    """The median of each run behind a law."""
    return law.run_medians or (float(law.law().ppf(0.5)),)


def between_runs(medians: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median over at least 2 runs, in seconds."""
    from scipy.special import stdtrit

    logs = [math.log(m) for m in medians]
    half = float(stdtrit(len(logs) - 1, 0.975)) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)


def pool_figures(figures: Sequence[FigureT], what: str) -> FigureT:
    """Mean weighted by counts; bounds are the outermost, where every run has them.

    A figure without a count (modeled as threads / cores, say) must be the same in each run: InputError otherwise.
    """
    first = figures[0]
    agreed([f.origin for f in figures], f"{what}: origin")
    doubt = joined(f.doubt for f in figures)
    counts = [f.n or 0 for f in figures]
    if 0 in counts:
        agreed([f.value for f in figures], what)
        return first.model_copy(update={"doubt": doubt})
    value = math.fsum(f.value * n for f, n in zip(figures, counts, strict=True)) / sum(counts)
    lows, highs = [f.lo for f in figures if f.lo is not None], [f.hi for f in figures if f.hi is not None]
    bounded = len(lows) == len(highs) == len(figures)
    fields = {"lo": min(lows) if bounded else None, "hi": max(highs) if bounded else None, "doubt": doubt}
    return type(first).model_validate(first.model_dump() | fields | {"value": value, "n": sum(counts)})


def agreed(values: Sequence[T], what: str, say: Callable[[T], str] = repr) -> T:
    """The one value that all share; InputError naming `what` and the two that differ."""
    for value in values[1:]:
        if value != values[0]:
            raise InputError(f"{what} differs: {say(values[0])} and {say(value)}")
    return values[0]


def joined(texts: Iterable[str | None]) -> str | None:
    """Texts one after the other, each once; None when there is none."""
    found = ""
    for text in texts:
        if text and text not in found:
            found = f"{found}; {text}" if found else text
    return found or None
