"""The one SimPy event that the engine uses, and the clock that runs it: call a function with an argument after a delay.

SimPy's processes cost a generator and several events a step. A plain event with one callback does the same work at a
fraction of the price (benchmarks/ measures it), and what happens next is named where it is scheduled.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import simpy
from simpy.events import NORMAL


def _run(event: Any) -> None:
    event.function(event.argument)


class Call(simpy.Event):
    """An event that calls `function(argument)` `delay` seconds from now."""

    # Nobody waits for a Call and it has no value, so what SimPy keeps for each event stands here once for all.
    callbacks = (_run,)  # type: ignore[assignment]  # a tuple is enough: SimPy only iterates over it
    _value = None
    _ok = True
    _defused = True

    def __init__(self, env: simpy.Environment, delay: float, function: Callable[[int], None], argument: int) -> None:
        # Event.__init__ is left out on purpose: it makes a fresh callback list that we would throw away. The rest is
        # Environment.schedule, written out: a call of its own is a tenth of what an event costs.
        self.env = env
        self.function = function
        self.argument = argument
        heappush(env._queue, (env._now + delay, NORMAL, next(env._eid), self))  # noqa: SLF001

    def again(self, delay: float) -> None:
        """The same call once more, `delay` seconds from now; each time it is scheduled counts."""
        env = self.env
        heappush(env._queue, (env._now + delay, NORMAL, next(env._eid), self))  # noqa: SLF001


class Clock(simpy.Environment):
    """SimPy's environment with a shorter way from a due `Call` to its function. Any other event takes SimPy's way."""

    now = 0.0  # a plain attribute, which is read far more often than written

    def run_dry(self) -> None:
        """Run until nothing is left to happen."""
        queue = self._queue
        while queue:
            event = queue[0][3]
            if type(event) is Call:
                self._now = self.now = heappop(queue)[0]
                event.function(event.argument)
            else:
                self.step()

    def step(self) -> None:
        """SimPy's own way to the next event."""
        super().step()
        self.now = self._now
