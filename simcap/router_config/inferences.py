"""What the used signals cost: inferences of a model on one of the router's locks, or router CPU alone.

Enters: a `RouterFile`. Leaves: `Inference`s (one a request each), heuristics, and what runs outside the router. Where the
file is silent the router's own defaults stand (pkg/config/canonical_defaults.go, commit 3d48f8c) and are marked so:
classifiers on the CPU, text cut to 512 tokens (onnx-binding, MAX_CLASSIFICATION_SEQ_LEN), one mutex over all sequence
classifiers, one over token classifiers, one over the embedder (onnx-binding/src/ffi).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from profiles.document import nearest
from profiles.errors import InputError
from simcap.router_config.document import Node, RouterFile, Routing, lookup
from simcap.router_config.usage import used_by

HEURISTIC = ("authz", "context", "conversation", "event", "keyword", "language", "metadata", "structure")
EMBEDDED = ("embedding", "complexity", "kb", "reask")
CLASSIFIER_TOKENS = 512
EMBEDDER_TOKENS = 32768
MODULES = ("model_catalog", "modules")
SEMANTIC = ("model_catalog", "embeddings", "semantic")
BACKENDS = ("candle", "openvino", "openai_compatible")
EMBEDDER_PATHS = {
    "mmbert": ("mmbert_model_path", "models/mmbert-embed-32k-2d-matryoshka"),
    "qwen3": ("qwen3_model_path", None),
    "gemma": ("gemma_model_path", None),
    "bert": ("bert_model_path", None),
    "multimodal": ("multimodal_model_path", None),
}
IN_PROFILES = {
    "mmbert32k-intent-classifier-merged": "mmbert32k-intent",
    "mmbert32k-jailbreak-detector-merged": "mmbert32k-jailbreak",
    "mmbert32k-pii-detector-merged": "mmbert32k-pii",
    "mmbert32k-factcheck-classifier-merged": "mmbert32k-fact-check",
    "mmbert32k-feedback-detector-merged": "mmbert32k-user-feedback",
    "mmbert32k-modality-router-merged": "mmbert32k-modality",
}
"""The router's model directories under the names that our profiles use."""


@dataclass(frozen=True)
class Known:
    """A value, and whether the file says it or the router's default stands for it."""

    value: Any
    given: bool


@dataclass(frozen=True)
class Inference:
    """One inference a request. `lock`: sequence, token or embedding. `path`: the model as the router names it."""

    name: str
    path: Known
    use_cpu: Known
    lock: str
    max_tokens: int

    @property
    def model(self) -> str:
        """The model's name in our profiles."""
        name = str(self.path.value).rstrip("/").rpartition("/")[2].removesuffix("-onnx")
        return IN_PROFILES.get(name, name)


@dataclass
class Found:
    """`heuristics` and `elsewhere`: lines for a person; `inferences` in the order of their names."""

    inferences: dict[str, Inference] = field(default_factory=dict)
    heuristics: dict[str, set[str]] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)

    def outside(self, text: str) -> None:
        if text not in self.elsewhere:
            self.elsewhere.append(text)


@dataclass(frozen=True)
class Module:
    """A classifier of the router: where its settings stand, the capability it is bound to, the default model, the lock."""

    keys: tuple[str, ...]
    capability: str
    path: str
    lock: str
    signal: str


MODULE_OF = {
    "domain": Module(
        ("classifier", "domain"), "domain_classifier", "models/mmbert32k-intent-classifier-merged", "sequence", "intent"
    ),
    "pii": Module(("classifier", "pii"), "pii_classifier", "models/mmbert32k-pii-detector-merged", "token", "pii"),
    "jailbreak": Module(
        ("prompt_guard",), "prompt_guard", "models/mmbert32k-jailbreak-detector-merged", "sequence", "jailbreak"
    ),
    "fact_check": Module(
        ("hallucination_mitigation", "fact_check"),
        "fact_check_classifier",
        "models/mmbert32k-factcheck-classifier-merged",
        "sequence",
        "fact-check",
    ),
    "user_feedback": Module(
        ("feedback_detector",),
        "feedback_detector",
        "models/mmbert32k-feedback-detector-merged",
        "sequence",
        "user-feedback",
    ),
}


def inferences_of(file: RouterFile, profiles: Iterable[Routing]) -> Found:
    """All that these routing profiles use. Raises InputError for a signal type that this simcap does not know."""
    found = Found()
    for routing in profiles:
        for kind, names in sorted(used_by(routing).items()):
            if kind in HEURISTIC:
                found.heuristics.setdefault(kind, set()).update(names)
            elif kind in MODULE_OF and kind != "jailbreak":
                _classifier(file, kind, found)
            elif kind in EMBEDDED:
                _embedder(file, kind, found)
            elif kind in SPECIAL:
                SPECIAL[kind](file, routing, names, found)
            else:
                known = (*HEURISTIC, *MODULE_OF, *EMBEDDED, *SPECIAL)
                raise InputError(f"{file.path}: decisions use signal type {kind!r}; {nearest(kind, known)}")
    found.inferences = dict(sorted(found.inferences.items()))
    return found


def _classifier(file: RouterFile, kind: str, found: Found) -> None:
    module = MODULE_OF[kind]
    explicit = file.setting(*MODULES, *module.keys, "model_id")
    named = file.setting(*MODULES, *module.keys, "model_ref")
    off = file.setting(*MODULES, *module.keys, "enabled") is False
    if off or (not explicit and named == ""):
        if kind == "domain" and file.setting(*MODULES, "classifier", "mcp", "enabled"):
            found.outside("domain: answered by a tool server (classifier.mcp), outside the router")
            return
        why = "its module is switched off" if off else "no model is bound to its module (model_ref is empty)"
        found.outside(f"{kind}: used by decisions, but {why}; no model runs")
        return
    bound = file.setting("model_catalog", "system", named or module.capability)
    path = Known(explicit or bound or module.path, bool(explicit or bound))
    cpu = _use_cpu(file.setting(*MODULES, *module.keys, "use_cpu"), default=True)
    found.inferences[module.signal] = Inference(module.signal, path, cpu, module.lock, CLASSIFIER_TOKENS)


def _embedder(file: RouterFile, signal: str, found: Found) -> None:
    """One embedding of the text for this signal type; the router embeds it again for each type that asks."""
    backend = file.setting(*SEMANTIC, "embedding_config", "backend")
    if backend is None:
        backend = "openai_compatible" if file.setting(*SEMANTIC, "endpoint", "base_url") else "candle"
    if backend not in BACKENDS:
        raise InputError(f"{file.path}: embedding backend is {backend!r}; {nearest(str(backend), BACKENDS)}")
    if backend == "openai_compatible":
        found.outside(f"{signal}: its text is embedded by a service outside the router ({backend})")
        return
    kind = file.setting(*SEMANTIC, "embedding_config", "model_type") or "mmbert"
    if kind not in EMBEDDER_PATHS:
        raise InputError(f"{file.path}: embedding model_type is {kind!r}; {nearest(str(kind), EMBEDDER_PATHS)}")
    key, default = EMBEDDER_PATHS[kind]
    given = file.setting(*SEMANTIC, key)
    if not given and (given is not None or default is None):
        raise InputError(f"{file.path}: embedding model_type is {kind!r}, and {'.'.join((*SEMANTIC, key))} is missing")
    path, cpu = Known(given or default, given is not None), _use_cpu(file.setting(*SEMANTIC, "use_cpu"), default=True)
    name = signal.replace("_", "-")
    found.inferences[name] = Inference(name, path, cpu, "embedding", EMBEDDER_TOKENS)


def _use_cpu(value: Any, *, default: bool) -> Known:
    return Known(default if value is None else bool(value), value is not None)


def _jailbreak(file: RouterFile, routing: Routing, names: set[str], found: Found) -> None:
    rules = _rules(routing, "jailbreak", names)
    contrastive = [rule for rule in rules if rule.get("method") == "contrastive"]
    if contrastive:
        _embedder(file, "jailbreak-contrast", found)
    if len(contrastive) < len(rules) or not rules:
        _classifier(file, "jailbreak", found)


def _preference(file: RouterFile, _routing: Routing, _names: set[str], found: Found) -> None:
    if file.setting(*MODULES, "classifier", "preference", "use_contrastive") is False:
        found.outside("preference: answered by an external LLM")
        return
    _embedder(file, "preference", found)


def _modality(file: RouterFile, _routing: Routing, names: set[str], found: Found) -> None:
    where = (*MODULES, "modality_detector")
    if not file.setting(*where, "enabled"):
        found.outside("modality: used by decisions, but its module is switched off; no model runs")
        return
    path = file.setting(*where, "classifier", "model_path")
    if file.setting(*where, "method") == "keyword" or path is None:
        found.heuristics.setdefault("modality (by keywords)", set()).update(names)
        return
    cpu = _use_cpu(file.setting(*where, "classifier", "use_cpu"), default=False)
    found.inferences["modality"] = Inference("modality", Known(path, True), cpu, "sequence", CLASSIFIER_TOKENS)


def _own_classifier(_file: RouterFile, routing: Routing, names: set[str], found: Found) -> None:
    for rule in _rules(routing, "classifiers", names):
        if rule.get("type") != "local" or not rule.get("model_path"):
            found.outside(f"classifier {rule.get('name')}: answered by an external LLM")
            continue
        name = "classifier-" + "".join(c if c.isalnum() else "-" for c in str(rule["name"]).lower())
        cpu = _use_cpu(rule.get("use_cpu"), default=False)
        path = Known(rule["model_path"], True)
        found.inferences[name] = Inference(name, path, cpu, "sequence", CLASSIFIER_TOKENS)


def _rules(routing: Routing, key: str, names: set[str]) -> list[Node]:
    rules = lookup(routing.signals, key) or []
    return [rule for rule in rules if isinstance(rule, dict) and rule.get("name") in names]


SPECIAL: dict[str, Callable[[RouterFile, Routing, set[str], Found], None]] = {
    "jailbreak": _jailbreak,
    "preference": _preference,
    "modality": _modality,
    "classifier": _own_classifier,
}
