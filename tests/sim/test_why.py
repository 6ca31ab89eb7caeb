"""The bottleneck's name, from where the time went."""

from __future__ import annotations

from profiles import store
from scenarios import loader
from sim import replicate
from sim.result import TIME_PARTS, Interval
from sim.why import bottleneck_of, headroom


def at(value: float) -> Interval:
    return Interval(mean=value, lo=value, hi=value)


USED = {
    "router_cpu": at(0.2),
    "device:gpu": at(0.6),
    "lock:sequence": at(0.9),
    "lock:token": at(0.5),
    "session:pii": at(0.5),
}


def name(failures: dict[str, float] | None = None, *, shared: bool = False, **parts: float) -> str:
    all_parts = {part: at(parts.get(part, 0.0)) for part in TIME_PARTS}
    return bottleneck_of(USED, all_parts, {k: at(v) for k, v in (failures or {}).items()}, shared=shared)


def test_the_part_that_costs_most_names_the_kind_and_use_names_the_one() -> None:
    """Waiting for locks costs most: of the two lock domains it is the one in higher use."""
    assert name(device_own=1, lock=3, session_queue=1) == "lock:sequence"
    assert name(device_own=1, session_queue=3, lock=1) == "session:pii"
    assert name(device_own=1, router_queue=2) == "router_cpu"


def test_a_device_slowed_by_co_tenants_says_so() -> None:
    """Slowdown names the device, and the co-tenants where there are some."""
    assert name(device_own=1, device_slowdown=2) == "device:gpu"
    assert name(device_own=1, device_slowdown=2, shared=True) == "device:gpu (co-tenants)"


def test_stalls_are_causes_of_their_own() -> None:
    """Compile, memory and fallback are no resources with a use; they are named as they are."""
    for part in ("compile", "memory", "fallback"):
        assert name(device_own=1, lock=2, **{part: 30}) == part


def test_while_nothing_holds_requests_up_the_fullest_resource_is_named() -> None:
    """Lost time below a tenth of the latency: the resource that would fill first."""
    assert name(device_own=1, lock=0.05) == "lock:sequence"


def test_failures_come_before_waiting() -> None:
    """Requests that fail for want of memory wait for nothing, and memory is the reason."""
    assert name({"out_of_memory": 0.5}, device_own=1, lock=3) == "memory"
    assert name({"provider": 0.02}, lock=3) == "fallback"
    assert name({"crash": 0.001}, lock=3) == "lock:sequence"


def test_headroom_is_the_factor_until_a_resource_is_full() -> None:
    """Least first: 1/0.9 for the lock domain, 5 for the router CPU."""
    room = headroom(USED)
    assert next(iter(room)) == "lock:sequence"
    assert room["router_cpu"] == 5


def test_no_headroom_is_told_where_sessions_stalled() -> None:
    """Compiling keeps a lock busy as long at any load: use over load says nothing of where it is full. Warm, it does."""
    warm = [f"signals.{name}.compile.warmup_tokens=[512]" for name in ("intent", "jailbreak", "user-feedback")]
    for sets, told in (([], False), (warm, True)):
        scenario = loader.load("cold_start", ["load.rps=[5]", "measurement.duration_s=60", *sets])
        (point,) = replicate.run(scenario, store.load("mi300x-published"), 1)[0].points
        assert bool(point.headroom) == told
