"""Marks and words that the sections of a strategy share.

Enters: a `Workload` and the ledger. Leaves: Markdown marks for simulated figures and for the promise, words for policies.
"""

from __future__ import annotations

from simcap.documents.ledger import Ledger
from simcap.documents.text import code, seconds
from simcap.strategy.model import Policy, Strategy, Workload

ABSENT = "not known"
POLICY: dict[Policy, str] = {
    "wait": "compile inside the request",
    "fall_back": "answer on the next provider while programs compile",
    "compile_first": "take traffic only when every program is compiled",
    "load_on_use": "load each session on its first request",
}


def _simulated(work: Workload, strategy: Strategy, ledger: Ledger, what: str) -> str:
    source = (
        f"simcap simulation of scenario {code(work.scenario)} on profile {code(strategy.profile)}, "
        f"seed {code(strategy.seed)}: {what}"
    )
    return ledger.mark("modeled", source)


def capacity_mark(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    what = f"load at which each of {code(work.steady_replications)} replications breaks the promise; mean and 95 % interval"
    return _simulated(work, strategy, ledger, what.replace("95 %", code("95 %")))


def start_mark(work: Workload, strategy: Strategy, ledger: Ledger) -> str:
    what = (
        f"cold starts at half of the best capacity, {code(work.start_replications)} replications; "
        f"mean and {code('95 %')} interval"
    )
    return _simulated(work, strategy, ledger, what)


def promise(work: Workload, ledger: Ledger) -> str:
    """The SLO, which is an input of the reader's."""
    asked = ledger.mark("assumed", f"the promise asked for, in scenario {code(work.scenario)} or with {code('--slo')}")
    return f"{100 * work.slo.attainment:g} % of requests within {seconds(work.slo.latency_s)} {asked}"
