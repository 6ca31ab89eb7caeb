"""How many threads of inferences a node can hold at once.

Enters: a scenario, the intra-op threads of one session by signal. Leaves: a count, which a machine's cores are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.schema import Scenario


def most_threads(scenario: Scenario, threads: Mapping[str, int]) -> int:
    """Threads of inferences that the node can hold at once, by its domains and sessions. threads: of one session, by signal."""
    free = sum(s.sessions * threads[name] for name, s in scenario.signals.items() if s.lock_domain is None)
    held = 0
    for domain, law in scenario.lock_domains.items():
        inside = {name: s for name, s in scenario.signals.items() if s.lock_domain == domain}
        at_once = min(law.width, sum(s.sessions for s in inside.values()))
        held += at_once * max((threads[name] for name in inside), default=0)
    return free + held
