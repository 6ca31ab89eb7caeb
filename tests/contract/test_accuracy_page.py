"""The dated page on accuracy says what the records beside it say."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiles.document import load_json
from simcap.validate.record import Validation
from tools.accuracy_live import page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation"
PAGES = sorted(FOLDER.glob("accuracy-live-*.md"))


def test_there_is_a_page() -> None:
    """The claim of the product stands on at least one dated measurement."""
    assert PAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_figure_is_computed_from_the_records(path: Path) -> None:
    """The page is what tools/accuracy_live.py makes of its records, byte for byte."""
    files = sorted(FOLDER.glob(f"{path.stem}-*.validation.json"))
    records = [load_json(file, Validation) for file in files]
    assert path.read_text(encoding="utf-8") == page(records, [file.name for file in files])
