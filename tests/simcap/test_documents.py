"""The two documents: every figure has an origin, ranks and orders follow the data, and refusing is clear."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import tiny

from profiles import store
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios import loader
from simcap import cli
from simcap.documents import folder, html
from simcap.documents.ledger import Ledger
from simcap.strategy import document, knowledge, ranking, trials
from simcap.strategy.model import Strategy
from tests.support.figures_in import unmarked

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SCENARIO = tiny.SCENARIO.replace("requests: 400", "requests: 200")


def entry(provider: str, median: float, **more: Any) -> dict[str, Any]:
    """The tiny entry on another provider, with this median at 64 tokens and three times it at 256."""
    made = copy.deepcopy(tiny.PROFILE["entries"][0])  # type: ignore[index]
    made["provider"] = {"name": provider}
    for cell, factor in zip(made["service"]["cells"], (1, 3), strict=True):
        cell["seconds"] = [factor * median * share for share in (0.8, 1.0, 1.3)]
    load = {"levels": [0.0, 0.5, 1.0], "seconds": [0.1, 0.2, 0.3], "n": 3}
    return made | {"load": load | {"origin": "measured", "spread_origin": "measured"}} | more


def profile(*entries: dict[str, Any]) -> Profile:
    return Profile.model_validate(tiny.PROFILE | {"entries": list(entries)})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trials, "LEAST_WINDOW_S", 3.0)  # cold starts here last a second
    return tmp_path


def found(known: Profile) -> Strategy:
    work = trials.work_out(loader.load("tiny.yaml"), known, 1, lambda _: None)
    return Strategy(profile=known.name, seed=1, workloads=(work,))


def test_the_recommended_order_follows_the_figures(here: Path) -> None:
    """Two providers whose service times are swapped are recommended in the swapped order, and ranked so."""
    for fast, slow in (("cpu", "openvino"), ("openvino", "cpu")):
        known = profile(entry(fast, 0.004), entry(slow, 0.008))
        assert found(known).workloads[0].recommended == (fast, slow)
        (table,) = ranking.tables(known)
        assert [(row.entry.provider.name, row.ranks["warm"]) for row in table.rows] == [(fast, 1), (slow, 2)]


def test_the_break_even_is_the_factor_between_two_providers(here: Path) -> None:
    """A provider of exactly half the service time stays ahead until it takes twice as long."""
    evens = found(profile(entry("cpu", 0.004), entry("openvino", 0.008))).workloads[0].break_evens
    slower = next(even for even in evens if even.kind == "slower")
    assert slower.other == "openvino"
    assert slower.value.mean == pytest.approx(2.0, rel=0.02)


def test_what_was_rejected_or_fell_back_is_not_recommended(here: Path) -> None:
    """The fastest entry is left out when a gate stopped its outputs, or when its provider did not run it."""
    drift = {"accuracy": {"reference": "fp32 on cpu", "inputs": 4, "rejected": "outputs are not finite"}}
    fell = {
        "ownership": {
            "asked": "openvino",
            "session_providers": ["CPUExecutionProvider"],
            "nodes": {},
            "verdict": "fell_back",
        }
    }
    for flaw, said in ((drift, "outputs are not finite"), (fell, "did not run it")):
        work = found(profile(entry("cpu", 0.008), entry("openvino", 0.004, **flaw))).workloads[0]
        assert work.recommended == ("cpu",)
        assert said in work.impossible["openvino"]


def test_every_figure_has_an_origin_and_what_is_missing_is_said(here: Path) -> None:
    """In Markdown each number carries a mark that the notes explain; no drift and no memory are said, not filled in."""
    known = profile(entry("cpu", 0.008), entry("openvino", 0.004))
    file = here / "tiny.profile.json"
    file.write_text(json.dumps(known.model_dump(mode="json", by_alias=True)))
    text = document.markdown(found(known), known, file, "simcap strategy tiny.profile.json")
    assert unmarked(text) == []
    notes = set(re.findall(r'<a id="([mpda]\d+)">', text))
    told = text.split("## Where the figures come from")[0]
    assert set(re.findall(r"\[([mpda]\d+)\]", told)) == notes
    assert "not measured" in text
    assert "not known" in text
    assert "Nobody compared the outputs of any entry" in text
    assert "No validation record applies" in text


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.md")), ids=lambda path: path.parent.name)
def test_the_examples_have_no_figure_without_an_origin_and_no_path_of_a_machine(path: Path) -> None:
    """Also their HTML says the same and asks for nothing from outside."""
    text = path.read_text()
    assert unmarked(text) == []
    page = path.with_suffix(".html").read_text()
    for foreign in ("/tmp/", "/work/", "/root/", "/home/"):  # noqa: S108  # looked for, not used
        assert foreign not in text
        assert foreign not in page
    assert not re.search(r'(?:src|href)="(?!#|data:|https?://)', page)
    assert "<script" not in page


def test_a_number_without_a_mark_is_found() -> None:
    """The check that the other tests rely on sees a bare number, also beside a marked one, and leaves names alone."""
    assert unmarked("It takes 5 ms.") == ["It takes 5 ms."]
    assert unmarked("It takes 5 ms [m1] and then 7 ms.") == ["It takes 5 ms [m1] and then 7 ms."]
    assert unmarked("Capacity 87 (84 to 90) requests/s [d1]; `p99` on MI300X takes `3` runs.") == []


def test_text_from_a_profile_cannot_become_markup() -> None:
    """A title with a tag, a bar and a bracket is shown as it stands."""
    from simcap.documents.text import plain

    ledger = Ledger()
    mark = ledger.mark("published", plain("<script>alert(1)</script> | [x](javascript:1)"), "javascript:alert(1)")
    page = html.page(f"| a |\n| --- |\n| 5 {mark} |\n\n" + ledger.section(), "t", "k", {})
    assert "<script" not in page
    assert 'href="javascript' not in page
    assert page.count("<td>") == 1


def test_all_knowledge_has_a_source_that_is_listed() -> None:
    """Every `[[key]]` of the file names a source, and every limitation and check has at least one."""
    known, ledger = knowledge.load(), Ledger()
    for each in (*known.limitations, *known.verify):
        said = each.text + getattr(each, "after", "")
        knowledge.marked(said, known, ledger)
        assert "[[" in said or "`" in said
    for each in (*known.settings, *known.metrics):
        knowledge.marked(each.text, known, ledger)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_refusing_is_clear(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One error that names what is wrong and what would be right; nothing is written."""
    Path("p.json").write_text(json.dumps(profile(entry("cpu", 0.004)).model_dump(mode="json", by_alias=True)))
    assert "covers none of the usual workloads" in refused(capsys, "strategy", "p.json", "--out", "s")
    assert "has no model 'mmbert32k-intent'" in refused(
        capsys, "strategy", "p.json", "--scenario", "highconc", "--out", "s"
    )
    assert "goes on for ever" in refused(
        capsys, "strategy", "mi300x-published", "--scenario", "cold_start", "--out", "s"
    )
    assert "holds no manifest.json" in refused(capsys, "report", "performance", ".", "--out", "s")
    Path("full").mkdir()
    Path("full/letter.txt").write_text("mine")
    assert "holds letter.txt" in refused(capsys, "strategy", "p.json", "--out", "full")
    assert not Path("s").exists()


def printed(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What a command that succeeds writes to standard output."""
    with pytest.raises(SystemExit) as stopped:
        cli.main(line.split())
    assert not stopped.value.code
    return capsys.readouterr().out


def test_the_strategy_as_json_is_the_file_that_it_writes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.json").write_text(json.dumps(profile(entry("cpu", 0.004)).model_dump(mode="json", by_alias=True)))
    assert printed(capsys, "strategy p.json --scenario tiny.yaml --out s --json") == Path("s/strategy.json").read_text()


def test_a_performance_report_is_made_from_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure has an origin; kinds without a run say so; a profile that changed since is refused."""
    Path("p.json").write_text(json.dumps(profile(entry("cpu", 0.004)).model_dump(mode="json", by_alias=True)))
    for line in (
        "run tiny.yaml --profile p.json --no-report -q --out runs/tiny",
        "report performance runs/tiny --out r",
    ):
        printed(capsys, line)
    text = Path("r/performance.md").read_text()
    assert unmarked(text) == []
    assert "No run of this kind was given. The shipped scenario `longctx` asks about it." in text
    assert "## Bottlenecks by owner" in text
    assert printed(capsys, "report performance runs/tiny --out r --json") == Path("r/performance.json").read_text()
    Path("p.json").write_text(json.dumps(profile(entry("cpu", 0.005)).model_dump(mode="json", by_alias=True)))
    assert "has changed since the run" in refused(capsys, "report", "performance", "runs/tiny", "--out", "r2")


def test_a_document_replaces_its_own_folder_and_nothing_else(tmp_path: Path) -> None:
    """Written twice it is there once; a file of somebody else stops it."""
    out = tmp_path / "d"
    for content in (b"one", b"two"):
        folder.write(out, "strategy", {"strategy.md": content, "plots/a.svg": content})
    assert (out / "strategy.md").read_bytes() == b"two"
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        folder.write(out, "strategy", {"strategy.md": b"three"})


def test_the_shipped_profile_is_known_to_the_ranking() -> None:
    """Every entry of the published profile stands in exactly one table."""
    known = store.load("mi300x-published")
    assert sum(len(table.rows) for table in ranking.tables(known)) == len(known.entries)
