from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from calibrate import tokenizing
from calibrate.artifacts import parse_own
from calibrate.launch import WorkerLauncher
from calibrate.merge import merge
from calibrate.request import carry_out
from calibrate.results import Outcome
from calibrate.run import Rules
from calibrate.tokenizing import beside, line, router_of
from calibrate.worker.tokenizing import words_of
from profiles import store
from scenarios import loader
from sim.inputs import inputs_of
from tests.calibrate.requests import request_for
from tests.calibrate.tiny import tiny_file

SCENARIO = """\
schema: simcap.scenario/1
name: node
question: How many requests?
node: {cpu_workers: 2}
router: {cpu: from_profile}
signals:
  intent: {model: intent, artifact: intent_fp32, provider: cpu}
stages: [[intent]]
classes:
  chat: {weight: 1.0, tokens: {law: fixed, tokens: 32}}
arrivals: {process: poisson}
load: {rps: [20, 60]}
slo: {latency_ms: 100}
measurement: {requests: 400, replications: 5}
"""
WORDS = [f"{a}{b}{c}" for a in "bcdfgl" for b in "aeiou" for c in ("nd", "st", "rk", "m")]


def _tokenizer(folder: Path) -> Path:
    """A byte-level tokenizer trained on made-up words, as a real tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.train_from_iterator(
        [" ".join(WORDS)] * 50,
        trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_the_line_through_times() -> None:
    """Times that follow base + slope · tokens give back both; times that would need a base below 0 get the base 0."""
    tokens = np.array([32.0, 128.0, 512.0, 2048.0])
    base, slope = line(tokens, 4e-5 + 1.5e-6 * tokens)
    assert base == pytest.approx(4e-5)
    assert slope == pytest.approx(1.5e-6)
    assert line(tokens, 1.5e-6 * tokens - 2e-5)[0] == 0


def test_where_a_tokenizer_lies(tmp_path: Path) -> None:
    """Beside the model, or one folder up where the model lies in `onnx`; nowhere else."""
    model = tmp_path / "intent" / "onnx" / "model.onnx"
    assert beside(model) is None
    path = _tokenizer(tmp_path / "intent")
    assert beside(model) == path
    assert beside(tmp_path / "intent" / "fp32" / "model.onnx") is None
    assert beside(tmp_path / "intent" / "model.onnx") == path


def test_words_are_those_of_the_vocabulary(tmp_path: Path) -> None:
    """Texts are made of whole words, without the mark for a space; numbers and pieces of words are left out."""
    words = words_of(Tokenizer.from_file(str(_tokenizer(tmp_path))).get_vocab(with_added_tokens=False))
    assert len(words) >= 50
    assert set(words) <= {w[:n] for w in WORDS for n in range(1, 6)}
    assert words_of({"12": 0, "ab": 1, "Ġ": 2}) == ["ab"]
    with pytest.raises(ValueError, match="no word of letters"):
        words_of({"12": 0, "##": 1})


def test_a_tokenizer_beside_two_models_for_real(tmp_path: Path) -> None:
    """Measured once for both; profile and router carry it as measured, with intervals; a scenario takes it from the profile."""
    _tokenizer(tmp_path)
    own = [parse_own(f"intent={tiny_file(tmp_path)}"), parse_own(f"pii={tiny_file(tmp_path, 'pii')}")]
    calls = []

    def launcher(python: Path | None) -> WorkerLauncher:
        real = WorkerLauncher(python)

        def launch(job: object, limit_s: float) -> Outcome:
            calls.append(job["op"])  # type: ignore[index]
            return real(job, limit_s)  # type: ignore[arg-type]

        return launch  # type: ignore[return-value]

    request = request_for(tmp_path, own=own, tokens=[16, 64], rules=Rules(1.0, loads=2, at_least=6))
    profile = carry_out(request, launcher, lambda _: None).profile
    assert calls.count("tokenize") == 1
    costs = [e.tokenizer for e in profile.entries]
    assert costs[0] == costs[1]
    assert costs[0] is not None
    assert len(costs[0].cells) == len(tokenizing.LENGTHS)
    slope = costs[0].per_token_s
    assert slope.lo is not None
    assert slope.hi is not None
    assert 1e-8 < slope.lo <= slope.value <= slope.hi < 1e-4
    assert profile.router is not None
    assert profile.router.per_token_s.origin == "measured"
    assert profile.router.per_token_s.value == slope.value
    assert "the proxy, parsing and further passes are not in it" in (profile.router.base_s.doubt or "")
    _in_a_scenario(tmp_path, request.out)
    other = replace(request, out=tmp_path / "again.profile.json")
    again = carry_out(other, WorkerLauncher, lambda _: None).profile
    merged = merge([profile, again], "merged")
    assert merged.router is not None
    assert merged.router.per_token_s.n == 2 * (slope.n or 0)


def _in_a_scenario(folder: Path, profile: Path) -> None:
    """`router.cpu: from_profile` takes the measured cost; without it this profile would be refused."""
    path = folder / "node.yaml"
    path.write_text(SCENARIO)
    measured = store.load(str(profile))
    scenario = loader.load(str(path))
    rows = {row.what: row for row in inputs_of(scenario, measured, loader.bind(scenario, measured))}
    assert rows["router CPU a token"].origin == "measured"


def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    """A runtime that cannot import `tokenizers` leaves the cost out, and a note says what to install."""
    _tokenizer(tmp_path)
    real = WorkerLauncher()

    def launch(job: object, limit_s: float) -> Outcome:
        if job["op"] == "tokenize":  # type: ignore[index]
            why = "ModuleNotFoundError: No module named 'tokenizers'"
            return Outcome(status="failed", reason=why, failure_type="ModuleNotFoundError", wall_s=0.1)
        return real(job, limit_s)  # type: ignore[arg-type]

    request = request_for(tmp_path, rules=Rules(0.5, loads=2, at_least=6))
    done = carry_out(request, lambda _: launch, lambda _: None)
    assert done.profile.router is None
    assert any("simcap runtimes install cpu, or pip install tokenizers" in note for note in done.profile.notes)


def test_the_dearest_tokenizer_is_the_routers() -> None:
    """Without any tokenizer the router's cost is not made up."""
    assert router_of({}) is None
