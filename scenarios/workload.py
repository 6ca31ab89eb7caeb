"""Token lengths of requests: the laws that a scenario may name, and how they are drawn.

Every law has a smallest and a largest length, so that a scenario can be checked against a calibrated surface before
anything runs; law `trace` has those of the file, known once it is read. Draws are whole tokens.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from profiles.document import Strict, read_text
from profiles.errors import InputError

Ints = NDArray[np.int64]
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]


class _Bounded(Strict):
    min: Tokens
    max: Tokens

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self

    @property
    def support(self) -> tuple[int, int]:
        return self.min, self.max


class Fixed(Strict):
    """Every request has the same length."""

    law: Literal["fixed"]
    tokens: Tokens

    @property
    def support(self) -> tuple[int, int]:
        return self.tokens, self.tokens

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        return np.full(size, self.tokens, dtype=np.int64)


class Uniform(_Bounded):
    """Equally likely whole lengths from min to max."""

    law: Literal["uniform"]

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        return rng.integers(self.min, self.max, size=size, endpoint=True)


class LogUniform(_Bounded):
    """Equally likely in log(tokens): each doubling of length has the same share of requests."""

    law: Literal["log_uniform"]

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        lengths = np.exp(rng.uniform(np.log(self.min), np.log(self.max), size=size))
        return np.clip(np.rint(lengths), self.min, self.max).astype(np.int64)


class LogNormal(_Bounded):
    """Lognormal about a median; draws outside min..max are set to the bound (so the bounds carry some mass)."""

    law: Literal["lognormal"]
    median: Annotated[float, Field(ge=1)]
    sigma: Annotated[float, Field(gt=0, le=5)]

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        lengths = self.median * np.exp(self.sigma * rng.standard_normal(size))
        return np.clip(np.rint(lengths), self.min, self.max).astype(np.int64)


class Choice(Strict):
    """One of a few lengths; `weights` (default equal) sum to 1."""

    law: Literal["choice"]
    tokens: Annotated[tuple[Tokens, ...], Field(min_length=1)]
    weights: tuple[Annotated[float, Field(ge=0)], ...] | None = None

    @model_validator(mode="after")
    def _weighted(self) -> Self:
        if self.weights is not None:
            if len(self.weights) != len(self.tokens):
                raise ValueError(f"{len(self.weights)} weights for {len(self.tokens)} lengths; give one for each")
            if abs(sum(self.weights) - 1) > 1e-6:
                raise ValueError(f"weights sum to {sum(self.weights):g}; they must sum to 1")
        return self

    @property
    def support(self) -> tuple[int, int]:
        return min(self.tokens), max(self.tokens)

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        chosen: Ints = rng.choice(np.array(self.tokens, dtype=np.int64), size=size, p=self.weights)
        return chosen


class Cdf(Strict):
    """fleet-sim's workload form: `points` of [tokens, cumulative fraction], ending at 1; linear in between.

    Below the first point lengths run from `min` to the first point.
    """

    law: Literal["cdf"]
    min: Tokens = 1
    points: Annotated[tuple[tuple[Tokens, Annotated[float, Field(ge=0, le=1)]], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_cdf(self) -> Self:
        tokens = [self.min, *(t for t, _ in self.points)]
        fractions = [f for _, f in self.points]
        if any(b < a for a, b in pairwise(tokens)) or any(b < a for a, b in pairwise(fractions)):
            raise ValueError("points must increase in tokens and in cumulative fraction, starting at or above min")
        if abs(fractions[-1] - 1) > 1e-9:
            raise ValueError(f"the last cumulative fraction is {fractions[-1]:g}; it must be 1")
        return self

    @property
    def support(self) -> tuple[int, int]:
        return self.min, self.points[-1][0]

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        fractions = np.array([0.0, *(f for _, f in self.points)])
        tokens = np.array([self.min, *(t for t, _ in self.points)], dtype=float)
        lengths: Ints = np.rint(np.interp(rng.uniform(size=size), fractions, tokens)).astype(np.int64)
        return lengths


class CdfFile(Strict):
    """fleet-sim's workload file: JSON `{"cdf": [[tokens, cumulative fraction], …]}`, or the bare list.

    `path`: relative to the scenario file. fleet-sim's lengths are prompt and answer together, of which it takes 80 % as
    the prompt; the router reads the prompt only, so `prompt_share` (of each length) says how much that is here.
    """

    law: Literal["cdf_file"]
    path: Annotated[str, Field(min_length=1)]
    prompt_share: Annotated[float, Field(gt=0, le=1)]
    min: Tokens = 1

    def read(self) -> Cdf:
        """The file as a law of its own, lengths times `prompt_share`; InputError if it is not such a file."""
        try:
            data = json.loads(read_text(Path(self.path)))
        except json.JSONDecodeError as error:
            raise InputError(f"{self.path}:{error.lineno}: not JSON: {error.msg}") from None
        points = data.get("cdf") if isinstance(data, dict) else data
        if not isinstance(points, list):
            raise InputError(f'{self.path}: expected {{"cdf": [[tokens, cumulative fraction], …]}} or the list alone')
        try:
            whole = Cdf.model_validate({"law": "cdf", "points": points})
            scaled = [(max(round(tokens * self.prompt_share), 1), fraction) for tokens, fraction in whole.points]
            return Cdf.model_validate({"law": "cdf", "min": self.min, "points": scaled})
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise InputError(f"{self.path}: {where or 'cdf'}: {problem['msg'].removeprefix('Value error, ')}") from None

    @property
    def support(self) -> tuple[int, int]:
        return self.read().support

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        return self.read().draw(rng, size)


class FromTrace(Strict):
    """The length that the trace gives for each request (`arrivals.process: trace`)."""

    law: Literal["trace"]


TokenLaw = Annotated[
    Fixed | Uniform | LogUniform | LogNormal | Choice | Cdf | CdfFile | FromTrace, Field(discriminator="law")
]
