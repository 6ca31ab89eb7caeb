"""`simcap capacity` answers in one line and a table of 80 columns, and turns wrong flags into one error each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
import typer
from typer.testing import CliRunner, Result

from profiles.errors import InputError
from scenarios import loader
from sim.search_result import CapacitySearch
from simcap.commands import capacity as command
from simcap.variants import values_of

QUICK = ("tiny.yaml", "--profile", "tiny.profile.json", "--precision", "0.2", "--slo", "p90=25ms")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command.capacity)
    return CliRunner().invoke(app, list(arguments), terminal_width=80)


def test_the_answer_is_a_sentence_a_table_and_the_origins_within_80_columns(here: Path) -> None:
    done = invoke(*QUICK)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert lines[0].startswith("capacity ")
    text = " ".join(done.output.split())
    for words in ("rps [", "(90 % within 25 ms)", "first to fill: lock:seq", "FAIL", "profile tiny: "):
        assert words in text


def test_json_is_a_document_of_the_schema_and_nothing_else(here: Path) -> None:
    done = invoke(*QUICK, "--json")
    answer = CapacitySearch.model_validate_json(done.stdout)
    assert answer.schema_version == "simcap.capacity/1"
    assert answer.outcome == "found"
    assert answer.capacity is not None
    assert answer.capacity.lo <= answer.capacity.mean <= answer.capacity.hi  # type: ignore[operator]
    assert answer.precision_reached is not None
    assert answer.precision_reached <= 0.2
    assert (answer.slo.latency_s, answer.slo.attainment) == (0.025, 0.9)
    assert [point.load for point in answer.points] == sorted(point.load for point in answer.points)
    assert sum(point.requests * point.replications for point in answer.points) <= answer.requests_simulated


def test_the_same_command_gives_the_same_bytes_and_another_seed_another_answer(here: Path) -> None:
    first, again, other = (invoke(*QUICK, "--json", "--seed", seed).stdout for seed in ("1", "1", "2"))
    assert first == again
    assert json.loads(first)["capacity"] != json.loads(other)["capacity"]


def test_unreachable_ends_with_code_4_and_says_why(here: Path) -> None:
    done = invoke(*QUICK[:-1], "p99=5ms")
    assert done.exit_code == 4
    assert done.output.startswith("unreachable: at nearly no load")
    assert "p99 is" in done.output


def test_used_up_effort_ends_with_code_4_and_names_the_flag(here: Path) -> None:
    done = invoke(*QUICK, "--max-effort", "30000")
    assert done.exit_code == 4
    assert done.output.startswith("indeterminate: ")
    assert "--max-effort" in done.output


def test_over_finds_the_first_value_that_keeps_the_slo(here: Path) -> None:
    lock_free = ("--set", "signals.intent.lock_domain=null", "--set", "node.cpu_workers=50")
    over = ("--over", "signals.intent.max_tokens=128,64", "--at", "100rps")
    done = invoke(*QUICK, *lock_free, *over, "--json")
    answer = CapacitySearch.model_validate_json(done.stdout)
    assert answer.over is not None
    assert answer.capacity is None
    verdicts = {tried.value: tried.point.verdict for tried in answer.over.tried}
    assert verdicts == {"128": "fail", "64": "pass"}
    assert answer.over.smallest == "64"
    assert "smallest signals.intent.max_tokens = 64" in answer.sentence


def test_over_without_a_value_that_will_do_is_unreachable(here: Path) -> None:
    done = invoke(*QUICK, "--over", "signals.intent.sessions=1..3", "--at", "900")
    assert done.exit_code == 4
    assert "no value of signals.intent.sessions keeps the SLO" in " ".join(done.output.split())


def test_out_writes_three_files_and_refuses_another_question_there(here: Path) -> None:
    done = invoke(*QUICK, "--out", "o")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (here / "o").iterdir()) == [
        "capacity.json",
        "manifest.json",
        "scenario.resolved.yaml",
    ]
    CapacitySearch.model_validate_json((here / "o" / "capacity.json").read_text())
    before = (here / "o" / "capacity.json").read_bytes()
    line = json.loads((here / "o" / "manifest.json").read_text())["command"]
    assert line.startswith("simcap capacity tiny.yaml --profile tiny.profile.json --seed 1 --set")
    assert invoke(*QUICK, "--out", "o").exit_code == 0
    assert (here / "o" / "capacity.json").read_bytes() == before
    refused = invoke(*QUICK, "--out", "o", "--seed", "2")
    assert isinstance(refused.exception, InputError)
    assert "holds another run" in str(refused.exception)


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("--slo", "p99"), ("--slo 'p99'", "p99=250ms")),
        (("--slo", "99=250ms"), ("--slo '99=250ms'", "p99=250ms")),
        (("--slo", "p99=250"), ("--slo 'p99=250'", "unit ms or s")),
        (("--slo", "p99=250us"), ("'p99=250us'", "unit ms or s")),
        (("--slo", "p100=250ms"), ("p100", "between p0 and p100")),
        (("--slo", "p0=250ms"), ("p0", "between p0 and p100")),
        (("--slo", "p99=0ms"), ("above 0",)),
        (("--slo", "p99=-5ms"), ("'p99=-5ms'",)),
        (("--slo", "p99=250ms", "--attainment", "0.95"), ("--attainment 0.95", "0.99")),
        (("--attainment", "1.5"), ("--attainment 1.5", "0.99")),
        (("--precision", "0"), ("--precision 0", "0.03")),
        (("--max-effort", "10"), ("--max-effort 10",)),
        (("--over", "signals.intent.sessions=1,2"), ("--at",)),
        (("--at", "40"), ("--over",)),
        (("--over", "signals.intent.sessions", "--at", "4"), ("key=value",)),
        (("--over", "signals.intent.sessions=1,,2", "--at", "4"), ("empty value",)),
        (("--over", "signals.intent.sessions=1,1", "--at", "4"), ("different",)),
        (("--over", "signals.intent.sessions=5..2", "--at", "4"), ("counts up",)),
        (("--over", "signals.intent.sesions=1,2", "--at", "4"), ("sessions",)),
        (("--over", "signals.intent.sessions=1,2", "--at", "4clients"), ("is rps", "4rps")),
        (("--over", "signals.intent.sessions=1,2", "--at", "fast"), ("--at 'fast'",)),
        (("--over", "signals.intent.sessions=1,2", "--at", "0"), ("above 0",)),
    ],
)
def test_a_wrong_flag_is_one_error_that_names_it_and_what_is_right(
    arguments: tuple[str, ...], messages: tuple[str, ...], here: Path
) -> None:
    done = invoke("tiny.yaml", "--profile", "tiny.profile.json", *arguments)
    assert isinstance(done.exception, InputError), done.output
    assert done.exception.exit_code == 2
    for message in messages:
        assert message in str(done.exception)


@pytest.mark.parametrize(
    ("slo", "attainment", "expected"),
    [
        ("p99=250ms", None, (250.0, 0.99)),
        ("p99.9=1.5s", None, (1500.0, 0.999)),
        ("p95=2s", 0.95, (2000.0, 0.95)),
        (None, 0.9, (100.0, 0.9)),
        (None, None, (100.0, 0.99)),
    ],
)
def test_slo_flags_go_before_the_scenario(
    slo: str | None, attainment: float | None, expected: tuple[float, float], here: Path
) -> None:
    scenario = loader.load("tiny.yaml", command.slo_overrides(slo, attainment))
    assert (scenario.slo.latency_ms, scenario.slo.attainment) == expected


def test_commas_inside_brackets_belong_to_the_value() -> None:
    assert values_of("a.b=[1, 2],[3]") == ("a.b", ["[1, 2]", "[3]"])
    assert values_of("a.b=2..4") == ("a.b", ["2", "3", "4"])
    assert values_of("a.b=wait,pad") == ("a.b", ["wait", "pad"])
