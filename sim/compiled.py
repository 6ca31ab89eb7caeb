"""The compiled path: which nodes it covers, and the way from a node and its work to `Records` through `compiled_loop`.

Enters: what `engine.simulate` takes. Leaves: the same records, bit for bit. Numba is imported when a node runs here, and
not before; without it `missing` says how to get it.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sim.arrivals import Arrivals, Bursts, ClosedLoop, OpenLoop
from sim.balancer import affinity
from sim.node import NodeSpec
from sim.records import Events, Floats, Ints, Records
from sim.streams import Streams
from sim.tracks import FAILURES, STALLS, Lost
from sim.work import Work

if TYPE_CHECKING:
    from sim.compiled_loop import Node

BALANCERS = ("round_robin", "join_shortest_queue", "least_loaded", "random", "affinity")  # one replica needs none


def missing() -> str | None:
    """Why nothing can run compiled in this environment, or None."""
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed: pip install 'vllm-sr-simcap[fast]'"
    return None


def covers(node: NodeSpec, work: Work, arrivals: Arrivals) -> str | None:
    """What of this run the compiled path does not simulate, in words, or None when it simulates all of it."""
    variants = [node.variant(s) for s in range(len(node.signals))]
    used_locks = {node.locks[k][1] for k in node.lock_of if k is not None}
    reasons = {
        "device memory": node.memory is not None,
        "programs compiled per shape": any(v.compile is not None for v in variants),
        "sessions that load during the run": node.replicas.cold_start or any(v.load is not None for v in variants),
        "a first provider that is not available": not all(v.available for v in variants),
        "inferences that fail": work.fails is not None,
        "run queues of a CPU": node.run_queues is not None,
        "batching": any(node.batching),
        "queue limits": any(limit is not None for limit in node.queue_limit),
        "lock domains in random order": "random" in used_locks,
        "co-tenants whose compute changes": len(node.compute_left) > 1,
        "retries": node.limits.retries > 0,
        "faults of replicas": bool(node.replicas.faults),
        f"balancer {node.replicas.balancer}": node.replicas.count > 1 and node.replicas.balancer not in BALANCERS,
        f"arrivals {type(arrivals).__name__}": type(arrivals) not in (OpenLoop, ClosedLoop, Bursts),
    }
    found = [reason for reason, present in reasons.items() if present]
    return f"not compiled: {', '.join(found)}" if found else None


def simulate(node: NodeSpec, work: Work, arrivals: Arrivals, streams: Streams) -> Records:
    """Run a node that `covers` accepts until nothing is left to happen."""
    from sim import compiled_loop

    state = arrays_of(node, work, arrivals, streams)
    while compiled_loop.run(state) != compiled_loop.DONE:
        state = with_more_room(state)
    return records_from(node, work, state, slice(0, work.tokens.size))


def with_more_room(state: Node) -> Node:
    """With a heap of events twice as large."""
    return state._replace(events=np.resize(state.events, 2 * state.events.size))


def arrays_of(node: NodeSpec, work: Work, arrivals: Arrivals, streams: Streams, most: int | None = None) -> Node:
    """The node before anything has happened, as `compiled_loop` has it. `most`: requests that will come, n by default."""
    from sim import compiled_loop as loop

    counts = _session_counts(node, most or work.tokens.size)
    given = _given(node, work, arrivals, sum(counts))
    replicas, signals = node.replicas.count, len(node.signals)
    device_of = np.array([node.device_number(s, k) for s in range(signals) for k in range(counts[s])], dtype=np.int64)
    return loop.Node(
        given=given,
        clock=np.zeros(1, dtype=loop.CLOCK),
        events=np.zeros(4 * int(given["most_scheduled"][0]) + 1024, dtype=loop.EVENT),
        requests=rows_of(node, work, arrivals, streams),
        jobs=np.zeros(work.needed.size, dtype=loop.JOB),
        request_steps=np.full((5, work.tokens.size), np.nan),
        job_steps=np.full((5, work.needed.size), np.nan),
        service_s=np.ascontiguousarray(work.service_s),
        occupancy=np.ascontiguousarray(work.occupancy),
        needed=np.ascontiguousarray(work.needed),
        signals=_filled(
            loop.SIGNAL,
            signals,
            lock=[loop.NOBODY if k is None else k for k in node.lock_of],
            first_session=np.cumsum([0, *counts[:-1]]),
        ),
        stages=np.cumsum([0, *(len(stage) for stage in node.stages)]),
        staged=np.array([s for stage in node.stages for s in stage], dtype=np.int64),
        cpu=_queues(np.full(replicas, node.cpu_workers)),
        lock=_queues(
            np.tile(np.array([node.lock_servers(k) for k in range(len(node.locks))], dtype=np.int64), replicas)
        ),
        session=_queues(np.tile(np.array(counts), replicas)),
        free=np.tile(np.concatenate([np.arange(count)[::-1] for count in counts]), replicas),
        device_of=device_of,
        device=_devices(node, device_of),
        running=np.zeros(replicas * device_of.size, dtype=loop.RUNNING),
        inside=np.zeros(replicas, dtype=loop.INSIDE),
    )


def _session_counts(node: NodeSpec, requests: int) -> list[int]:
    """Sessions of each signal; more than there are requests are never used, since the lowest free one goes first."""
    return [min(count, max(requests, 1)) for count in node.sessions]


def _given(node: NodeSpec, work: Work, arrivals: Arrivals, sessions: int) -> NDArray[Any]:
    from sim import compiled_loop as loop

    limits, signals, replicas = node.limits, len(node.signals), node.replicas.count
    size = (
        arrivals.size if isinstance(arrivals, Bursts) else arrivals.clients if isinstance(arrivals, ClosedLoop) else 0
    )
    codes = {
        "join_shortest_queue": loop.LEAST_REQUESTS,
        "least_loaded": loop.LEAST_SECONDS,
        "random": loop.DRAWN,
        "affinity": loop.FIXED,
    }
    return _filled(
        loop.GIVEN,
        1,
        timeout_s=limits.timeout_s if limits.timeout_s is not None else np.inf,
        gap_s=arrivals.gap_s if isinstance(arrivals, Bursts) else 0.0,
        requests=work.tokens.size,
        last=work.tokens.size,
        signals=signals,
        replicas=replicas,
        devices=len(node.devices),
        sessions=sessions,
        stages=len(node.stages),
        locks=len(node.locks),
        balancer=codes.get(node.replicas.balancer, loop.IN_TURN) if replicas > 1 else loop.IN_TURN,
        most_inside=limits.max_in_flight if limits.max_in_flight is not None else np.iinfo(np.int64).max,
        process={OpenLoop: loop.OPEN, ClosedLoop: loop.CLOSED, Bursts: loop.BURSTS}[type(arrivals)],
        size=size,
        bursts=arrivals.bursts if isinstance(arrivals, Bursts) else 0,
        most_scheduled=2 * max(size, 1) + 4 * signals + 8,  # by one event
    )


def rows_of(node: NodeSpec, work: Work, arrivals: Arrivals, streams: Streams) -> NDArray[Any]:
    """What the loop knows of each request before it arrives."""
    from sim import compiled_loop as loop

    n, name, count = work.tokens.size, node.replicas.balancer, node.replicas.count
    weight = work.service_s[:, : len(node.signals)].sum(axis=1)
    requests = _filled(loop.REQUEST, n, router_s=work.router_s, weight=weight)
    if isinstance(arrivals, OpenLoop):
        requests["time"] = arrivals.times
    elif isinstance(arrivals, ClosedLoop):
        requests["time"] = arrivals.think_s
    if count > 1 and name == "random":
        requests["pick"] = streams.generator("balancer").integers(count, size=n)
    if count > 1 and name == "affinity":
        requests["pick"] = affinity(work, count)
    return requests


def _devices(node: NodeSpec, device_of: NDArray[np.int64]) -> NDArray[Any]:
    from sim import compiled_loop as loop

    replicas, count = node.replicas.count, len(node.devices)
    on_device = np.tile(np.bincount(device_of, minlength=count), replicas)
    left = [node.compute_left[0][1] if name.startswith("gpu") else 1.0 for name in node.devices]
    return _filled(
        loop.DEVICE,
        replicas * count,
        left=np.tile(left, replicas),
        alarm=np.inf,
        first=np.cumsum([0, *on_device[:-1]]),
    )


def _queues(free: NDArray[np.int64]) -> NDArray[Any]:
    from sim import compiled_loop as loop

    return _filled(loop.QUEUE, free.size, free=free, head=loop.NOBODY, tail=loop.NOBODY)


def _filled(kind: np.dtype[Any], count: int, /, **fields: Any) -> NDArray[Any]:
    """Records with these fields and all others zero."""
    records = np.zeros(count, dtype=kind)
    for name, value in fields.items():
        records[name] = value
    return records


def records_from(node: NodeSpec, work: Work, state: Node, places: slice) -> Records:
    """Columns of the state, of the requests in `places`, whose rows `work` holds.

    A request without an answer has failed at the end of time, unfinished.
    """
    shape = work.needed.shape
    signals = shape[1]
    jobs = slice(places.start * signals, places.stop * signals)
    arrived, entered, router_started, router_ended, answered = state.request_steps[:, places]
    ready, locked, started, ended, lost = (row.reshape(shape) for row in state.job_steps[:, jobs])
    failure = state.requests["failure"][places].copy()
    unfinished = np.isnan(answered) & ~np.isnan(arrived)
    answered[unfinished] = state.clock[0]["now"]
    failure[unfinished] = FAILURES.index("unfinished")
    ran = ~np.isnan(started)
    device = state.device_of[state.signals["first_session"] + state.jobs["session"][jobs].reshape(shape)]
    own_s, share, nothing = work.service_s[:, :signals], work.occupancy[:, :signals], np.zeros(shape)
    variant = np.broadcast_to(np.arange(signals), shape)
    if not ran.all():
        own_s, share = np.where(ran, own_s, 0.0), np.where(ran, share, 0.0)
        device, variant = np.where(ran, device, -1), np.where(ran, variant, -1)
    return Records(
        node=node,
        work=work,
        arrived=arrived,
        entered=entered,
        router_started=router_started,
        router_ended=router_ended,
        answered=answered,
        failure=failure,
        retries=np.zeros(shape[0], dtype=np.int64),
        replica=state.requests["replica"][places].copy(),
        ready=ready,
        locked=locked,
        started=started,
        ended=ended,
        own_s=own_s,
        share=share,
        device=device,
        variant=variant,
        stalls=dict.fromkeys(STALLS, nothing),
        events=Events(lost=_lost(started, lost, device, own_s, share)),
    )


def _lost(started: Floats, lost: Floats, device: Ints, own_s: Floats, share: Floats) -> tuple[Lost, ...]:
    """Inferences that ran on after their request had failed, in order of their ends."""
    rows, signals = np.nonzero(~np.isnan(lost))
    order = np.argsort(lost[rows, signals], kind="stable")
    at = rows[order], signals[order]
    columns = (at[1], device[at], started[at], lost[at], share[at], share[at] * own_s[at])
    return tuple(Lost(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def load() -> None:
    """Have the machine code in this process: from the cache on disk, or compiled and kept there. Raises ImportError."""
    node = NodeSpec(1, ("a",), ((0,),), (1,), (None,), (), (0,), ("cpu",))
    one = np.ones((1, 1))
    work = Work(np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1), one.astype(bool), one, one)
    simulate(node, work, OpenLoop(np.zeros(1)), Streams(0, 0))
