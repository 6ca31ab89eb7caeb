"""Random nodes from Hypothesis, which shrinks one that breaks an invariant to the smallest that does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from simcap.validate.random_nodes import Case, Chooser

T = TypeVar("T")


class Drawn:
    """Choices of Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def real(self, low: float, high: float) -> float:
        return self._draw(st.floats(low, high))

    def one_of(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))


def drawn(make: Callable[[Chooser], Case]) -> st.SearchStrategy[Case]:
    """Cases as `make` makes them."""

    @st.composite
    def cases(draw: st.DrawFn) -> Case:
        return make(Drawn(draw))

    return cases()
