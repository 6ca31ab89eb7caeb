"""The sharing law of a device: full speed while it is not full, equal slowing above that.

Each running inference has an occupancy f in (0, 1]. Co-tenants leave a share C of the device (1 without them). While
F = sum of f is at most C all run at speed 1; above that each runs at C/F. All running jobs share one speed, so in virtual time v (dv/dt = speed) a job that starts at v with s
seconds of own work ends at v + s whatever happens later: the finishing order never changes, and one heap of virtual
ends is exact. With f = 1 for all this is egalitarian processor sharing; with f = 1/c it is c servers that never queue
until the c-th job, then share.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import simpy

from sim.events import Call

_NEVER = float("inf")


class Device:
    """One device. `finished(job)` is called when a job's own work is done."""

    def __init__(self, env: simpy.Environment, finished: Callable[[int], None]) -> None:
        self._env = env
        self._finished = finished
        self._running: list[tuple[float, int, int, float]] = []  # (virtual end, tie-break, job, occupancy)
        self._started = 0
        self._filled = 0.0  # F
        self._left = 1.0  # C
        self._virtual = 0.0
        self._updated = 0.0  # when _virtual was last brought up to date
        self._alarm = float("inf")  # time of the earliest alarm that is set
        self._bell: Call | None = None  # what rings for every alarm: making one each time would be a tenth of the cost

    def start(self, job: int, service_s: float, occupancy: float) -> None:
        """Run `job`: `service_s` seconds of work at full speed, using `occupancy` of the device."""
        self._advance()
        self._started += 1
        heappush(self._running, (self._virtual + service_s, self._started, job, occupancy))
        self._filled += occupancy
        self._set_alarm()

    def leave(self, share: float) -> None:
        """Co-tenants leave this share of the device from now on, above 0 and at most 1."""
        self._advance()
        self._left = share
        self._alarm = float("inf")  # an alarm set at the old speed may come too early or too late: set it anew
        if self._running:
            self._set_alarm()

    def abandon(self) -> list[tuple[int, float]]:
        """Everything stops here and now: (job, seconds of own work that are left) of what was running."""
        self._advance()
        running = [(job, max(end - self._virtual, 0.0)) for end, _, job, _ in self._running]
        self._running.clear()
        self._filled, self._alarm = 0.0, float("inf")
        return running

    def _advance(self) -> None:
        now = self._env.now
        passed = now - self._updated
        self._virtual += passed if self._filled <= self._left else passed * self._left / self._filled
        self._updated = now

    def _set_alarm(self) -> None:
        """Wake at the end of the job that is first to end. An alarm set for earlier will do: it looks again."""
        delay = self._running[0][0] - self._virtual
        if self._filled > self._left:
            delay = delay * self._filled / self._left
        if delay < 0.0:
            delay = 0.0
        at = self._env.now + delay
        if at < self._alarm:
            self._alarm = at
            if self._bell is None:
                self._bell = Call(self._env, delay, self._wake, 0)
            else:
                self._bell.again(delay)

    def _wake(self, _: int) -> None:
        now = self._env.now
        if now != self._alarm:
            return  # an alarm that an earlier one has replaced
        self._alarm = _NEVER
        self._advance()
        end, _, job, occupancy = self._running[0]
        # Rounding may leave a sliver of work; ending it now moves the end by less than the clock can resolve.
        if end - self._virtual <= (1e-12 * now if now > 1.0 else 1e-12):
            heappop(self._running)
            if end > self._virtual:
                self._virtual = end
            if self._running:
                self._filled -= occupancy
                self._set_alarm()
            else:
                self._filled = 0.0
            self._finished(job)
        else:
            self._set_alarm()
