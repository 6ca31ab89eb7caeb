"""The numbered invariants of docs/explanation/invariants.md, over random small nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from simcap.validate.invariants import PLAIN
from simcap.validate.random_nodes import Case, plain
from tests.invariants.drawn import drawn


@pytest.mark.parametrize("number", list(PLAIN))
@settings(max_examples=130, deadline=None)
@given(case=drawn(plain))
def test_the_invariant_holds(number: int, case: Case) -> None:
    """Conservation, causality, capacity of stations, work conservation, attribution, no idle lock: on nodes where nothing fails."""
    assert not list(PLAIN[number](case, case.run()))
