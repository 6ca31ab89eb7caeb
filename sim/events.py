"""The one SimPy event that the engine uses: call a function with an argument after a delay.

SimPy's processes cost a generator and several events a step. A plain event with one callback does the same work at a
fraction of the price (benchmarks/ measures it), and what happens next is named where it is scheduled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy


def _run(event: Any) -> None:
    event.function(event.argument)


_CALLBACKS = (_run,)  # shared by all events: SimPy only iterates over it


class Call(simpy.Event):
    """An event that calls `function(argument)` `delay` seconds from now."""

    def __init__(self, env: simpy.Environment, delay: float, function: Callable[[int], None], argument: int) -> None:
        # Event.__init__ is left out on purpose: it makes a fresh callback list that we would throw away.
        self.env = env
        self.callbacks = _CALLBACKS  # type: ignore[assignment]  # a tuple is enough, see above
        self._value = None
        self._ok = True
        self._defused = True
        self.function = function
        self.argument = argument
        env.schedule(self, delay=delay)
