from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from calibrate import environments
from calibrate.doctor import diagnose, migraphx_version, remedy_for, rocm_version
from calibrate.environments import REQUIREMENTS, environment, install, interpreters, parse_runtime, remove
from calibrate.gpus import search
from calibrate.results import Outcome, RuntimeRecord
from profiles.errors import InputError, UnavailableError
from tests.calibrate.amd import write


def test_pins_are_exact() -> None:
    """Every runtime is one build of ONNX Runtime first, then numpy, each package to an exact version."""
    for wheels in REQUIREMENTS.values():
        assert [w.startswith("onnxruntime") for w in wheels] == [True] + [False] * (len(wheels) - 1)
        assert wheels[1].startswith("numpy==")
        assert all(w.count("==") == 1 for w in wheels)
    assert REQUIREMENTS["openvino"][0] == "onnxruntime-openvino==1.24.1"
    assert REQUIREMENTS["rocm"][0] == "onnxruntime-rocm==1.22.2.post3"


def test_a_wheel_that_cannot_be_had_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an index the error is exit code 3 in pip's words, and no part of an environment stays behind."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "no-wheels"))
    with pytest.raises(UnavailableError, match="No matching distribution found for onnxruntime-rocm") as error:
        install("rocm", tmp_path, lambda _: None)
    assert error.value.exit_code == 3
    assert list((tmp_path / "runtimes").iterdir()) == []


def test_unknown_runtime(tmp_path: Path) -> None:
    """A wrong name is answered with the nearest; removing what is not there is wrong input."""
    with pytest.raises(InputError, match="did you mean 'migraphx'"):
        environment("migrapx", tmp_path)
    with pytest.raises(InputError, match="not installed"):
        remove("cuda", tmp_path)


def _installed(tmp_path: Path, name: str) -> None:
    write(tmp_path / f"runtimes/{name}/runtime.json", '{"requirements": ["x==1"]}')
    (tmp_path / f"runtimes/{name}/bin").mkdir()
    (tmp_path / f"runtimes/{name}/bin/python").symlink_to(sys.executable)


def test_which_interpreter(tmp_path: Path) -> None:
    """What the person named goes before what is installed, and that before our own interpreter; removal is complete."""
    _installed(tmp_path, "openvino")
    found = interpreters(["cpu", "openvino", "rocm"], tmp_path, {"rocm": Path("/opt/python")})
    installed = tmp_path / "runtimes/openvino/bin/python"
    assert found == {"cpu": None, "openvino": installed, "rocm": Path("/opt/python")}
    assert interpreters(["openvino"], tmp_path, {"openvino": Path("/x")}) == {"openvino": Path("/x")}
    remove("openvino", tmp_path)
    assert interpreters(["openvino"], tmp_path, {}) == {"openvino": None}
    assert list((tmp_path / "runtimes").iterdir()) == []


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("migraphx", "expected provider=python"),
        ("migraphx=/no/such", "not an interpreter"),
        (f"x={sys.executable}", "no provider 'x'"),
    ],
)
def test_wrong_runtime_arguments(argument: str, words: str) -> None:
    """A --runtime that is not provider=interpreter is refused."""
    with pytest.raises(InputError, match=words):
        parse_runtime(argument)


def _answers(loader: Mapping[str, str | None]) -> Any:
    """A launcher whose runtime has the providers named, and loads those with None."""

    def launch(job: Mapping[str, Any], limit_s: float) -> Outcome:
        record = RuntimeRecord(
            kind="runtime",
            python="3",
            numpy="2",
            onnxruntime="1",
            providers=tuple(loader),
            loader=loader.get(job["provider"]),
        )
        return Outcome(status="done", records=(record,), wall_s=0.1)

    return lambda _: launch


def test_doctor_says_why_and_what_to_do(tmp_path: Path) -> None:
    """Each provider loads, does not load with the loader's words and a remedy, or is absent with the command to install."""
    words = "libmigraphx_c.so.3: cannot open shared object file"
    launcher = _answers({"CPUExecutionProvider": None, "MIGraphXExecutionProvider": words})
    found = diagnose(search(tmp_path), tmp_path, tmp_path, {}, launcher)
    states = {p.provider: (p.state, p.reason) for p in found.providers}
    assert states["cpu"] == ("loads", None)
    assert states["migraphx"] == ("does not load", words)
    assert states["rocm"][0] == "absent"
    assert [p.remedy for p in found.lacking(["rocm", "cpu"])] == ["simcap runtimes install rocm"]
    assert "install MIGraphX" in (found.lacking(["migraphx"])[0].remedy or "")


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        ("libhipblas.so.3: cannot open", "install ROCm"),
        ("librocm_smi64.so.7: cannot open", "install ROCm"),
        ("libcublasLt.so.12: cannot open", "install CUDA"),
        ("libother.so: cannot open", "LD_LIBRARY_PATH"),
    ],
)
def test_remedies(loader: str, words: str) -> None:
    """The missing library's name decides what the operator is told to do."""
    assert words in remedy_for(loader)


def test_versions_of_rocm_and_migraphx(tmp_path: Path) -> None:
    """ROCm's and MIGraphX's versions come from their own files; without them they are unknown."""
    assert (rocm_version(tmp_path), migraphx_version(tmp_path)) == (None, None)
    write(tmp_path / "opt/rocm/.info/version", "7.1.0-43\n")
    write(
        tmp_path / "opt/rocm/include/migraphx/version.h",
        "#define MIGRAPHX_VERSION_MAJOR 2\n#define MIGRAPHX_VERSION_MINOR 14\n",
    )
    assert (rocm_version(tmp_path), migraphx_version(tmp_path)) == ("7.1.0", "2.14")


def test_reinstalling_the_same_pins_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that is there with the pins that are wanted is not built again."""
    _installed(tmp_path, "cuda")
    monkeypatch.setitem(environments.REQUIREMENTS, "cuda", ("x==1",))
    said: list[str] = []
    assert install("cuda", tmp_path, said.append).installed
    assert said == []
