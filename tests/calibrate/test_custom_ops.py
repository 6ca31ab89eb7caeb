from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from calibrate.artifacts import parse_own
from calibrate.custom_ops import parse_libraries, try_library
from calibrate.launch import WorkerLauncher
from calibrate.request import carry_out
from calibrate.run import Rules
from profiles.errors import InputError
from tests.calibrate.requests import request_for
from tests.calibrate.tiny import tiny_file

SOURCE = Path(__file__).with_name("custom_ops.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real library with one operator, compiled here."""
    if COMPILER is None:
        pytest.skip("no C compiler here")
    path = tmp_path_factory.mktemp("ops") / "libsame.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", str(path), str(SOURCE)], check=True)
    return path


def _with_operator(folder: Path) -> Path:
    """The tiny classifier, its logits passed through the library's operator."""
    model = onnx.load(str(tiny_file(folder)))
    last = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["before" if name == last else name for name in node.output]
    model.graph.node.append(onnx.helper.make_node("Same", ["before"], [last], domain="test.simcap"))
    model.opset_import.append(onnx.helper.make_opsetid("test.simcap", 1))
    path = folder / "with_operator.onnx"
    onnx.save(model, str(path))
    return path


def test_a_model_with_a_custom_operator_beside_one_without(tmp_path: Path, library: Path) -> None:
    """In one run the file that needs the library is measured with it, and its outputs are those of the file without it."""
    own = [parse_own(f"intent={tiny_file(tmp_path)}"), parse_own(f"intent={_with_operator(tmp_path)}")]
    request = request_for(tmp_path, own=own, tokens=[16], libraries=parse_libraries([f"cpu={library}"]))
    done = carry_out(replace(request, rules=Rules(1.0, loads=2, at_least=6)), WorkerLauncher, lambda _: None)
    plain, custom = done.profile.entries
    assert (plain.artifact, custom.artifact) == ("intent_fp32", "with_operator")
    assert custom.service is not None
    assert (custom.provider.custom_ops or "").startswith("libsame.so sha256:")
    assert custom.accuracy is not None  # against the file that the CPU provider runs without a library
    assert custom.accuracy.reference.startswith("intent_fp32 on cpu")
    assert custom.accuracy.max_abs_difference is not None
    assert custom.accuracy.max_abs_difference.value == 0
    assert custom.ownership is not None
    assert custom.ownership.cpu_operators["Same"] == 1
    assert done.failures == ()


def test_without_the_library_the_model_is_refused(tmp_path: Path) -> None:
    """A file whose operator nobody has registered is wrong input, in ONNX Runtime's words."""
    request = request_for(tmp_path, own=[parse_own(f"intent={_with_operator(tmp_path)}")])
    with pytest.raises(InputError, match=r"test\.simcap"):
        carry_out(request, WorkerLauncher, lambda _: None)


def test_what_is_no_library_is_told_by_the_loader(tmp_path: Path) -> None:
    """A file that the system's loader refuses is wrong input in the loader's words, before anything is measured."""
    (tmp_path / "broken.so").write_bytes(b"not a library")
    (found,) = parse_libraries([f"cpu={tmp_path / 'broken.so'}"]).items()
    with pytest.raises(InputError, match=r"--custom-ops cpu=.*broken\.so: .*(invalid ELF header|file too short)"):
        try_library(*found, WorkerLauncher())


def test_a_library_without_the_entry_point(tmp_path: Path) -> None:
    """A real library that registers nothing is refused by ONNX Runtime, which names the function that it misses."""
    if COMPILER is None:
        pytest.skip("no C compiler here")
    (tmp_path / "empty.c").write_text("int nothing;\n")
    path = tmp_path / "libempty.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(path), str(tmp_path / "empty.c")], check=True)
    (found,) = parse_libraries([f"cpu={path}"]).items()
    with pytest.raises(InputError, match="RegisterCustomOps"):
        try_library(*found, WorkerLauncher())


def test_where_the_library_is_for(tmp_path: Path) -> None:
    """A path alone is for rocm; a provider that takes none, a missing file, two for one provider are refused by name."""
    path = tmp_path / "libck.so"
    path.write_bytes(b"x")
    assert list(parse_libraries([str(path)])) == ["rocm"]
    for arguments, words in (
        ([f"migraphx={path}"], "'migraphx' takes no custom operators; rocm, cuda, cpu do"),
        ([f"rocm={tmp_path / 'nowhere.so'}"], "nowhere.so is not a file"),
        ([str(path), f"rocm={path}"], "rocm has two libraries"),
    ):
        with pytest.raises(InputError, match=words):
            parse_libraries(arguments)
    request = request_for(tmp_path, libraries=parse_libraries([str(path)]))
    with pytest.raises(InputError, match="--custom-ops rocm: rocm is not among the --providers cpu"):
        carry_out(request, WorkerLauncher, lambda _: None)
