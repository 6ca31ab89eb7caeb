"""The compiled path for a run that goes in pages (`sim.pages`): the same loop, stopped whenever a page has arrived.

Enters: a node that `compiled.covers` accepts, and a house. Leaves: the records of each page, bit for bit those of the whole
run. Imports the loop, and with it Numba: import this where a node runs, not before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sim import compiled_loop as loop
from sim.arrivals import OpenLoop
from sim.compiled import arrays_of, records_from, rows_of, with_more_room
from sim.compiled_loop import Node
from sim.node import NodeSpec
from sim.pages import House, longer
from sim.records import Records
from sim.streams import Streams


def simulate(node: NodeSpec, house: House, streams: Streams, add: Callable[[Records], None]) -> None:
    """The same with a page of requests after the other; `add` is handed the records of each page, in order of arrival."""
    house.take()
    state = arrays_of(node, house.work, OpenLoop(house.times), streams, house.total)
    state.given["more"] = house.more
    while (why := loop.run(state)) != loop.DONE:
        if why == loop.ROOM:
            state = with_more_room(state)
            continue
        for done in house.leave(_settled(node, state)):
            add(records_from(node, house.work.rows(done), state, done))
        page = house.take()
        state = _put(node, house, state, streams, page)
    for done in house.leave(lambda _: True):
        add(records_from(node, house.work.rows(done), state, done))


def _settled(node: NodeSpec, state: Node) -> Callable[[slice], bool]:
    """Whether a page has all its answers and nothing refers to its requests."""
    marks = np.zeros(state.requests.size, dtype=bool)
    if node.limits.timeout_s is not None:  # else nobody leaves before their answer, and answered is out of everything
        loop.mark_those_under_way(state, marks)
    answered = state.request_steps[loop.ANSWERED]
    return lambda page: not marks[page].any() and not np.isnan(answered[page]).any()


def _put(node: NodeSpec, house: House, state: Node, streams: Streams, page: slice) -> Node:
    """The requests of a page take their places."""
    signals = len(node.signals)
    jobs = slice(page.start * signals, page.stop * signals)
    more = house.work.tokens.size - state.requests.size
    if more > 0:
        state = state._replace(
            requests=longer(state.requests, more),
            jobs=longer(state.jobs, more * signals),
            request_steps=longer(state.request_steps, more, axis=1),
            job_steps=longer(state.job_steps, more * signals, axis=1),
        )
    state = state._replace(service_s=house.work.service_s, occupancy=house.work.occupancy, needed=house.work.needed)
    state.requests[page] = rows_of(node, house.work.rows(page), OpenLoop(house.times[page]), streams)
    state.jobs[jobs] = np.zeros(1, dtype=loop.JOB)
    state.request_steps[:, page] = np.nan
    state.job_steps[:, jobs] = np.nan
    for name, value in {"first": page.start, "last": page.stop, "more": house.more}.items():
        state.given[name] = value
    return state
