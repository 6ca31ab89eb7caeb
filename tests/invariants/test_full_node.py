"""Invariants 1, 2, 5 and 7 to 10 over random nodes that use every mechanism at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from simcap.validate.invariants import FULL
from simcap.validate.random_nodes import Case, full
from tests.invariants.drawn import drawn


@pytest.mark.parametrize("number", list(FULL))
@settings(max_examples=250, deadline=None)
@given(case=drawn(full))
def test_the_invariant_holds(number: int, case: Case) -> None:
    """Fallback, compile, memory, limits, retries, crashes and balancers together break none of them."""
    assert not list(FULL[number](case, case.run()))
