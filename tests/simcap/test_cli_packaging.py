"""What is installed: which dependencies, which files, and that simulating needs no ONNX Runtime."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tiny

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simcap", "sim", "calibrate", "profiles", "scenarios")
BUILDS = {
    "cpu": "onnxruntime",
    "openvino": "onnxruntime-openvino",
    "cuda": "onnxruntime-gpu",
    "migraphx": "onnxruntime-migraphx",
    "rocm": "onnxruntime-rocm",
}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    text = (ROOT / "pyproject.toml").read_text()
    return dict(tomllib.loads(text)["project"], text=text)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this working tree, unpacked as pip would."""
    where = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(where)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (wheel,) = where.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(where / "site")
    return where / "site"


def call(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`simcap` from the unpacked wheel, not from the working tree."""
    script = f"import sys; sys.path.insert(0, {str(site)!r}); import simcap.cli as c; print(c.__file__, file=sys.stderr); c.main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


def test_the_base_installation_brings_no_onnx_runtime(project: dict[str, Any]) -> None:
    """Simulating needs no ONNX Runtime, so the dependencies of the base hold no build of it."""
    assert not {name for name in names(project["dependencies"]) if name.startswith("onnxruntime")}


def test_each_provider_extra_brings_one_build_and_says_that_they_exclude_each_other(project: dict[str, Any]) -> None:
    """Five extras, five builds that own one import name; the file says that two of them cannot be together."""
    extras = project["optional-dependencies"]
    assert {extra: names(extras[extra]) for extra in BUILDS} == {extra: {name} for extra, name in BUILDS.items()}
    assert "EXCLUDE each other" in project["text"]
    others = {name for extra in set(extras) - set(BUILDS) for name in names(extras[extra])}
    assert not others & set(BUILDS.values())


def test_the_names_are_the_agreed_ones(project: dict[str, Any]) -> None:
    """The distribution is vllm-sr-simcap (simcap on the index is somebody else's), the command is simcap."""
    assert (project["name"], project["scripts"]) == ("vllm-sr-simcap", {"simcap": "simcap.cli:main"})


def test_the_wheel_holds_every_data_file(installed: Path) -> None:
    """What lies beside the code of a package (scenarios, profiles, the report's template) is in the wheel."""
    found = [file for package in PACKAGES for file in (ROOT / package).rglob("*") if file.is_file()]
    data = [file.relative_to(ROOT) for file in found if file.suffix != ".py" and "__pycache__" not in file.parts]
    assert {file.suffix for file in data} >= {".yaml", ".json", ".j2", ".css", ".js"}
    assert [str(file) for file in data if not (installed / file).exists()] == []


def test_an_installed_simcap_finds_its_scenarios_and_profiles(installed: Path, tmp_path: Path) -> None:
    """Away from the repository the shipped scenario runs on the shipped profile, and a report is written."""
    done = call(installed, tmp_path, "run", "longctx", "--set", "load.rps=[2]", "--set", "measurement.requests=200")
    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stderr, "the wheel's own code must have run"
    assert len(list(tmp_path.rglob("report.html"))) == 1


def test_simulating_works_where_onnx_runtime_cannot_be_imported(tmp_path: Path) -> None:
    """A run never imports onnxruntime: with an import that fails it gives the same exit code 0."""
    tiny.write(tmp_path)
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('not installed')\n")
    script = "import sys; sys.path.insert(0, '.'); from simcap.cli import main; main(sys.argv[1:])"
    arguments = ["run", "tiny.yaml", "--profile", "tiny.profile.json", "--no-report"]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
