"""Wrong input ends in one clear message and exit code 2, without a traceback and without a run directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from bad_input_cases import FILES, FLAGS, KEYS

from profiles import store
from scenarios import loader
from simcap import cli

Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Say:
    """Run `simcap run` in an empty folder, hold what every failure must keep, and return the message."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", *arguments, "--no-report"])
        captured = capfd.readouterr()
        assert caught.value.code == 2, captured.err
        assert "Traceback" not in captured.err
        assert captured.err.count("rror: ") == 1, "one message"
        assert captured.out == ""
        assert sorted(tmp_path.rglob("*")) == before, "nothing is left behind"
        return captured.err

    return run


def longctx() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(loader.locate("longctx").read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("name", list(FILES))
def test_a_file_that_is_no_scenario(name: str, say: Say, tmp_path: Path) -> None:
    """A file that cannot be read as a scenario is refused with its name, the line where there is one, and the reason."""
    content, expected = FILES[name]
    (tmp_path / "bad.yaml").write_bytes(content)
    assert expected in say("bad.yaml")


@pytest.mark.parametrize("name", list(KEYS))
def test_a_scenario_with_one_wrong_key(name: str, say: Say, tmp_path: Path) -> None:
    """One wrong key is answered with its path, the value found and, where one is near, the name that was meant."""
    path, value, expected = KEYS[name]
    data = node = longctx()
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    assert expected in say("bad.yaml")


@pytest.mark.parametrize("name", list(FLAGS))
def test_a_wrong_flag(name: str, say: Say) -> None:
    """A flag that makes no sense is named in the message, with its value."""
    flags, expected = FLAGS[name]
    assert expected in say("longctx", *flags)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("missing.yaml", "scenario missing.yaml: no such file"),
        ("longctxx", "did you mean 'longctx'?"),
        (".", "is a directory, not a file"),
        ("/dev/zero", "is a device or a pipe, not a file"),
        ("x" * 5000, "File name too long"),
    ],
)
def test_a_scenario_that_is_not_a_file(target: str, expected: str, say: Say) -> None:
    """What is not there, or is no regular file, is refused at once."""
    assert expected in say(target)


def test_the_line_is_that_of_the_wrong_key(say: Say, tmp_path: Path) -> None:
    """The message points to the line that has to be changed, also for rules that join several keys."""
    text = loader.locate("longctx").read_text(encoding="utf-8")
    for old, new in (
        ("cpu_workers: 16", "cpu_workers: many"),
        ("weight: 1,", "weight: 0.5,"),
        ("domain: token}", "domain: x}"),
    ):
        bad = text.replace(old, new)
        assert bad != text
        (tmp_path / "bad.yaml").write_text(bad, encoding="utf-8")
        line = next(i for i, row in enumerate(bad.splitlines(), 1) if new in row)
        near = line - 1 if new.startswith("weight") else line  # the rule on weights names their mapping
        assert f"bad.yaml:{near}: " in say("bad.yaml")


def test_many_problems_are_told_together_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first five problems come in one message; the rest is counted, not listed."""
    data = longctx()
    data["load"]["rps"] = [-1] * 9
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(Exception, match="and 4 more problems"):
        loader.load(str(tmp_path / "bad.yaml"))


def _published() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(store.locate("mi300x-published").read_text(encoding="utf-8"))
    return data


PROFILES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "falling_quantiles": (lambda d: d["entries"][0]["service"]["cells"][0]["seconds"].__setitem__(3, 99.0), "entries.0.service.cells.0: values must be finite and must not decrease"),
    "negative_time": (lambda d: d["entries"][0]["service"]["cells"][0]["seconds"].__setitem__(0, -1.0), "seconds.0: should be greater than 0 (found -1.0)"),
    "source_not_listed": (lambda d: d["router"]["base_s"].update(source="vsr-paper"), "source 'vsr-paper' is named but not listed; did you mean"),
    "occupancy_above_one": (lambda d: d["entries"][0]["occupancy"][0].update(value=1.5), "occupancy must be above 0 and at most 1, found 1.5"),
    "provider": (lambda d: d["entries"][0]["provider"].update(name="rcom"), "entries.0.provider.name: not one of the values for this key; did you mean 'rocm'?"),
    "unknown_key": (lambda d: d["entries"][0].update(servise={}), "unknown key 'servise'; did you mean 'service'?"),
    "missing_key": (lambda d: d.pop("device"), "device: this key is required and is missing"),
    "entry_twice": (lambda d: d["entries"].append(d["entries"][0]), "stands twice"),
    "newer": (lambda d: d.update(schema="simcap.profile/7"), "schema simcap.profile/7 is newer than simcap.profile/1"),
    "other_schema": (lambda d: d.update(schema="simcap.result/1"), "schema is 'simcap.result/1', expected 'simcap.profile/1'"),
    "no_router": (lambda d: d.pop("router"), "router.cpu: from_profile, but profile mi300x-published has no router figures"),
    "no_occupancy": (lambda d: d["entries"][0].pop("occupancy"), "the profile has no occupancy; measure it"),
    "no_service": (lambda d: d["entries"][0].pop("service"), "the profile has no service times for it"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(PROFILES))
def test_a_profile_with_one_fault(name: str, say: Say, tmp_path: Path) -> None:
    """A faulty profile is refused before anything runs, and the message names key and value."""
    spoil, expected = PROFILES[name]
    data = _published()
    spoil(data)
    (tmp_path / "p.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    assert expected in say("longctx", "--profile", "p.json")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda text: text[:5000], "p.json:{last}: not JSON"),
        (lambda _: "", "p.json:1: the file is empty"),
        (lambda _: "[1]", "p.json:1: expected an object of keys and values, found a list of 1"),
        (lambda text: text.replace('"value": 0.007', '"value": NaN'), "p.json:{line}: NaN is not a number"),
        (
            lambda text: text.replace('"value": 0.007', '"value": 1e999'),
            "p.json:{line}: router.base_s.value: should be a finite",
        ),
        (lambda _: '{"schema": ' + "9" * 5000 + "}", "p.json: a value that JSON cannot read"),
        (lambda _: "[" * 100_000, "p.json: nested deeper than JSON of ours can be"),
        (
            lambda text: text.replace('"name"', '"name": "a", "name"', 1),
            "p.json: key 'name' stands twice in one object",
        ),
    ],
    ids=["truncated", "empty", "list", "nan", "overflow", "huge_integer", "deep", "repeated_key"],
)
def test_a_profile_that_is_no_json_of_ours(
    spoil: Callable[[str], str], expected: str, say: Say, tmp_path: Path
) -> None:
    """JSON that is cut off, empty, too deep or holds what is no number is refused with its line where there is one."""
    text = store.locate("mi300x-published").read_text(encoding="utf-8")
    line = text[: text.index('"value": 0.007')].count("\n") + 1
    (tmp_path / "p.json").write_text(spoil(text), encoding="utf-8")
    last = text[:5000].count("\n") + 1
    assert expected.format(line=line, last=last) in say("longctx", "--profile", "p.json")
