"""The shipped scenario on the shipped profile gives back the published experiment, through the simulator."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from profiles import store
from profiles.errors import InputError
from scenarios import loader
from sim import replicate
from simcap import cli
from simcap.validate import contradictions, published, published_rows, record

TABLE = Path(str(store.SHIPPED)) / "mi300x_published.csv"
EXPERIMENT = "vsr-paper-fa-concurrency"
OUTLIER = (4096, 10, "p95")


def published_cells() -> dict[tuple[int, int, str], float]:
    """Cells of the concurrency table in seconds: tokens, concurrency, p50 or p95."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["source_key"] == EXPERIMENT]
    return {
        (int(r["tokens"]), int(r["concurrency"]), r["metric"].split("_")[1]): float(r["value"]) / 1000 for r in rows
    }


@pytest.fixture(scope="module")
def cells() -> list[published.Cell]:
    """Every comparable published figure beside the simulated one."""
    return published.compare(published_rows.shipped(), store.load("mi300x-published"), 1)[0]


@pytest.fixture(scope="module")
def errors(cells: list[published.Cell]) -> dict[tuple[int, int, str], float]:
    """Relative error of the simulated figure in every cell of the concurrency experiment."""
    mine = [cell for cell in cells if cell.row.experiment == EXPERIMENT]
    return {(cell.row.tokens, cell.row.concurrency, cell.row.figure): cell.error for cell in mine}


def test_every_published_cell_is_simulated(errors: dict[tuple[int, int, str], float]) -> None:
    """Seven lengths, two concurrencies, two percentiles: none is left out of the comparison."""
    assert errors.keys() == published_cells().keys()
    assert len(errors) == 28


@pytest.mark.parametrize("concurrency", [1, 10])
def test_the_mean_error_keeps_the_bound(errors: dict[tuple[int, int, str], float], concurrency: int) -> None:
    """Medians and p95 at each concurrency are within 8 % on average, the known outlier aside."""
    at = [abs(e) for key, e in errors.items() if key[1] == concurrency and key != OUTLIER]
    assert np.mean(at) <= 0.08


def test_cells_that_were_not_fitted_keep_it_too(errors: dict[tuple[int, int, str], float]) -> None:
    """The p95 cells at concurrency 10 were not used in the fit and are within 8 % on average as well."""
    at = [abs(e) for key, e in errors.items() if key[1:] == (10, "p95") and key != OUTLIER]
    assert len(at) == 6
    assert np.mean(at) <= 0.08


def test_it_is_the_lock_that_does_it() -> None:
    """Without any lock domain a burst of ten is answered sooner: the growth comes from the mechanism, not from a table."""
    profile = store.load("mi300x-published")
    free = [f"signals.{name}.lock_domain=null" for name in ("intent", "jailbreak", "pii")]

    def p95(overrides: list[str]) -> float:
        scenario = loader.load("published_fa_concurrency", [*overrides, "load.burst_size=[10]"])
        mean = replicate.run(scenario, profile, 1)[0].points[0].latency_s["p95"].mean
        assert mean is not None
        return mean

    assert p95(free) < 0.9 * p95([])


def test_the_shipped_record_is_of_the_shipped_profile(cells: list[published.Cell]) -> None:
    """The validation beside the profile is of its very bytes and says what the command says today."""
    path = store.locate("mi300x-published")
    beside = record.beside_profile(path, "published")
    told = record.Validation.model_validate_json(beside.read_text(encoding="utf-8"))
    made = published.validation(cells, [], store.load("mi300x-published"), path, told.command)
    remake = f"run: simcap validate published --out {beside.relative_to(Path.cwd())}"
    assert told.profile == made.profile, remake
    assert told.summary == made.summary, remake
    assert [(row.where, row.figure, row.remark) for row in told.rows] == [
        (row.where, row.figure, row.remark) for row in made.rows
    ], remake
    assert [row.error for row in told.rows] == pytest.approx([row.error for row in made.rows], abs=1e-9), remake
    assert told.verdict == "pass"


def test_roles_are_named_and_the_outlier_is_shown(cells: list[published.Cell]) -> None:
    """What was fitted, solved or is an outlier says so, is not counted, and stands in the table all the same."""
    by_role = {role: [cell for cell in cells if cell.row.role == role] for role in published.REMARKS}
    outliers = [(c.row.tokens, c.row.concurrency, c.row.figure) for c in by_role["outlier"]]
    assert outliers == [OUTLIER]
    assert len(by_role["solved"]) == len([c for c in by_role["fitted"] if c.row.experiment == EXPERIMENT]) == 7
    assert all(not cell.counted for role in by_role if role != "check" for cell in by_role[role])
    assert sum(cell.counted for cell in by_role["check"]) == 13


def test_the_sources_contradict_one_another_in_ten_places() -> None:
    """Each contradiction names two values or more, with their sources; another profile has none of them."""
    told = contradictions.of("mi300x-published")
    assert len(told) == 10
    assert all(len(one.values) >= 2 for one in told)
    assert contradictions.of("another") == ()


def given(path: Path, factor: float, concurrency: int = 4) -> Path:
    """A user's table: what the simulator says at a concurrency that ships nowhere, times a factor."""
    rows = [
        published_rows.PublishedRow("x", "rocm", "m", "ck_fa_fp16", t, concurrency, 3, "p95", 1.0, "given", "")
        for t in (512, 8192)
    ]
    cells = published.compare(rows, store.load("mi300x-published"), 1)[0]
    lines = ["provider,artifact,tokens,concurrency,models,metric,value"]
    for cell in cells:
        assert cell.simulated.mean is not None
        value = cell.simulated.mean * 1000 * factor
        lines.append(f"ROCMExecutionProvider,ck_fa_fp16,{cell.row.tokens},{concurrency},3,latency_p95_ms,{value}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("factor", "code"), [(1.05, 0), (1.2, 4)])
def test_other_concurrencies_can_be_given(
    factor: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user's own cells are all counted: 5 % off passes the bar of 8 %, 17 % off ends with 4."""
    table, out = given(tmp_path / "mine.csv", factor), tmp_path / "record.json"
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "published", "--data", str(table), "--out", str(out), "--json"])
    assert ended.value.code == code
    told = json.loads(capsys.readouterr().out)
    assert [row["error"] for row in told["rows"]] == pytest.approx([1 / factor - 1] * 2)
    assert "concurrency 4" in told["summary"]
    assert told == json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("metric", "metrik"), r"mine.csv: column 'metric' is missing"),
        (("models,", "models,wat,"), r"column 'wat' is not one of the table"),
        (
            ("latency_p95_ms", "latency_p96_ms"),
            r"mine.csv:2: metric is 'latency_p96_ms'; did you mean 'latency_p9",
        ),
        ((",4,3,", ",four,3,"), r"mine.csv:2: concurrency is 'four', expected a whole number"),
        ((",4,3,", ",4,2,"), r"mine.csv:2: models is 2; 1 \(one session\) or 3"),
        (("ROCMEx", "RocEx"), r"mine.csv:2: provider is 'RocExecutionProvider'; did you mean 'ROCMExecutionProvider'"),
        ((",8192,4,", ",1048576,4,"), r"1048576 tokens, concurrency 4: cannot be simulated"),
        (("_ms,", "_ms,-"), r"mine.csv:2: value is '-[0-9.]+', expected a number above 0"),
    ],
)
def test_a_wrong_table_is_refused_by_line_and_value(change: tuple[str, str], says: str, tmp_path: Path) -> None:
    """Wrong columns, metrics, counts and providers are named with what would be right."""
    table = given(tmp_path / "mine.csv", 1.0)
    table.write_text(table.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    with pytest.raises(InputError, match=says):
        published.compare(published_rows.read(table), store.load("mi300x-published"), 1)
