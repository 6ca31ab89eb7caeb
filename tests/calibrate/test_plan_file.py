from __future__ import annotations

from pathlib import Path

import pytest

from calibrate.plan_file import flags_of
from profiles import store
from profiles.errors import InputError
from simcap.cli import main
from tests.calibrate.tiny import tiny_file

PLAN = """\
schema: simcap.plan/1
gpu: cpu
model: {intent: intent_fp32.onnx}
tokens: [16, 48]
threads: 1
budget: 1s
cadence: [tight]
out: planned.profile.json
"""


def test_a_plan_is_measured_and_a_flag_goes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan's values stand for the flags, its files lie beside it, and a flag that is given overrides it."""
    folder = tmp_path / "plans"
    folder.mkdir()
    tiny_file(folder)
    (folder / "plan.yaml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    main_exits_well(["calibrate", "--plan", "plans/plan.yaml", "--tokens", "24"])
    assert "planned.profile.json" in capsys.readouterr().out
    (entry,) = store.load(str(folder / "planned.profile.json")).entries
    assert entry.paced_service is None
    assert entry.service is not None
    assert [c.tokens for c in entry.service.cells] == [24]


def main_exits_well(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code in {0, None}


def test_every_key_becomes_its_flag(tmp_path: Path) -> None:
    """Lists, mappings and paths are spelled as the command line has them."""
    (tmp_path / "p.yaml").write_text(
        "schema: simcap.plan/1\ngpu: mi300x\nmodels: [a, b]\nartifacts: [fp32, fp16]\nproviders: [cpu, migraphx]\n"
        "batch: [1, 4]\nconcurrency: [2]\nprecision: [bf16]\nruntime: {migraphx: bin/python}\nstrict: true\n"
        "option: {migraphx: {migraphx_exhaustive_tune: 1}}\ncustom_ops: {rocm: /opt/libck.so}\n"
        "gate: {embedding-cosine: 0.9}\nbudget: 90\ncell_memory: 8G\nseed: 3\n"
    )
    assert flags_of(tmp_path / "p.yaml") == {
        "gpu": "mi300x",
        "models": "a,b",
        "artifacts": "fp32,fp16",
        "providers": "cpu,migraphx",
        "batch": "1,4",
        "concurrency": "2",
        "precision": "bf16",
        "runtime": [f"migraphx={tmp_path}/bin/python"],
        "strict": True,
        "option": ["migraphx.migraphx_exhaustive_tune=1"],
        "custom_ops": ["rocm=/opt/libck.so"],
        "gate": ["embedding-cosine=0.9"],
        "budget": "90",
        "cell_memory": "8G",
        "seed": "3",
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("token: [16]", r"p\.yaml:3: .*unknown key 'token'; did you mean 'tokens'"),
        ("tokens: [0]", "tokens"),
        ("option: {migrapx: {a: 1}}", "migrapx"),
    ],
)
def test_a_wrong_plan(tmp_path: Path, line: str, words: str) -> None:
    """A wrong key or value is named with its file and line."""
    (tmp_path / "p.yaml").write_text(f"schema: simcap.plan/1\ngpu: cpu\n{line}\n")
    with pytest.raises(InputError, match=words):
        flags_of(tmp_path / "p.yaml")
