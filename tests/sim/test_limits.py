"""Refusals, timeouts, retries and queue limits, with times known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.node import LimitSpec, NodeSpec, VariantSpec
from sim.records import Records
from sim.tracks import FAILURES
from tests.support.small_nodes import run, spec, work


def reasons(records: Records) -> list[str]:
    return [FAILURES[k] for k in records.failure.tolist()]


def limited(node: NodeSpec, **limits: object) -> NodeSpec:
    return replace(node, limits=LimitSpec(**limits))  # type: ignore[arg-type]  # field by name


def test_more_than_max_in_flight_are_refused_on_arrival() -> None:
    """Two may be inside; the third is refused at once, the fourth comes after one has left."""
    node = limited(spec(), max_in_flight=2)
    records = run(node, work(4, node), [0, 0, 0, 1.5])
    assert reasons(records) == ["none", "none", "refused", "none"]
    assert records.answered.tolist() == [1, 2, 0, 3]


def test_a_request_fails_at_its_deadline_and_frees_its_place_in_line() -> None:
    """Behind an inference of 3 s the second gives up at 1.5 s; the third, come at 2, runs in its place at 3."""
    node = limited(spec(), timeout_s=1.5)
    brought = work(3, node)
    brought.service_s[0, 0] = 3.0
    brought.service_s[2, 0] = 0.1
    records = run(node, brought, [0, 0, 2.0])
    assert reasons(records) == ["timeout", "timeout", "none"]
    assert records.answered.tolist() == [1.5, 1.5, 3.1]


def test_an_inference_of_a_timed_out_request_still_runs_to_its_end() -> None:
    """What is on the device cannot be called back: the session is busy until the dead inference ends."""
    node = limited(spec(), timeout_s=1.5)
    brought = work(2, node)
    brought.service_s[0, 0] = 3.0
    brought.service_s[1, 0] = 0.2
    records = run(node, brought, [0, 2.0])
    assert reasons(records) == ["timeout", "none"]
    assert records.answered.tolist() == [1.5, 3.2]
    assert records.events.lost == ((0, 0, 0.0, 3.0, 0.1, 0.1 * 3.0),)


def test_thousands_of_dead_tickets_are_passed_over_without_recursion() -> None:
    """A queue of timed-out requests is skipped in a loop when the session comes free."""
    node = limited(spec(), timeout_s=1.0)
    brought = work(5001, node)
    brought.service_s[0, 0] = 10.0
    records = run(node, brought, [0.0] * 5001)
    assert reasons(records).count("timeout") == 5001
    late = work(5002, node)
    late.service_s[0, 0] = 10.0
    late.service_s[5001, 0] = 0.5
    records = run(node, late, [0.0] * 5001 + [9.8])
    assert records.answered[5001] == 10.5


def test_a_queue_limit_counts_only_the_living() -> None:
    """One may wait; the third is refused; after the waiting one has timed out there is room again."""
    node = replace(limited(spec(), timeout_s=2.0), queue_limit=(1,))
    brought = work(4, node)
    brought.service_s[0, 0] = 5.0
    brought.service_s[3, 0] = 0.5
    records = run(node, brought, [0, 0, 0, 3.6])
    assert reasons(records) == ["timeout", "timeout", "queue_full", "none"]
    assert records.answered.tolist() == [2.0, 2.0, 0.0, 5.5]


def test_a_refused_request_is_sent_again_after_a_pause() -> None:
    """One inside at a time, a pause of 0.6: refused at 0 and 0.6, in at 1.2, answered at 2.2, two retries."""
    node = limited(spec(), max_in_flight=1, retries=3, backoff_s=0.6)
    records = run(node, work(2, node), [0, 0])
    np.testing.assert_allclose(records.answered, [1.0, 2.2])
    assert records.retries.tolist() == [0, 2]
    np.testing.assert_allclose(records.entered, [0, 1.2])


def test_retries_end_and_then_the_request_has_failed() -> None:
    """After its last attempt a request has failed, for the reason of that attempt."""
    node = limited(spec(), max_in_flight=1, retries=2, backoff_s=0.1)
    records = run(node, work(2, node), [0, 0])
    assert reasons(records) == ["none", "refused"]
    np.testing.assert_allclose(records.answered, [1.0, 0.2])


def providers(node: NodeSpec, *second: VariantSpec) -> NodeSpec:
    first = tuple(VariantSpec(s, "migraphx", "a") for s in range(len(node.signals)))
    return replace(node, variants=first + second)


def with_variants(node: NodeSpec, requests: int, fails: list[list[bool]] | None = None, **kwargs: float):  # type: ignore[no-untyped-def]
    plain = work(requests, node, **kwargs)  # type: ignore[arg-type]
    shape = (requests, node.variant_count)
    return replace(
        plain,
        service_s=np.ones(shape),
        occupancy=np.full(shape, 0.1),
        processed=np.full((requests, len(node.signals)), 512),
        fails=None if fails is None else np.array(fails),
    )


def test_an_unavailable_provider_is_passed_over_and_the_reason_counted() -> None:
    """The first provider is not there: all run on the second, and each step down is on record."""
    node = providers(spec(), VariantSpec(0, "rocm", "b"))
    node = replace(node, variants=(replace(node.variants[0], available=False), node.variants[1]))
    records = run(node, with_variants(node, 2), [0, 0])
    assert records.variant[:, 0].tolist() == [1, 1]
    assert records.events.steps_down == {(0, "not_available"): 2}
    assert records.answered.tolist() == [1, 2]


def test_a_failed_inference_costs_its_time_and_then_falls_back() -> None:
    """It fails when it would have ended, then runs on the second provider: 2 s in all, 1 s of it fallback."""
    node = providers(spec(), VariantSpec(0, "rocm", "b"))
    records = run(node, with_variants(node, 1, [[True, False]]), [0])
    assert records.answered.tolist() == [2]
    assert records.variant[0, 0] == 1
    assert records.stalls["fallback"][0, 0] == 1
    assert records.events.lost == ((0, 0, 0.0, 1.0, 0.1, 0.1),)


def test_a_lock_is_held_through_the_fallback() -> None:
    """The lock domain stays with the request that falls back; the other waits for both its inferences."""
    node = providers(spec([[0]], locks=[0]), VariantSpec(0, "rocm", "b"))
    records = run(node, with_variants(node, 2, [[True, False], [False, False]]), [0, 0])
    assert records.answered.tolist() == [2, 3]


def test_when_every_provider_fails_the_request_fails_or_goes_on_without() -> None:
    """`fail`: the request fails when the last provider has; `answer_without`: the stage goes on without the signal."""
    node = spec([[0, 1]])
    records = run(providers(node), with_variants(providers(node), 1, [[True, False]]), [0])
    assert reasons(records) == ["provider"]
    assert records.answered.tolist() == [1]
    brave = replace(providers(node), limits=LimitSpec(answer_without_signal=True))
    records = run(brave, with_variants(brave, 1, [[True, False]]), [0])
    assert reasons(records) == ["none"]
    assert np.isnan(records.ended[0, 0])
    assert records.answered.tolist() == [1]
