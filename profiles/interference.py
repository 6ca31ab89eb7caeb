"""Different models at once on one device: what was seen, against what the sharing law expects.

Enters: JSON. Leaves: frozen models. Slowdowns are ratios of mean times, seconds where the name says so.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from profiles.document import Strict
from profiles.entry import ProviderName
from profiles.quantity import PositiveInt, Seconds


class Member(Strict):
    """One of several models that ran at once. `slowdown`: mean time of an inference over that alone."""

    model: str
    artifact: str
    tokens: PositiveInt
    batch: PositiveInt = 1
    slowdown: Annotated[float, Field(gt=0)]
    median_s: Seconds
    n: PositiveInt


class Interference(Strict):
    """Different models at once on one provider, a session each, back to back.

    `expected`: the slowdown of each by the sharing law, max(1, sum of occupancies). `residual`: the largest
    |slowdown / expected - 1| of the members: how far the law errs about models beside each other.
    """

    provider: ProviderName
    members: Annotated[tuple[Member, ...], Field(min_length=2)]
    expected: Annotated[float, Field(ge=1)]
    residual: Annotated[float, Field(ge=0)]
