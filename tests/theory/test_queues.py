"""The engine against exact results of queueing theory: every case of `simcap validate theory`, at full effort.

Each case runs independent replications and asserts two things: the exact value lies in the 99 % interval of the mean,
and that interval is narrow, so that a wrong engine could not hide in a wide one. No seeded digit is compared.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sim.engine import Asked
from simcap.validate.theory import judged
from simcap.validate.theory_cases import Case, cases
from simcap.validate.theory_nodes import Effort, chain, erlang_c, exponential, open_runs, room_limited

CASES = cases()
SEED = 2026


def engine_for(requests: int) -> Asked:
    """The reference up to 250 thousand requests, beyond the compiled engine where it can: both tell the same, bit for bit."""
    return "simpy" if requests <= 250_000 else "auto"


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_exact_value_lies_in_a_narrow_interval(case: Case) -> None:
    """Waits, times, throughputs and losses that theory knows exactly are those of the engine."""
    n, replications = case.requests, case.replications
    effort = Effort(n, replications, SEED, engine_for(n * replications))
    for one in judged(case, case.simulated(effort), figures=1):
        said = f"{one.figure}: exact {one.exact:.5g}, simulated {one.mean:.5g} ± {one.half:.2g}"
        assert one.half <= one.allowed, f"{said} is too wide to prove it"
        assert not one.miss, said


def test_processor_sharing_below_one_does_not_slow() -> None:
    """Up to 1/f inferences share the device at full speed: M/G/∞ when that many never meet."""
    runs = open_runs(chain(sessions=100_000), 2.0, exponential, 1e-6, Effort(20_000, 3, SEED, "simpy"))
    for run in runs:
        np.testing.assert_allclose(run.latency, run.work.service_s[:, 0], rtol=1e-9, atol=1e-9)


def test_formulas_agree_where_they_meet() -> None:
    """Erlang C of one server is its load; endless room turns nobody away and gives M/M/1's time."""
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert room_limited(1, 400, 0.7) == (pytest.approx(0, abs=1e-12), pytest.approx(1 / 0.3))


def test_same_seed_same_records_and_order_of_events() -> None:
    """The same seed gives the same records bit for bit, and a FIFO session serves in order of arrival."""
    one, two = (open_runs(chain(), 0.8, exponential, 1.0, Effort(2_000, 1, SEED, "simpy"))[0] for _ in range(2))
    assert one.answered.tobytes() == two.answered.tobytes()
    assert all(a <= b for a, b in pairwise(one.started[:, 0].tolist()))
