"""`simcap import router`: small configurations in the router's format, written here, become scenarios."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from profiles import store
from scenarios import loader
from sim.engine import run_once
from simcap.cli import main

CONFIG: dict[str, Any] = {
    "version": "v0.3",
    "listeners": [{"name": "http", "port": 8899}],
    "providers": {"defaults": {"default_model": "a"}},
    "routing": {
        "signals": {
            "keywords": [{"name": "urgent", "operator": "OR", "keywords": ["now"]}],
            "domains": [{"name": "law"}],
            "jailbreak": [{"name": "attack", "threshold": 0.7}],
            "pii": [{"name": "private", "threshold": 0.8}],
        },
        "projections": {
            "scores": [{"name": "risk", "inputs": [{"type": "jailbreak", "name": "attack", "weight": 1.0}]}],
            "mappings": [{"name": "band", "source": "risk", "outputs": [{"name": "risky", "gte": 0.5}]}],
        },
        "decisions": [
            {
                "name": "one",
                "rules": {
                    "operator": "AND",
                    "conditions": [
                        {"type": "keyword", "name": "urgent"},
                        {"operator": "NOT", "conditions": [{"type": "domain", "name": "law"}]},
                    ],
                },
            },
            {"name": "two", "rules": {"operator": "OR", "conditions": [{"type": "projection", "name": "risky"}]}},
        ],
    },
}
BASE = ["--base", "longctx", "--set", "classes.document.tokens.max=8192", "--set", "load.rps=[0.2]"]


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return int(stop.value.code or 0)


def changed(*path_and_value: Any) -> dict[str, Any]:
    """CONFIG with one value at a path of keys."""
    config = copy.deepcopy(CONFIG)
    *path, last, value = path_and_value
    node = config
    for key in path:
        node = node[key] if isinstance(node, list) else node.setdefault(key, {})
    node[last] = value
    return config


def rules(kind: str, name: str) -> dict[str, Any]:
    return changed("routing", "decisions", [{"name": "d", "rules": {"conditions": [{"type": kind, "name": name}]}}])


def do_import(config: Any, folder: Path, *flags: str) -> tuple[int, Path]:
    file, out = folder / "config.yaml", folder / "out.yaml"
    file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    code = call("import", "router", str(file), *BASE, "--profile", "mi300x-published", "--out", str(out), *flags)
    return code, out


def test_signals_are_those_that_decisions_use(tmp_path) -> None:
    """A domain under a NOT and a jailbreak behind a projection count; the pii rule that nobody uses does not."""
    code, out = do_import(CONFIG, tmp_path)
    assert code == 0
    made = loader.load(str(out))
    assert set(made.signals) == {"intent", "jailbreak"}
    assert made.stages == (("intent", "jailbreak"),)
    assert made.signals["intent"].model == "mmbert32k-intent"
    assert {signal.lock_domain for signal in made.signals.values()} == {"sequence"}
    assert {signal.max_tokens for signal in made.signals.values()} == {512}
    assert {signal.provider for signal in made.signals.values()} == {"cpu"}


def test_the_scenario_runs(tmp_path) -> None:
    """Every request of a short run is answered."""
    _, out = do_import(CONFIG, tmp_path, "--set", "measurement.requests=200")
    records = run_once(loader.load(str(out)), store.load("mi300x-published"), 1, 0.2)
    assert not records.failed.any()
    assert records.arrived.size == 200


def test_defaults_of_the_router_are_marked_assumed_and_what_the_file_says_is_not(tmp_path) -> None:
    """Silent about use_cpu: a comment at `provider`. Said: none. What comes from the base says so."""
    _, out = do_import(CONFIG, tmp_path)
    assert "provider: cpu  # use_cpu, assumed: the router's default" in out.read_text()
    assert "# base: slo as in scenario longctx" in out.read_text()
    said = changed("global", "model_catalog", "modules", "classifier", "domain", "use_cpu", True)
    (tmp_path / "said").mkdir()
    _, out = do_import(said, tmp_path / "said")
    intent, _, jailbreak = out.read_text().partition("  jailbreak:")
    assert "use_cpu, assumed" not in intent
    assert "use_cpu, assumed" in jailbreak


def test_heuristics_are_shown_and_are_no_signals(tmp_path, capsys) -> None:
    """The keyword rule is counted as router CPU only, on screen and in the file."""
    _, out = do_import(CONFIG, tmp_path)
    assert "heuristics, router CPU only: keyword (1)" in capsys.readouterr().out
    assert "# Heuristics, router CPU only: keyword (1)." in out.read_text()
    assert "keyword" not in loader.load(str(out)).signals


def test_what_the_file_does_not_say_is_listed(tmp_path, capsys) -> None:
    """Traffic, artifact and the cache's hit share are named; with the cache off its line goes."""
    do_import(CONFIG, tmp_path)
    said = " ".join(capsys.readouterr().out.split())
    for words in ("request classes and lengths", "which ONNX artifact", "response cache hits"):
        assert words in said
    (tmp_path / "off").mkdir()
    do_import(changed("global", "stores", "response_cache", "enabled", False), tmp_path / "off")
    assert "response cache hits" not in " ".join(capsys.readouterr().out.split())


def test_gpu_needs_its_provider_and_artifact_named(tmp_path, capsys) -> None:
    """use_cpu: false alone is refused; with both flags the signal runs there and the other stays on the CPU."""
    config = changed("global", "model_catalog", "modules", "classifier", "domain", "use_cpu", False)
    assert do_import(config, tmp_path)[0] == 2
    assert "--gpu-provider" in capsys.readouterr().err
    assert do_import(config, tmp_path, "--gpu-provider", "rocm")[0] == 2
    assert "say --artifact" in capsys.readouterr().err
    code, out = do_import(config, tmp_path, "--gpu-provider", "rocm", "--artifact", "sdpa_fp16")
    assert code == 0
    made = loader.load(str(out))
    assert (made.signals["intent"].provider, made.signals["intent"].artifact) == ("rocm", "sdpa_fp16")
    assert made.signals["jailbreak"].provider == "cpu"


def test_recipes_count_where_an_entry_point_leads_to_them(tmp_path, capsys) -> None:
    """A reachable recipe adds its signals, an unreachable one is named and left out; --recipe takes one alone."""
    config = copy.deepcopy(CONFIG)
    routing = {"decisions": [{"name": "x", "rules": {"conditions": [{"type": "fact_check", "name": "f"}]}}]}
    hidden = {"decisions": [{"name": "y", "rules": {"conditions": [{"type": "user_feedback", "name": "u"}]}}]}
    config["recipes"] = [{"name": "open", "routing": routing}, {"name": "hidden", "routing": hidden}]
    config["entrypoints"] = [{"model_names": ["m"], "recipe": "open"}]
    _, out = do_import(config, tmp_path)
    assert set(loader.load(str(out)).signals) == {"intent", "jailbreak", "fact-check"}
    assert "left out: hidden" in out.read_text()
    _, out = do_import(config, tmp_path, "--recipe", "open", "--force")
    assert set(loader.load(str(out)).signals) == {"fact-check"}
    assert do_import(config, tmp_path, "--recipe", "opne", "--force")[0] == 2
    assert "did you mean 'open'" in capsys.readouterr().err


def test_a_model_that_the_profile_lacks_needs_a_stand_in(tmp_path, capsys) -> None:
    """The embedder is not in the published profile: refused by name, and marked assumed once another stands in."""
    config = rules("embedding", "e")
    assert do_import(config, tmp_path)[0] == 2
    assert "--stand-in mmbert-embed-32k-2d-matryoshka=" in capsys.readouterr().err
    code, out = do_import(config, tmp_path, "--stand-in", "mmbert-embed-32k-2d-matryoshka=mmbert32k-intent")
    assert code == 0
    assert "assumed: stands in for mmbert-embed-32k-2d-matryoshka" in out.read_text()
    assert loader.load(str(out)).signals["embedding"].lock_domain == "embedding"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (changed("version", "v0.2"), "has version 'v0.2'"),
        (changed("version", "v0.4"), "reads the router's format v0.3 and no other"),
        ({key: value for key, value in CONFIG.items() if key != "version"}, "says no version"),
        (changed("rooting", {}), "unknown key 'rooting'"),
        ({"replicaCount": 1, "config": CONFIG}, "take the part under `config`"),
        ("- 1\n- 2\n", "list"),
        (rules("telepathy", "t"), "signal type 'telepathy'"),
        (rules("keyword", "urgent"), "heuristics: keyword (1)"),
        (changed("routing", "decisions", []), "no decision that a request can reach"),
        (
            changed("entrypoints", [{"model_names": ["m"], "recipe": "nowhere"}]),
            "entrypoints names recipe 'nowhere'",
        ),
    ],
)
def test_what_cannot_be_imported_is_refused_by_name(config, said, tmp_path, capsys) -> None:
    """Exit code 2, the fault in words, no scenario file."""
    code, out = do_import(config, tmp_path)
    assert code == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (changed("global", "model_catalog", "modules", "classifier", "domain", "enabled", False), "switched off"),
        (changed("global", "model_catalog", "modules", "classifier", "domain", "model_ref", ""), "model_ref is empty"),
    ],
)
def test_modules_without_a_model_run_none(config, said, tmp_path) -> None:
    """The domain module is off or bound to nothing: it is said, and only the jailbreak model runs."""
    _, out = do_import(config, tmp_path)
    assert said in out.read_text()
    assert set(loader.load(str(out)).signals) == {"jailbreak"}


def test_contrastive_jailbreak_runs_the_embedder(tmp_path) -> None:
    """method: contrastive compares embeddings; the classifier does not run for it."""
    config = changed("routing", "signals", "jailbreak", [{"name": "attack", "method": "contrastive"}])
    _, out = do_import(config, tmp_path, "--stand-in", "mmbert-embed-32k-2d-matryoshka=mmbert32k-intent")
    assert set(loader.load(str(out)).signals) == {"intent", "jailbreak-contrast"}


def test_projections_in_a_circle_end(tmp_path) -> None:
    """A score that reads its own output is followed once."""
    config = copy.deepcopy(CONFIG)
    config["routing"]["projections"]["scores"][0]["inputs"].append({"type": "projection", "name": "risky"})
    code, out = do_import(config, tmp_path)
    assert code == 0
    assert set(loader.load(str(out)).signals) == {"intent", "jailbreak"}
