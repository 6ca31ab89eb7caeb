"""The closed core of the node as one compiled event loop: the same steps as `sim.front`, `sim.pipeline`, `sim.station`
and `sim.device`, under the same names and in the same order, over arrays of records instead of objects.

Enters and leaves: a `Node` of arrays, changed in place until nothing is left to happen. Times in seconds; occupancies
are shares of a device. docs/decisions/0010 says why this second description exists and how tests hold it to the first,
bit for bit. All that is compiled stands in this one file, because Numba's cache on disk follows changes of a function's
own file only; and in few arrays, because each one that a function takes costs every call and the compiler time.

Two events at one instant happen in the order in which they were scheduled, as in SimPy: an event has a number. Queues
are chains through the records of those that wait (`after`), since a request or job waits in one queue at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
Record = Any  # one element of such an array; assigning to its fields writes to the array

BRING, ROUTER_DONE, WAKE, DEADLINE = range(4)  # what an event does
OPEN, CLOSED, BURSTS = range(3)  # arrival processes
DONE, ROOM, PAGE = range(3)  # why the loop stops: nothing is left, `events` is too small, the next requests are wanted
IN_TURN, LEAST_REQUESTS, LEAST_SECONDS, DRAWN, FIXED = range(5)  # how a replica is picked
REFUSED, TIMEOUT = 1, 3  # positions in sim.tracks.FAILURES (a test compares them)
NOBODY = -1
ARRIVED, ENTERED, ROUTER_STARTED, ROUTER_ENDED, ANSWERED = range(5)  # rows of Node.request_steps
READY, LOCKED, STARTED, ENDED, LOST = range(5)  # rows of Node.job_steps


def _record(floats: str, integers: str) -> np.dtype[Any]:
    return np.dtype([(name, "f8") for name in floats.split()] + [(name, "i8") for name in integers.split()])


GIVEN = _record(
    "timeout_s gap_s",  # infinity: no time-out
    "requests first last more signals replicas devices sessions stages locks balancer most_inside process size bursts most_scheduled",
)
CLOCK = _record("now", "events scheduled asked arrived unanswered turn wanting")
EVENT = _record("time", "number step about")
REQUEST = _record("time router_s weight", "pick failure replica stage unjoined after")
JOB = _record("", "request signal session after")
SIGNAL = _record("", "lock first_session")
QUEUE = _record("", "free head tail")
DEVICE = _record("filled left virtual updated alarm", "running started first")
RUNNING = _record("end share", "number job")
INSIDE = _record("seconds", "requests")

# Nothing in here makes an array, so none needs counting: without `_nrt` a run takes a third of the time. What happens at
# every event is put into its caller, since handing over a `Node` costs more than most steps do; what is rare is called,
# which spares the compiler a copy of it at each place.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_njit: Any = njit  # its types know no `_nrt`


def rare(function: Callable[..., Any], **more: bool) -> Callable[..., Any]:
    """Compile, and keep the machine code on disk where Numba finds a place that can be written to."""
    try:
        kept: Callable[..., Any] = _njit(cache=True, **_OPTIONS, **more)(function)
    except RuntimeError:
        kept = _njit(**_OPTIONS, **more)(function)
    return kept


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return rare(function, forceinline=True)


class Node(NamedTuple):
    """Sizes in `given`: n requests, S signals, R replicas, D devices, L lock domains, Q sessions of one replica.
    In an open loop the requests in places `first` to `last` arrive now; `more`: others will come after them.

    events: a heap. requests: (n,), `time` is when it arrives or, in a closed loop, for how long the client thinks before
    the n-th request; `pick` a draw for the balancer, or the replica where that depends on the request alone. jobs:
    (n * S,). request_steps: (5, n), job_steps: (5, n * S) times, NaN until then; of a job whose request has failed the end
    is in the row LOST. service_s, occupancy: (n, V) with V >= S, needed: (n, S), of `sim.work`. stages: (stages + 1,) places in `staged`, which names signals. cpu: (R,). lock: (R * L,). session: (R * S,)
    queues; the free ones of them are in `free`, (R * Q,), as a stack. device_of: (Q,). device: (R * D,). running: (R * Q,)
    a heap for each device, from `first` on.
    """

    given: Array
    clock: Array
    events: Array
    requests: Array
    jobs: Array
    request_steps: Array
    job_steps: Array
    service_s: Array
    occupancy: Array
    needed: Array
    signals: Array
    stages: Array
    staged: Array
    cpu: Array
    lock: Array
    session: Array
    free: Array
    device_of: Array
    device: Array
    running: Array
    inside: Array


@rare
def run(node: Node) -> int:
    """Go on until nothing is left to happen (DONE), or something is needed before the next call.

    ROOM: a larger `node.events`. PAGE: the next requests, from `given.first` to `given.last`.
    """
    clock = node.clock[0]
    if clock.scheduled == 0:
        start_arrivals(node)
    if clock.wanting > 0:
        clock.wanting = 0
        bring_later(node, node.given[0].first)
    while clock.events > 0:
        if clock.events + node.given[0].most_scheduled > node.events.size:
            return ROOM
        event = node.events[0]
        clock.now = event.time
        step, about = event.step, event.about
        remove_first(node)
        if step == WAKE:
            wake(node, about)
        elif step == ROUTER_DONE:
            router_done(node, about)
        elif step == BRING:
            bring(node, about)
            if clock.wanting > 0:
                return PAGE
        else:
            deadline(node, about)
    return DONE


@rare
def mark_those_under_way(node: Node, marks: Array) -> None:
    """Mark the requests that an event, a queue or a device still refers to, failed ones among them."""
    for k in range(node.clock[0].events):
        event = node.events[k]
        if event.step == ROUTER_DONE or event.step == DEADLINE:
            marks[event.about] = True
    for k in range(node.cpu.size):
        i = node.cpu[k].head
        while i != NOBODY:
            marks[i] = True
            i = node.requests[i].after
    mark_jobs(node, node.lock, marks)
    mark_jobs(node, node.session, marks)
    for d in range(node.device.size):
        device = node.device[d]
        for k in range(device.first, device.first + device.running):
            marks[node.jobs[node.running[k].job].request] = True


@rare
def mark_jobs(node: Node, queues: Array, marks: Array) -> None:
    for k in range(queues.size):
        number = queues[k].head
        while number != NOBODY:
            marks[node.jobs[number].request] = True
            number = node.jobs[number].after


# -- the heap of events --------------------------------------------------------------------------------------------------


@compiled
def call(node: Node, delay: float, step: int, about: int) -> None:
    """`sim.events.Call`: the step happens `delay` seconds from now."""
    clock, events = node.clock[0], node.events
    time = clock.now + delay
    place = clock.events
    while place > 0:
        parent = (place - 1) >> 1
        if events[parent].time <= time:  # at one instant the one scheduled before goes first
            break
        events[place] = events[parent]
        place = parent
    event = events[place]
    event.time, event.number, event.step, event.about = time, clock.scheduled, step, about
    clock.scheduled += 1
    clock.events += 1


@compiled
def remove_first(node: Node) -> None:
    clock, events = node.clock[0], node.events
    clock.events -= 1
    count = clock.events
    time, number = events[count].time, events[count].number
    place, child = 0, 1
    while child < count:
        if child + 1 < count and before(events[child + 1].time, events[child + 1].number, events[child]):
            child += 1
        if before(time, number, events[child]):
            break
        events[place] = events[child]
        place, child = child, 2 * child + 1
    events[place] = events[count]


@compiled
def before(time: float, number: int, event: Record) -> bool:
    return bool(time < event.time or (time == event.time and number < event.number))


# -- arrivals ------------------------------------------------------------------------------------------------------------


@rare
def start_arrivals(node: Node) -> None:
    given = node.given[0]
    if given.process == OPEN:
        if given.requests > 0:
            call(node, node.requests[0].time - node.clock[0].now, BRING, 0)
    elif given.process == CLOSED:
        for _ in range(given.size):
            think(node)
    else:
        call(node, 0.0, BRING, 0)


@rare
def bring(node: Node, about: int) -> None:
    given, clock = node.given[0], node.clock[0]
    first, last = about, about + 1
    if given.process == CLOSED:
        first, last = clock.arrived, clock.arrived + 1
        clock.arrived += 1
    elif given.process == BURSTS:
        first, last = about * given.size, (about + 1) * given.size
        clock.unanswered = given.size
    for i in range(first, last):
        arrive(node, i)
    if given.process == OPEN and last < given.last:
        bring_later(node, last)
    elif given.process == OPEN and given.more > 0:
        clock.wanting = 1


@compiled
def bring_later(node: Node, i: int) -> None:
    call(node, max(node.requests[i].time - node.clock[0].now, 0.0), BRING, i)


@compiled
def think(node: Node) -> None:
    clock = node.clock[0]
    if clock.asked < node.given[0].requests:
        call(node, node.requests[clock.asked].time, BRING, 0)
        clock.asked += 1


@rare
def answered(node: Node, i: int) -> None:
    given, clock = node.given[0], node.clock[0]
    if given.process == CLOSED:
        think(node)
    elif given.process == BURSTS:
        clock.unanswered -= 1
        if clock.unanswered == 0 and i // given.size + 1 < given.bursts:
            call(node, given.gap_s, BRING, i // given.size + 1)


# -- in front of the replicas --------------------------------------------------------------------------------------------


@compiled
def arrive(node: Node, i: int) -> None:
    given, request = node.given[0], node.requests[i]
    node.request_steps[ARRIVED, i] = node.clock[0].now
    if given.timeout_s < np.inf:
        call(node, given.timeout_s, DEADLINE, i)
    k = pick(node, request)
    inside = node.inside[k]
    if inside.requests >= given.most_inside:
        fail_outside(node, i, REFUSED)
        return
    inside.requests += 1
    inside.seconds += request.weight
    request.replica = k
    enter(node, i)


@compiled
def pick(node: Node, request: Record) -> int:
    """Ties go to the next in turn."""
    clock, count, balancer = node.clock[0], node.given[0].replicas, node.given[0].balancer
    chosen = clock.turn
    if balancer == DRAWN:
        chosen = (clock.turn + request.pick) % count
    elif balancer == FIXED:
        chosen = request.pick
    elif balancer != IN_TURN:
        for step in range(1, count):
            k = (clock.turn + step) % count
            one, best = node.inside[k], node.inside[chosen]
            if one.requests < best.requests if balancer == LEAST_REQUESTS else one.seconds < best.seconds:
                chosen = k
    clock.turn = (chosen + 1) % count
    return int(chosen)


@compiled
def leave(node: Node, request: Record) -> None:
    inside = node.inside[request.replica]
    inside.requests -= 1
    inside.seconds = inside.seconds - request.weight if inside.requests > 0 else 0.0


@compiled
def done(node: Node, i: int) -> None:
    leave(node, node.requests[i])
    node.request_steps[ANSWERED, i] = node.clock[0].now
    answered(node, i)


@compiled
def fail_outside(node: Node, i: int, reason: int) -> None:
    node.requests[i].failure = reason
    node.request_steps[ANSWERED, i] = node.clock[0].now
    answered(node, i)


@rare
def deadline(node: Node, i: int) -> None:
    if np.isnan(node.request_steps[ANSWERED, i]):
        leave(node, node.requests[i])
        fail_outside(node, i, TIMEOUT)


# -- stations ------------------------------------------------------------------------------------------------------------


@compiled
def wait(queue: Record, records: Array, member: int) -> None:
    """Stand at the end of the queue."""
    records[member].after = NOBODY
    if queue.head == NOBODY:
        queue.head = member
    else:
        records[queue.tail].after = member
    queue.tail = member


@compiled
def next_living(node: Node, queue: Record) -> int:
    """Take the first job in line whose request has not failed, or NOBODY."""
    while queue.head != NOBODY:
        number = queue.head
        job = node.jobs[number]
        queue.head = job.after
        if node.requests[job.request].failure == 0:
            return int(number)
    return NOBODY


@compiled
def release_cpu(node: Node, queue: Record) -> None:
    while queue.head != NOBODY:
        i = queue.head
        queue.head = node.requests[i].after
        if node.requests[i].failure == 0:
            router_work(node, i)
            return
    queue.free += 1


@compiled
def release_lock(node: Node, queue: Record) -> None:
    number = next_living(node, queue)
    if number == NOBODY:
        queue.free += 1
    else:
        locked(node, number)


@compiled
def acquire_session(node: Node, number: int) -> None:
    given, job = node.given[0], node.jobs[number]
    replica = node.requests[job.request].replica
    queue = node.session[replica * given.signals + job.signal]
    if queue.free > 0:
        queue.free -= 1
        first = replica * given.sessions + node.signals[job.signal].first_session
        seated(node, number, node.free[first + queue.free])
    else:
        wait(queue, node.jobs, number)


@compiled
def release_session(node: Node, replica: int, s: int, session: int) -> None:
    queue = node.session[replica * node.given[0].signals + s]
    number = next_living(node, queue)
    if number == NOBODY:
        node.free[replica * node.given[0].sessions + node.signals[s].first_session + queue.free] = session
        queue.free += 1
    else:
        seated(node, number, session)


# -- the request's walk --------------------------------------------------------------------------------------------------


@compiled
def enter(node: Node, i: int) -> None:
    request = node.requests[i]
    node.request_steps[ENTERED, i] = node.clock[0].now
    queue = node.cpu[request.replica]
    if queue.free > 0:
        queue.free -= 1
        router_work(node, i)
    else:
        wait(queue, node.requests, i)


@compiled
def router_work(node: Node, i: int) -> None:
    node.request_steps[ROUTER_STARTED, i] = node.clock[0].now
    call(node, node.requests[i].router_s, ROUTER_DONE, i)


@compiled
def router_done(node: Node, i: int) -> None:
    request = node.requests[i]
    release_cpu(node, node.cpu[request.replica])
    if request.failure == 0:
        node.request_steps[ROUTER_ENDED, i] = node.clock[0].now
        next_stage(node, i)


@compiled
def next_stage(node: Node, i: int) -> None:
    request = node.requests[i]
    while request.stage < node.given[0].stages:
        first, last = node.stages[request.stage], node.stages[request.stage + 1]
        request.stage += 1
        for place in range(first, last):
            if node.needed[i, node.staged[place]]:
                request.unjoined += 1
        if request.unjoined > 0:
            for place in range(first, last):
                if node.needed[i, node.staged[place]]:
                    ready(node, i, node.staged[place])
            return
    done(node, i)


@compiled
def ready(node: Node, i: int, s: int) -> None:
    number = i * node.given[0].signals + s
    node.jobs[number].request, node.jobs[number].signal = i, s
    node.job_steps[READY, number] = node.clock[0].now
    domain = node.signals[s].lock
    if domain == NOBODY:
        locked(node, number)
        return
    queue = node.lock[node.requests[i].replica * node.given[0].locks + domain]
    if queue.free > 0:
        queue.free -= 1
        locked(node, number)
    else:
        wait(queue, node.jobs, number)


@compiled
def locked(node: Node, number: int) -> None:
    node.job_steps[LOCKED, number] = node.clock[0].now
    acquire_session(node, number)


@compiled
def seated(node: Node, number: int, session: int) -> None:
    """The session is held and nothing stands between it and the device."""
    job = node.jobs[number]
    job.session = session
    node.job_steps[STARTED, number] = node.clock[0].now
    place = node.device_of[node.signals[job.signal].first_session + session]
    start(node, node.requests[job.request].replica * node.given[0].devices + place, number)


@compiled
def ended(node: Node, number: int) -> None:
    job = node.jobs[number]
    request = node.requests[job.request]
    node.job_steps[ENDED if request.failure == 0 else LOST, number] = node.clock[0].now
    release_session(node, request.replica, job.signal, job.session)
    domain = node.signals[job.signal].lock
    if domain != NOBODY:
        release_lock(node, node.lock[request.replica * node.given[0].locks + domain])
    if request.failure == 0:  # join
        request.unjoined -= 1
        if request.unjoined == 0:
            next_stage(node, job.request)


# -- the sharing law of a device -----------------------------------------------------------------------------------------


@compiled
def start(node: Node, at: int, number: int) -> None:
    device, job, running = node.device[at], node.jobs[number], node.running
    share = node.occupancy[job.request, job.signal]
    advance(node, device)
    device.started += 1
    end, place = device.virtual + node.service_s[job.request, job.signal], device.running
    while place > 0:
        parent = (place - 1) >> 1
        if running[device.first + parent].end <= end:  # equal ends: in order of starting
            break
        running[device.first + place] = running[device.first + parent]
        place = parent
    one = running[device.first + place]
    one.end, one.number, one.job, one.share = end, device.started, number, share
    device.running += 1
    device.filled += share
    set_alarm(node, at)


@compiled
def advance(node: Node, device: Record) -> None:
    now = node.clock[0].now
    passed = now - device.updated
    device.virtual += passed if device.filled <= device.left else passed * device.left / device.filled
    device.updated = now


@compiled
def set_alarm(node: Node, at: int) -> None:
    device = node.device[at]
    work = node.running[device.first].end - device.virtual
    delay = max(work if device.filled <= device.left else work * device.filled / device.left, 0.0)
    time = node.clock[0].now + delay
    if time < device.alarm:
        device.alarm = time
        call(node, delay, WAKE, at)


@compiled
def wake(node: Node, at: int) -> None:
    device, now = node.device[at], node.clock[0].now
    if now != device.alarm:
        return
    device.alarm = np.inf
    advance(node, device)
    first = node.running[device.first]
    end, number, share = first.end, first.job, first.share
    if end - device.virtual > 1e-12 * max(1.0, now):
        set_alarm(node, at)
        return
    end_first(node, device)
    device.virtual = max(device.virtual, end)
    device.filled = device.filled - share if device.running > 0 else 0.0
    if device.running > 0:
        set_alarm(node, at)
    ended(node, number)


@compiled
def end_first(node: Node, device: Record) -> None:
    """Take the job that ends first off the heap of those that run."""
    running, first = node.running, device.first
    device.running -= 1
    count = device.running
    end, number = running[first + count].end, running[first + count].number
    place, child = 0, 1
    while child < count:
        if child + 1 < count and ends_before(
            running[first + child + 1].end, running[first + child + 1].number, running[first + child]
        ):
            child += 1
        if ends_before(end, number, running[first + child]):
            break
        running[first + place] = running[first + child]
        place, child = child, 2 * child + 1
    running[first + place] = running[first + count]


@compiled
def ends_before(end: float, number: int, one: Record) -> bool:
    return bool(end < one.end or (end == one.end and number < one.number))
