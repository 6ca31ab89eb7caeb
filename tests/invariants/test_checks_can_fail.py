"""Each check of an invariant names the break when the records are tampered with: none of them always holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sim.node import MemorySpec, NodeSpec, VariantSpec
from sim.records import Records
from simcap.validate.invariants import FULL, PLAIN
from simcap.validate.random_nodes import Case
from tests.support.small_nodes import spec, work


def crowded(**changes: object) -> Case:
    """Six requests at once on two signals that share a lock and a device, 1 s an inference."""
    node: NodeSpec = replace(spec(((0, 1),), locks=(0, 0), cpu_workers=1), **changes)
    return Case(node, work(6, node, occupancy=0.8, router=0.1), np.zeros(6), seed=1)


def changed(records: Records, name: str, by: Callable[[np.ndarray], np.ndarray]) -> Records:
    return replace(records, **{name: by(getattr(records, name).copy())})


def set_at(index: object, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def put(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return put


BREAKS: dict[int, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    1: ("answered", set_at(2, np.inf)),
    2: ("answered", lambda a: a - 1.0),
    3: ("started", np.zeros_like),
    4: ("ended", lambda a: a + 0.5),
    5: ("ended", lambda a: a * 1.5),
    6: ("locked", lambda a: a + 0.01),
    9: ("ended", lambda a: a * 3.0),
}


@pytest.mark.parametrize("number", list(BREAKS))
def test_a_changed_time_is_a_break(number: int) -> None:
    """Lost requests, answers too early, idle locks, time that nobody worked: each is named."""
    case = crowded()
    records = case.run()
    check = {**FULL, **PLAIN}[number]
    assert not list(check(case, records))
    assert list(check(case, changed(records, *BREAKS[number])))


def test_another_result_of_the_same_seed_is_a_break() -> None:
    """7: records that the seed does not give again are found."""
    case = crowded()
    records = case.run()
    assert not list(FULL[7](case, records))
    assert list(FULL[7](case, changed(records, "answered", lambda a: a + 1e-12 + a * 1e-15)))


def test_memory_above_the_device_is_a_break() -> None:
    """8: more bytes in use than the device has are found."""
    case = crowded(memory=MemorySpec(10.0, None, False, False, "fail", 0.9, ((0.0, 0.0),)))
    records = case.run()
    over = replace(records, events=replace(records.events, memory=((0.0, 0, 0, 11.0),)))
    assert not list(FULL[8](case, records))
    assert list(FULL[8](case, over))


def test_a_job_on_a_provider_that_is_not_there_is_a_break() -> None:
    """10: a variant that is not available ran something."""
    case = crowded()
    records = case.run()
    assert not list(FULL[10](case, records))
    gone = tuple(VariantSpec(s, "cpu", "a", available=s != 1) for s in range(2))
    assert list(FULL[10](replace(case, node=replace(case.node, variants=gone)), records))
