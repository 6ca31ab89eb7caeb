from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibrate.artifacts import Artifact
from calibrate.concurrency import fit_occupancy, occupancy_of, plan, points_of
from calibrate.launch import WorkerLauncher
from calibrate.plan import cells_of
from calibrate.results import ConcurrencyRecord, Outcome, Visit
from tests.calibrate.tiny import tiny_file

ARTIFACT = Artifact("m", "fp32", "embedding", Path("/m.onnx"), "sha256:m", 1000, 10)
(CELL,) = cells_of([ARTIFACT], ["cpu"], [16], [1], threads=1)


@pytest.mark.parametrize("f", [0.125, 0.25, 0.5, 0.7, 1.0])
def test_the_sharing_law_gives_back_its_occupancy(f: float) -> None:
    """Slowdowns that follow max(1, W f) are explained by that f, with no residual."""
    value, residual = fit_occupancy({w: max(1.0, w * f) for w in (1, 2, 4, 8, 16)})
    assert value == pytest.approx(f)
    assert residual == pytest.approx(0, abs=1e-9)


def test_what_is_never_slowed_is_not_called_small() -> None:
    """When no width slowed anything, the largest occupancy that explains it is stated, not a smaller guess."""
    assert fit_occupancy({1: 1.0, 2: 1.0, 4: 1.0}) == (0.25, 0.0)


def test_a_law_that_does_not_hold_shows_in_the_residual() -> None:
    """Interference beyond sharing (four at once take eight times as long) leaves a residual that says so."""
    value, residual = fit_occupancy({1: 1.0, 2: 2.0, 4: 8.0})
    assert value == 1
    assert residual == pytest.approx(0.5)


def test_one_width_is_not_enough() -> None:
    """An occupancy is not made up from one width."""
    with pytest.raises(ValueError, match="two widths"):
        fit_occupancy({1: 1.0})


def _visits(times: dict[tuple[str, int], float]) -> list[Visit]:
    return [
        Visit(
            cell=CELL.key,
            role="concurrency",
            started="t",
            outcome=Outcome(
                status="done",
                records=(
                    ConcurrencyRecord.model_validate(
                        {"kind": "concurrency", "how": how, "width": w, "span_ns": 10**9, "ns": [int(s * 1e9)] * 5}
                    ),
                ),
                wall_s=1,
            ),
        )
        for (how, w), s in times.items()
    ]


def test_a_session_that_serialises_is_told() -> None:
    """Two sessions at full speed beside two threads on one session at half speed: the session is the queue."""
    visits = _visits({("sessions", 1): 0.01, ("sessions", 2): 0.01, ("threads", 2): 0.02})
    assert [(p.how, p.width, p.slowdown) for p in points_of(CELL, visits)] == [
        ("sessions", 1, pytest.approx(1)),
        ("sessions", 2, pytest.approx(1)),
        ("threads", 2, pytest.approx(2)),
    ]
    found = occupancy_of(CELL, visits)
    assert found is not None
    assert found.value == 0.5
    assert found.serialises == "on one session 2 at once took 2.00 times as long as on a session each"
    assert occupancy_of(CELL, visits[:1]) is None


def test_plan_of_widths() -> None:
    """One alone first, then each other width on sessions of their own and on one session."""
    assert plan([4, 2, 1]) == [("sessions", 1), ("sessions", 2), ("threads", 2), ("sessions", 4), ("threads", 4)]


@pytest.mark.parametrize("how", ["threads", "sessions"])
def test_several_at_once_for_real(tmp_path: Path, how: str) -> None:
    """Three at once in one worker: all three run through the time given, on one session or on three."""
    job: dict[str, Any] = {"op": "concurrency", "model": str(tiny_file(tmp_path)), "provider": "CPUExecutionProvider"}
    job |= {"threads": 1, "tokens": 16, "batch": 1, "max_id": 9, "seed": 1, "kind": how, "width": 3, "seconds": 0.5}
    outcome = WorkerLauncher()(job, 60)
    assert outcome.status == "done", outcome.reason
    record = outcome.records[0]
    assert isinstance(record, ConcurrencyRecord)
    assert (record.how, record.width) == (how, 3)
    assert sum(record.ns) == pytest.approx(3 * record.span_ns, rel=0.3)
