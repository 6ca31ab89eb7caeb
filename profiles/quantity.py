"""Numbers of a profile: each carries its origin (`measured`, `published`, `modeled`, `assumed`) and, where there is one,
the key of its source in the profile's `sources` and the doubt that attaches to it.

Enters: JSON. Leaves: frozen models. Seconds, bytes, tokens; the unit is in the name of the field that holds the number.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.distribution import QuantileLaw, problem_with
from profiles.document import Strict

Origin = Literal["measured", "published", "modeled", "assumed"]
PositiveInt = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Figure(Strict):
    """One number with its origin. `lo` and `hi` bound it at 95 % where that is known."""

    value: float
    origin: Origin
    source: str | None = None
    doubt: str | None = None
    n: Annotated[int, Field(ge=0)] | None = None
    lo: float | None = None
    hi: float | None = None


class Law(Strict):
    """A distribution of seconds as quantiles. `n` counts the samples behind it (0 for what nobody measured);
    `median_lo` and `median_hi` bound the median at 95 % where that is known.

    `run_medians`: where several runs were merged, the median of each: the spread between runs, which the law itself, the
    average of the runs' quantile functions, leaves out.

    `origin` speaks for the location, `spread_origin` for the shape around it: a published median with a spread that we
    assumed has `published` and `assumed`.
    """

    levels: tuple[float, ...]
    seconds: tuple[Seconds, ...]
    n: Annotated[int, Field(ge=0)]
    origin: Origin
    spread_origin: Origin
    median_lo: Seconds | None = None
    median_hi: Seconds | None = None
    run_medians: Annotated[tuple[Seconds, ...], Field(min_length=1)] | None = None
    source: str | None = None
    doubt: str | None = None

    @model_validator(mode="after")
    def _well_formed(self) -> Self:
        problem = problem_with(self.levels, self.seconds)
        if problem:
            raise ValueError(problem)
        return self

    def law(self) -> QuantileLaw:
        return QuantileLaw(self.levels, self.seconds)
