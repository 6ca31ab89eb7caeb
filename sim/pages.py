"""Places for the requests of a long run: a page of them is drawn when the one before has arrived, and leaves when done.

Enters: pages of work and arrival times in order (`drawn`, or any others). Leaves: a `House`, in whose places the engines
keep requests as in a run that is drawn whole: they know a request by its place. A page is a range of neighbouring places;
it is used again when all its requests have left. docs/decisions/0015 says why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.schema import Profile
from scenarios.arrivals import Burst, Closed
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.arrivals import requests_of, times_in_pieces
from sim.ledger import BLOCKS
from sim.sketch import ERROR
from sim.streams import OngoingStreams
from sim.work import Piece, Work, draw_work

Floats = NDArray[np.float64]
Page = tuple[Work, Floats]  # and when each request arrives, in seconds

PAGE = 16_384  # requests; small beside a run, large beside what a call of NumPy costs
WHOLE_UP_TO = 1_000_000  # requests of a replication that is kept whole, with exact percentiles


def in_pages(scenario: Scenario, n: int) -> bool:
    """Whether a replication of n requests goes in pages."""
    return n > WHOLE_UP_TO and not isinstance(scenario.arrivals, Burst | Closed)


def notes_of_pages(scenario: Scenario, trace: TraceRows | None) -> tuple[str, ...]:
    """What a reader must know of figures from runs that go in pages."""
    if not any(in_pages(scenario, requests_of(scenario, load, trace)) for load in scenario.load.points):
        return ()
    note = (
        f"A replication of more than {WHOLE_UP_TO:,} requests is not kept whole: its percentiles are read from a sketch and "
        f"lie within {ERROR:.1%} of the exact ones."
    )
    if scenario.arrivals.steady:
        note += f" Warm-up is removed in blocks of a {BLOCKS}th of the run or of {PAGE:,} requests, whichever is more."
    return (note,)


def drawn(
    scenario: Scenario,
    profile: Profile,
    streams: OngoingStreams,
    load: float,
    trace: TraceRows | None,
    size: int = PAGE,
) -> Iterator[Page]:
    """The requests of one replication at one load point, the same as when they are drawn whole."""
    n = requests_of(scenario, load, trace)
    first = 0
    for times in times_in_pieces(scenario, load, n, size, streams, trace):
        rows = None if trace is None else trace.rows(slice(first, first + times.size))
        yield draw_work(scenario, profile, streams, times.size, rows, Piece(first, n)), times
        first += times.size


class House:
    """`total` requests come, page by page. work, times: by place; what stands in free places means nothing."""

    def __init__(self, pages: Iterator[Page], total: int) -> None:
        self.total, self._pages, self._came = total, pages, 0
        self.work: Work
        self.times: Floats = np.empty(0)
        self._size = 0  # places of a page
        self._free: list[int] = []  # where pages can begin
        self._inside: deque[slice] = deque()  # pages in order of arrival

    @property
    def more(self) -> bool:
        """Whether requests come after those that are here."""
        return self._came < self.total

    def take(self) -> slice:
        """The next page comes in; its places. Only while `more`."""
        work, times = next(self._pages)
        if not self._size:
            self.work = work.copy()
            self.times, self._size = times.copy(), times.size
            place = 0
        else:
            if not self._free:
                self._build(self.times.size)
            place = self._free.pop()
            self._put(work, times, slice(place, place + times.size))
        page = slice(place, place + times.size)
        self._inside.append(page)
        self._came += times.size
        return page

    def leave(self, settled: Callable[[slice], bool]) -> Iterator[slice]:
        """The pages that are done, in order of arrival, up to the first that is not. Read each before the next."""
        while self._inside and settled(self._inside[0]):
            page = self._inside.popleft()
            yield page
            self._free.append(page.start)

    def _put(self, work: Work, times: Floats, page: slice) -> None:
        self.times[page] = times
        for name, column in work.columns().items():
            getattr(self.work, name)[page] = column
        for name, column in work.asked_later.items():
            self.work.asked_later[name][page] = column

    def _build(self, places: int) -> None:
        """That many more places."""
        old = self.times.size
        whole = places - places % self._size
        self._free += range(old + whole - self._size, old - 1, -self._size)
        self.times = longer(self.times, whole)
        for name, column in self.work.columns().items():
            setattr(self.work, name, longer(column, whole))
        for name, column in self.work.asked_later.items():
            self.work.asked_later[name] = longer(column, whole)


def longer(column: NDArray[Any], more: int, axis: int = 0) -> NDArray[Any]:
    """With that many more along an axis. They are empty: what nobody writes to takes no memory."""
    shape = list(column.shape)
    shape[axis] += more
    grown = np.empty(shape, dtype=column.dtype)
    grown[tuple(slice(size) for size in column.shape)] = column
    return grown
