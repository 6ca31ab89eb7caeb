"""Profile age: current here, stale after a change, elsewhere on another machine; and what `run` and `profiles age` make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrate import age
from calibrate.age import Age, age_of
from calibrate.artifacts import digest_of
from calibrate.machine import machine
from profiles import store
from profiles.errors import InputError
from profiles.schema import Profile
from simcap import cli

TOKENS = 64


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model file that is one: the smallest graph there is."""
    from onnx import TensorProto, helper, save

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    path = tmp_path / "m.onnx"
    save(helper.make_model(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])), str(path))
    return path


@pytest.fixture
def data(model: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A profile measured here and now, as data to change."""
    monkeypatch.setattr(age, "_onnxruntime", lambda *_: "1.32.0")
    here = machine()
    cell = {"tokens": TOKENS, "levels": [0, 1], "seconds": [0.01, 0.02], "n": 100}
    return {
        "schema": "simcap.profile/1",
        "name": "here",
        "description": "for a test",
        "created": "2026-01-01",
        "device": {"catalog": "cpu", "kind": "cpu", "name": here.cpu, "cores": here.cores},
        "host": {"cpu": here.cpu, "cores": here.cores, "memory_bytes": here.memory_bytes, "os": here.os},
        "software": {"kernel": here.kernel, "onnxruntime": "1.32.0"},
        "entries": [
            {
                "model": "m",
                "artifact": "fp32",
                "provider": {"name": "cpu"},
                "task": "sequence_classification",
                "digest": digest_of([model])[0],
                "service": {"cadence": "tight", "cells": [cell | {"origin": "measured", "spread_origin": "measured"}]},
                "occupancy": [{"tokens": TOKENS, "value": 1.0, "origin": "assumed"}],
            }
        ],
    }


def aged(data: dict[str, Any], models: dict[str, Path] | None = None) -> Age:
    return age_of(Profile.model_validate(data), models)


def test_what_was_measured_here_is_current(data: dict[str, Any], model: Path) -> None:
    """Same machine, system, kernel, runtime and file: nothing differs, and all of it was compared."""
    found = aged(data, {"m": model})
    assert found.word == "current"
    assert [row.differs for row in found.rows] == [False] * 7


@pytest.mark.parametrize(
    ("where", "key", "value", "named"),
    [
        ("software", "kernel", "5.0.0", "kernel and driver was 5.0.0"),
        ("software", "onnxruntime", "1.20.0", "ONNX Runtime of cpu was 1.20.0, here it is 1.32.0"),
        ("host", "os", "Plan 9", "system was Plan 9"),
        ("host", "memory_bytes", 2**30, "memory was 1.0 GiB"),
    ],
)
def test_a_change_on_this_machine_makes_it_stale(
    where: str, key: str, value: object, named: str, data: dict[str, Any]
) -> None:
    """Kernel, runtime, system, memory: each alone makes it stale and is named with what is here."""
    data[where][key] = value
    found = aged(data)
    assert found.word == "stale"
    assert [row.what for row in found.changed] == [found.changed[0].what]
    assert named in found.sentence("here")


def test_another_file_makes_it_stale(data: dict[str, Any], model: Path) -> None:
    """A file of another digest is stale; one that nobody named is told and not judged; an unknown model is refused."""
    data["entries"][0]["digest"] = "sha256:" + "0" * 64
    assert aged(data, {"m": model}).word == "stale"
    assert aged(data).word == "current"
    with pytest.raises(InputError, match="the profile has no such model"):
        aged(data, {"n": model})


@pytest.mark.parametrize(("key", "value"), [("cpu", "Another CPU"), ("cores", 4096)])
def test_another_machine_is_elsewhere_and_not_stale(key: str, value: object, data: dict[str, Any]) -> None:
    """On another processor, or on another number of cores, versions are not compared: the profile is not of this machine."""
    data["host"][key] = value
    data["software"]["kernel"] = "5.0.0"
    found = aged(data)
    assert found.word == "elsewhere"
    assert "kernel" not in found.sentence("here")


def test_a_gpu_that_is_not_here_is_elsewhere(data: dict[str, Any], tmp_path: Path) -> None:
    """The same processor without the GPU of the profile is another machine."""
    data["device"] = {"catalog": "mi300x", "kind": "gpu", "name": "AMD Instinct MI300X"}
    found = age_of(Profile.model_validate(data), root=Path("/"))
    assert found.word == "elsewhere"
    assert found.changed[0].what == "device"


def test_what_nobody_measured_does_not_grow_old() -> None:
    """The published profile has no machine to compare with."""
    assert age_of(store.load("mi300x-published")) == Age("unmeasured", ())


SCENARIO = """\
schema: simcap.scenario/1
name: aged
question: Is it said?
node: {cpu_workers: 4}
router: {cpu: {base_s: 0}}
signals: {intent: {model: m, artifact: fp32, provider: cpu}}
stages: [[intent]]
classes: {all: {weight: 1, tokens: {law: fixed, tokens: 64}}}
arrivals: {process: poisson}
load: {rps: [5]}
slo: {latency_ms: 100}
measurement: {requests: 200}
"""


@pytest.mark.parametrize(
    ("change", "strict", "code", "says"),
    [
        ({}, False, 0, None),
        ({"kernel": "5.0.0"}, False, 0, "profile here is stale: kernel and driver was 5.0.0"),
        ({"kernel": "5.0.0"}, True, 4, "profile here is stale: kernel and driver was 5.0.0"),
        ({"cpu": "Another CPU"}, True, 0, "profile here was measured elsewhere (processor was Another CPU"),
    ],
)
def test_run_says_so_and_strict_refuses(
    change: dict[str, str],
    strict: bool,
    code: int,
    says: str | None,
    data: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A stale profile is a note, with --strict an end with 4 and nothing written; a profile from elsewhere is a note."""
    data["software"] |= {k: v for k, v in change.items() if k == "kernel"}
    data["host"] |= {k: v for k, v in change.items() if k == "cpu"}
    (tmp_path / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "p.json").write_text(json.dumps(data), encoding="utf-8")
    flags = ["--profile", str(tmp_path / "p.json"), "--out", str(tmp_path / "out"), "--no-report"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", str(tmp_path / "s.yaml"), *flags, *(["--strict"] if strict else [])])
    printed = capsys.readouterr()
    shown = " ".join((printed.out + printed.err).split())
    assert ended.value.code == code
    assert (tmp_path / "out").exists() == (code == 0)
    if says is None:
        assert "is stale" not in shown
        assert "measured elsewhere" not in shown
    else:
        assert says in shown


def test_the_command_shows_what_differs(
    data: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`profiles age` prints every comparison, and with --strict ends with 4 when one makes the profile stale."""
    data["software"]["kernel"] = "5.0.0"
    (tmp_path / "p.json").write_text(json.dumps(data), encoding="utf-8")
    for flags, code in (([], 0), (["--strict"], 4)):
        with pytest.raises(SystemExit) as ended:
            cli.main(["profiles", "age", str(tmp_path / "p.json"), "--json", *flags])
        assert ended.value.code == code
        told = json.loads(capsys.readouterr().out)
        assert told["age"] == "stale"
        assert [row["what"] for row in told["rows"] if row["differs"]] == ["kernel and driver"]


def test_the_version_is_read_from_an_environment_without_starting_it(tmp_path: Path) -> None:
    """The metadata folder of the build names its version, whichever build it is."""
    place = tmp_path / "runtimes" / "rocm"
    packages = place / "lib" / "python3.12" / "site-packages"
    (packages / "onnxruntime_rocm-1.22.2.post3.dist-info").mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "bin" / "python").write_text("", encoding="utf-8")
    from calibrate.environments import NOTE

    (place / NOTE).write_text("{}", encoding="utf-8")
    assert age._onnxruntime("rocm", tmp_path) == "1.22.2.post3"
