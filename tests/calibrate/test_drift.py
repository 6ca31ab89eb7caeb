from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrate.drift import compare, parse_gates, rejected
from calibrate.journal import Journal
from calibrate.results import Outcome, Visit
from profiles.entry import Task
from profiles.errors import InputError

TEXTS = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)


def test_equal_outputs_have_no_drift() -> None:
    """The same outputs differ by nothing, point the same way and agree in every label."""
    embedding = compare(TEXTS, TEXTS, "embedding", "ref")
    assert (embedding.max_abs, embedding.mean_abs, embedding.non_finite, embedding.inputs) == (0, 0, 0, 16)
    assert embedding.cosine == pytest.approx(1)
    assert embedding.label_agreement is None
    labels = compare(TEXTS, TEXTS, "sequence_classification", "ref")
    assert (labels.label_agreement, labels.cosine) == (1, None)


def test_differences_are_what_they_are() -> None:
    """One output moved by 4 gives the largest difference 4 and the mean of 4 over all."""
    moved = TEXTS.copy()
    moved[3, 2] += 4
    record = compare(moved, TEXTS, "embedding", "ref")
    assert record.max_abs == pytest.approx(4)
    assert record.mean_abs == pytest.approx(4 / TEXTS.size)


def test_cosine_is_that_of_the_worst_text() -> None:
    """One text turned round in sixteen gives cosine -1, not an average that looks fine."""
    turned = TEXTS.copy()
    turned[5] *= -1
    assert compare(turned, TEXTS, "embedding", "ref").cosine == pytest.approx(-1)


def test_labels_are_counted_by_token() -> None:
    """One token of 4 texts of 5 tokens with another label is an agreement of 19/20."""
    scores = np.random.default_rng(2).standard_normal((4, 5, 3)).astype(np.float32)
    other = scores.copy()
    other[1, 2] = np.roll(other[1, 2], 1)
    assert compare(other, scores, "token_classification", "ref").label_agreement == pytest.approx(19 / 20)


def test_outputs_that_are_not_finite_are_rejected() -> None:
    """A NaN where the reference has a number is counted, agrees with no label, and rejects whatever the gates."""
    broken = TEXTS.copy()
    broken[0, :] = np.nan
    record = compare(broken, TEXTS, "sequence_classification", "ref")
    assert (record.non_finite, record.label_agreement) == (8, 15 / 16)
    assert "8 outputs are not finite" in (rejected(record, "sequence_classification", {}) or "")


def test_gates() -> None:
    """An embedding below its gate is rejected with both numbers; at the gate, or for another task, it passes."""
    record = compare(TEXTS, TEXTS, "embedding", "ref").model_copy(update={"cosine": 0.82})
    assert "0.8200 with ref is below the gate embedding-cosine=0.83" in (
        rejected(record, "embedding", parse_gates([])) or ""
    )
    assert rejected(record, "embedding", parse_gates(["embedding-cosine=0.8"])) is None
    assert rejected(record, "reranking", parse_gates([])) is None


def test_other_shapes_are_no_comparison() -> None:
    """Outputs of another shape cannot be compared, and that is said."""
    with pytest.raises(ValueError, match="shape"):
        compare(TEXTS[:, :4], TEXTS, "embedding", "ref")


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("cosine=0.8", "no gate 'cosine'"),
        ("embedding-cosine=x", "expected a number"),
        ("embedding-cosine=7", "at most 1"),
    ],
)
def test_wrong_gates(argument: str, words: str) -> None:
    """A gate that does not exist or has no sensible value is refused."""
    with pytest.raises(InputError, match=words):
        parse_gates([argument])


def test_gate_names_keep_the_default_of_others() -> None:
    """Setting one gate leaves the embedding's default in force."""
    gates: dict[str, Any] = parse_gates(["token-agreement=0.9"])
    assert gates == {"embedding-cosine": 0.83, "token-agreement": 0.9}


@pytest.mark.parametrize("task", ["embedding", "sequence_classification", "reranking"])
def test_a_comparison_survives_its_journal(task: Task, tmp_path: Path) -> None:
    """A run that was killed after a comparison resumes: what the task does not have is left out of the line and not missed."""
    outcome = Outcome(status="done", records=(compare(TEXTS, TEXTS, task, "ref"),), wall_s=1)
    visit = Visit(cell="c", role="drift", started="now", outcome=outcome)
    Journal(tmp_path / "p.json", {}).add(visit)
    assert Journal(tmp_path / "p.json", {}).visits == [visit]
