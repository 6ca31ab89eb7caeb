from __future__ import annotations

import pytest

from benchmarks.measuring_loop import quiet_runs, repeated


def test_which_runs_count() -> None:
    """The first five runs in a row with six sentinels within 5 %; the cell's own medians have no say in it."""
    sentinels = [1.2, 1.0, 1.01, 1.02, 1.0, 1.03, 1.04, 1.0]
    cells = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert quiet_runs(cells, sentinels) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert quiet_runs(cells[:5], sentinels[:6]) is None


@pytest.mark.parametrize(("drift", "runs", "counts"), [(1.0, 5, True), (1.05, 40, False)])
def test_it_goes_on_until_the_machine_is_quiet(drift: float, runs: int, counts: bool) -> None:
    """A steady machine is done after five runs; one whose speed drifts by 5 % a visit never counts, and it ends all the same."""
    calls: list[int] = []

    def visit(tokens: int) -> float:
        calls.append(tokens)
        return tokens * drift ** len(calls)

    cells, sentinels = repeated(visit)
    assert (len(cells), len(sentinels)) == (runs, runs + 1)
    assert (quiet_runs(cells, sentinels) is not None) == counts
