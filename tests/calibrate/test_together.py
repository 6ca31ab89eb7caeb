from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibrate.artifacts import Artifact, parse_own
from calibrate.launch import WorkerLauncher
from calibrate.plan import cells_of
from calibrate.request import carry_out
from calibrate.results import Outcome, Visit
from calibrate.run import Rules
from calibrate.together import groups_of, interference_of, names_of
from tests.calibrate.requests import request_for
from tests.calibrate.tiny import tiny_file

ARTIFACTS = [
    Artifact(name, "fp32", "embedding", Path(f"/{name}.onnx"), f"sha256:{name}", 1000, 10) for name in ("a", "b", "c")
]
CELLS = cells_of(ARTIFACTS, ["cpu", "openvino"], [16, 64], [1], threads=1)


def test_which_models_run_together() -> None:
    """Every pair of different models of one provider at their longest text, and all three; never two providers."""
    groups = groups_of(CELLS)
    assert [names_of(g) for g in groups if g[0].provider == "cpu"] == [
        ("a fp32", "b fp32"),
        ("a fp32", "c fp32"),
        ("b fp32", "c fp32"),
        ("a fp32", "b fp32", "c fp32"),
    ]
    assert len(groups) == 8
    assert all(len({c.provider for c in g}) == 1 and {c.tokens for c in g} == {64} for g in groups)
    assert groups_of(cells_of(ARTIFACTS[:1], ["cpu"], [16], [1], threads=1)) == []


def _visit(cell: Any, role: Any, record: dict[str, Any]) -> Visit:
    outcome = Outcome.model_validate({"status": "done", "records": (record,), "wall_s": 1})
    return Visit(cell=cell.key, role=role, started="t", outcome=outcome)


def _alone(cell: Any, slowed: float) -> list[Visit]:
    """10 ms alone; two at once take `slowed` times as long."""
    base = {"kind": "concurrency", "how": "sessions", "span_ns": 10**9}
    return [
        _visit(cell, "concurrency", {**base, "width": 1, "ns": [10_000_000] * 5}),
        _visit(cell, "concurrency", {**base, "width": 2, "ns": [int(10_000_000 * slowed)] * 5}),
    ]


@pytest.mark.parametrize(("took_ms", "residual"), [((12.0, 12.0), 0.0), ((18.0, 12.0), 0.5), ((10.0, 10.0), 1 / 6)])
def test_the_residual_is_what_the_law_errs_by(took_ms: tuple[float, float], residual: float) -> None:
    """Occupancies 0.6 each expect 1.2 times as long; more or less than that is the residual."""
    a, b = (c for c in CELLS if c.provider == "cpu" and c.tokens == 64 and c.model in {"a", "b"})
    record = {
        "kind": "together",
        "names": ("a fp32", "b fp32"),
        "tokens": (64, 64),
        "span_ns": 10**9,
        "ns": [[int(ms * 1e6)] * 5 for ms in took_ms],
    }
    visits = [*_alone(a, 1.2), *_alone(b, 1.2), _visit(a, "together", record)]
    (found,) = interference_of([a, b], visits)
    assert found.expected == pytest.approx(1.2)
    assert [m.slowdown for m in found.members] == pytest.approx([ms / 10 for ms in took_ms])
    assert found.residual == pytest.approx(residual)
    assert interference_of([a, b], visits[:-1]) == []
    assert interference_of([a, b], visits[1:]) == []


def test_two_models_together_for_real(tmp_path: Path) -> None:
    """With --concurrency two different models run beside each other; the profile has both slowdowns, and each
    occupancy's doubt states by how much the law errs beside another model."""
    own = [parse_own(f"intent={tiny_file(tmp_path)}"), parse_own(f"pii={tiny_file(tmp_path, 'pii')}")]
    request = request_for(tmp_path, own=own, tokens=[32], widths=[2], rules=Rules(0.5, loads=2, at_least=6))
    profile = carry_out(request, WorkerLauncher, lambda _: None).profile
    assert profile.interference is not None
    (found,) = profile.interference
    assert [(m.model, m.tokens) for m in found.members] == [("intent", 32), ("pii", 32)]
    assert all(m.n > 10 and m.slowdown > 0.5 for m in found.members)
    for entry in profile.entries:
        assert f"beside other models the law errs by up to {found.residual:.1%}" in (entry.occupancy[0].doubt or "")
