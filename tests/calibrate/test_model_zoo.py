from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from calibrate.model_zoo.architecture import HEADS, SIZES, Architecture, names, spec_of
from calibrate.model_zoo.cache import cache_directory, ensure, key_of, path_of
from calibrate.model_zoo.heads import build
from profiles.errors import InputError
from tests.calibrate.reference import Reference
from tests.calibrate.tiny import TINY, tiny_spec

LENGTHS = np.array([11, 7])


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def _feed(vocab: int) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(5).integers(0, vocab, (2, 11))
    mask = (np.arange(11) < LENGTHS[:, None]).astype(np.int64)
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("signal", ["intent", "pii", "embedding", "reranker"])
def test_graph_computes_what_the_architecture_says(signal: str) -> None:
    """The ONNX graph agrees with an independent numpy forward pass on padded texts, for each kind of head."""
    spec = tiny_spec(signal)
    model = build(spec)
    onnx.checker.check_model(model, full_check=True)
    feed = _feed(TINY.vocab)
    got = _session(model).run(None, feed)[0]
    expected = Reference(model, spec).output(feed["input_ids"], feed["attention_mask"])
    if signal == "pii":
        got, expected = got[feed["attention_mask"] == 1], expected[feed["attention_mask"] == 1]
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "change", [{"window": 4}, {"global_every": 2}, {"rope_theta": 1000.0}, {"norm_eps": 0.1}], ids=str
)
def test_reference_sees_each_part_of_the_architecture(change: dict[str, float]) -> None:
    """The comparison above would fail if window, global layers, rotary base or epsilon were wrong."""
    spec = tiny_spec()
    other = replace(spec, architecture=replace(TINY, **change))
    feed = _feed(TINY.vocab)
    got = _session(build(spec)).run(None, feed)[0]
    wrong = Reference(build(spec), other).output(feed["input_ids"], feed["attention_mask"])
    assert np.abs(got - wrong).max() > 1e-3


def test_padding_changes_nothing() -> None:
    """A text gives the same logits alone and padded beside a longer one."""
    session, feed = _session(build(tiny_spec())), _feed(TINY.vocab)
    together = session.run(None, feed)[0]
    for row, length in enumerate(LENGTHS):
        alone = session.run(None, {name: value[row : row + 1, :length] for name, value in feed.items()})[0]
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-4, atol=1e-5)


def test_a_text_of_padding_only_stays_finite() -> None:
    """No row of a mask, however empty, makes the output non-finite."""
    feed = {"input_ids": np.zeros((1, 9), np.int64), "attention_mask": np.zeros((1, 9), np.int64)}
    assert np.isfinite(_session(build(tiny_spec())).run(None, feed)[0]).all()


def test_parameters_of_mmbert_base() -> None:
    """The base encoder has the 110.3 million parameters of mmBERT-base outside its embedding."""
    assert round(SIZES["mmbert32k"].encoder_parameters / 1e6, 1) == 110.3


@pytest.mark.parametrize("a", [TINY, Architecture(layers=2, hidden=64, heads=4, intermediate=96)])
def test_parameters_are_counted_in_the_graph(a: Architecture) -> None:
    """The closed form of the parameter count equals what the built graph holds."""
    model = build(replace(tiny_spec(), architecture=a))
    held = sum(
        int(np.prod(t.dims))
        for t in model.graph.initializer
        if t.name.startswith(("layers.", "final.", "embeddings.n"))
    )
    assert held == a.encoder_parameters


def test_labels_of_each_signal() -> None:
    """Each head has the label count of the router's signal."""
    labels = {name: head.outputs for name, head in HEADS.items()}
    assert labels == {
        "intent": 14,
        "jailbreak": 2,
        "fact-check": 2,
        "user-feedback": 4,
        "modality": 3,
        "pii": 35,
        "embedding": None,
        "reranker": 1,
        "multimodal": None,
    }


def test_same_specification_same_bytes() -> None:
    """A specification determines the file; another seed gives another one."""
    first, again = (build(tiny_spec()).SerializeToString(deterministic=True) for _ in range(2))
    assert first == again
    assert build(tiny_spec(seed=2)).SerializeToString(deterministic=True) != first


def test_cache_builds_once_and_keys_by_content(tmp_path: Path) -> None:
    """A cached model is not built again, every part of the specification is in its key, nothing temporary stays."""
    spec = tiny_spec()
    path = ensure(spec, tmp_path)
    before = path.stat().st_mtime_ns
    assert ensure(spec, tmp_path) == path
    assert path.stat().st_mtime_ns == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    others = [
        replace(spec, seed=9),
        replace(spec, head=HEADS["pii"]),
        replace(spec, architecture=replace(TINY, vocab=8)),
    ]
    assert len({key_of(s) for s in [spec, *others]}) == 4


def test_interrupted_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model file is there whole or not at all."""

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("profiles.store.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        ensure(tiny_spec(), tmp_path)
    assert not path_of(tiny_spec(), tmp_path).exists()
    assert list(tmp_path.rglob("*.onnx*")) == []


def test_cache_directory_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag goes before SIMCAP_CACHE, that before XDG_CACHE_HOME, that before the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("SIMCAP_CACHE", raising=False)
    assert cache_directory() == tmp_path / "home/.cache/simcap"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg/simcap"
    monkeypatch.setenv("SIMCAP_CACHE", str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"
    assert cache_directory(tmp_path / "flag") == tmp_path / "flag"


def test_names_and_wrong_names() -> None:
    """Every listed name has a specification of its own, and a wrong one is answered with the nearest."""
    assert len({key_of(spec_of(name, 1)) for name in names()}) == len(names()) == 27
    with pytest.raises(InputError, match="did you mean 'mmbert32k-intent'"):
        spec_of("mmbert32k-intents", 1)
