"""What a strategy found, `simcap.strategy/1`: plans and orders of each workload, the recommendation, what would change it.

A plan is one provider with one artifact a signal. An order is plans tried in turn. Times in seconds, loads in the unit
that `load_kind` names, shares 0 to 1; intervals are 95 % over replications.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from profiles.document import Strict
from scenarios.arrivals import LoadKind
from sim.result import Interval, Slo

Policy = Literal["wait", "fall_back", "compile_first", "load_on_use"]
"""What a session does while a program is not ready: `compile_first` compiles before the node takes traffic;
`load_on_use` is for providers that compile nothing while they serve."""


class Plan(Strict):
    """One provider alone. `capacity` None: `why` says. `behind`: the relative change of capacity from the best plan to
    this one, paired; 0 for the best itself. `chosen`: the artifacts that stand for this provider in the orders.
    """  # fmt: skip

    provider: str
    artifacts: dict[str, str]  # signal -> artifact
    capacity: Interval | None
    behind: Interval | None
    level: bool  # its capacity does not lie significantly below the best plan's
    chosen: bool
    why: str | None = None


class Start(Strict):
    """A cold start of one order under one policy. `late`: requests a start that fail or miss the promise; `late_share`:
    of all requests in the window. `delay_s`: before traffic is taken, mean.
    """  # fmt: skip

    providers: tuple[str, ...]
    policy: Policy
    late: Interval
    late_share: Interval
    stepped_down: float  # share of inferences that ran on a later provider
    delay_s: float


class BreakEven(Strict):
    """How far a figure may move until another order is as good.

    slower: factor on the service times of the recommended provider at which `other` has the same capacity.
    starts: cold starts a node and day that use up what the SLO leaves.
    """

    kind: Literal["slower", "starts"]
    other: str | None
    value: Interval


class Workload(Strict):
    """One scenario. `impossible`: provider -> why it cannot serve every signal. `recommended`: the order; None: no plan
    keeps the promise.
    """  # fmt: skip

    scenario: str
    question: str
    slo: Slo
    load_kind: LoadKind
    steady_replications: int
    plans: tuple[Plan, ...]
    impossible: dict[str, str]
    start_load: float | None
    start_window_s: float | None
    start_replications: int
    starts: tuple[Start, ...]
    no_starts: str | None  # why cold starts were not simulated
    recommended: tuple[str, ...]
    policy: Policy | None
    break_evens: tuple[BreakEven, ...]
    bottleneck: str | None  # of the recommended order at its capacity
    command: str  # that asks for the capacity of the recommended order


class Strategy(Strict):
    """The whole answer."""

    schema_version: Literal["simcap.strategy/1"] = Field(alias="schema", default="simcap.strategy/1")
    profile: str
    seed: int
    workloads: tuple[Workload, ...]
