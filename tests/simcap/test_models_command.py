"""`simcap models`: what a file is, and whether it is sound."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from calibrate.model_zoo.architecture import spec_of
from calibrate.model_zoo.facts import facts_of
from calibrate.model_zoo.heads import build
from profiles.errors import InputError
from simcap.cli import main
from tests.calibrate.tiny import TINY, tiny_file

Said = pytest.CaptureFixture[str]


def _models(said: Said, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["models", *arguments])
    out, err = said.readouterr()
    return int(stop.value.code or 0), out, err


def _file(path: Path, operator: str = "Log", output: str = "y") -> str:
    """A graph of one operator over input_ids as floats: Log of zero token types is not finite."""
    nodes = [
        helper.make_node("Cast", ["token_type_ids"], ["x"], to=TensorProto.FLOAT),
        helper.make_node(operator, ["x"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, kind, ["batch", "tokens"])
        for name, kind in (("token_type_ids", TensorProto.INT64), (output, TensorProto.FLOAT))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return str(path)


def test_build_writes_the_model_that_its_specification_says(tmp_path: Path, capsys: Said) -> None:
    """`build --out` and `build` into the cache write the same bytes, those of the specification, and print the path."""
    name = "mmbert-mini-embedding-l6-d64"
    out = tmp_path / "m.onnx"
    assert _models(capsys, "build", name, "--artifact", "fp16", "--out", str(out)) == (0, f"{out}\n", "")
    code, path, _ = _models(capsys, "build", name, "--artifact", "fp16", "--cache", str(tmp_path / "cache"))
    assert code == 0
    assert Path(path.strip()).read_bytes() == out.read_bytes()
    assert out.read_bytes() == build(spec_of(name, 1, artifact="fp16")).SerializeToString(deterministic=True)


def test_inspect_counts_parameters_by_type(tmp_path: Path, capsys: Said) -> None:
    """Parameters are the encoder's closed form plus embedding and head; inputs, outputs, opset and digest are there."""
    path = tiny_file(tmp_path)
    code, out, _ = _models(capsys, "inspect", str(path), "--json")
    facts = json.loads(out)
    head = TINY.hidden * TINY.hidden + TINY.hidden + TINY.hidden * 14 + 14
    tables = TINY.head_dim // 2  # the rotary frequencies are a constant of more than one element
    assert code == 0
    assert facts["parameters"] == TINY.encoder_parameters + TINY.vocab * TINY.hidden + head + tables
    assert facts["dtypes"] == {"float": facts["parameters"]}
    assert facts["opsets"] == {"ai.onnx": 17}
    assert [i["name"] for i in facts["inputs"]] == ["input_ids", "attention_mask"]
    assert facts["outputs"] == [{"name": "logits", "dtype": "float", "shape": ["batch", 14]}]
    code, told, _ = _models(capsys, "inspect", str(path))
    assert "logits: float [batch, 14]" in told
    assert facts["digest"].removeprefix("sha256:")[:20] in told


def test_digest_of_weights_beside_the_file(tmp_path: Path) -> None:
    """A byte that changes in external weights changes the digest, and a missing file of weights is an error."""
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 64]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph), path, save_as_external_data=True, location="m.data", size_threshold=0)
    before = facts_of(path)
    data = tmp_path / "m.data"
    data.write_bytes(b"\x01" + data.read_bytes()[1:])
    assert facts_of(path).digest != before.digest
    assert before.parameters == 64 * 64
    data.unlink()
    with pytest.raises(InputError, match=r"m\.data beside it"):
        facts_of(path)


def test_verify_runs_a_sound_model(tmp_path: Path, capsys: Said) -> None:
    """A sound file passes the checker and one real inference."""
    code, out, err = _models(capsys, "verify", str(tiny_file(tmp_path, "pii")), "--tokens", "9")
    assert (code, err) == (0, "")
    assert "the ONNX checker passes it" in out
    assert "one text of 9 tokens on ONNX Runtime" in out


def test_verify_finds_outputs_that_are_not_finite(tmp_path: Path, capsys: Said) -> None:
    """Log(0) runs and gives minus infinity: exit code 4, with the count."""
    code, _, err = _models(capsys, "verify", _file(tmp_path / "log.onnx"), "--tokens", "5")
    assert code == 4
    assert "5 of its outputs are not finite" in err


def test_verify_finds_a_broken_graph(tmp_path: Path, capsys: Said) -> None:
    """An output that no node makes is refused in the checker's words, before anything runs."""
    code, out, err = _models(capsys, "verify", _file(tmp_path / "bad.onnx", output="nothing"))
    assert (code, out) == (4, "")
    assert "the ONNX checker refuses it" in err


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_wrong_files_and_names(tmp_path: Path, capsys: Said, command: str) -> None:
    """No file, no model and no ONNX are wrong input, each named, exit code 2."""
    text = tmp_path / "text.onnx"
    text.write_text("hello, I am no model")
    for name, words in (
        (str(tmp_path / "none.onnx"), "no such file"),
        ("mmbert-mini-intend", "did you mean 'mmbert-mini-intent'"),
        (str(text), "is not an ONNX file"),
    ):
        code, _, err = _models(capsys, command, name)
        assert code == 2
        assert words in err


def test_verify_without_onnxruntime_says_so(tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no runtime is at hand the graph is checked all the same, and the missing run is told with its remedy."""
    from profiles.errors import UnavailableError

    def none(*_: object) -> None:
        raise UnavailableError("no onnxruntime here")

    monkeypatch.setattr("calibrate.runtimes.probe", none)
    code, out, _ = _models(capsys, "verify", str(tiny_file(tmp_path)))
    assert code == 0
    assert "the ONNX checker passes it" in out
    assert "not run: no onnxruntime here" in out


def test_list_names_what_build_takes(capsys: Said) -> None:
    """Every name in the list, with and without an exit, has a specification."""
    code, out, _ = _models(capsys, "list")
    named = [line.split()[0] for line in out.splitlines() if line.startswith(("mmbert", " mmbert"))]
    assert code == 0
    assert len(named) == 27
    for name in named:
        assert spec_of(name, 1).name == name
