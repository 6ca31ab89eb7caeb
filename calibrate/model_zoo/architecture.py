"""What the models of the zoo look like: sizes, heads, names.

Enters: a model name such as `mmbert32k-intent`, or `mmbert32k-embedding-l6-d256` for an early exit and a shorter embedding
(2-D Matryoshka), and an artifact. Leaves: a `ModelSpec`. Dimensions are those of mmBERT (a ModernBERT
encoder) as its public configurations state them: no biases, pre-norm, fused QKV, rotary positions with theta 160000,
GeGLU, attention over the whole text in every third layer (0, 3, 6, …) and over 64 neighbours either side in the others.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace

from profiles.entry import Task
from profiles.errors import InputError, nearest


@dataclass(frozen=True)
class Architecture:
    """Dimensions of an encoder. `window`: neighbours seen on either side in local layers."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab: int = 1024  # the true 256000 rows cost memory but no time: a lookup touches only the rows it needs
    window: int = 64
    global_every: int = 3
    rope_theta: float = 160_000.0
    norm_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    def is_global(self, layer: int) -> bool:
        return layer % self.global_every == 0

    @property
    def encoder_parameters(self) -> int:
        """Weights of blocks and norms, the token embedding left out."""
        h, m = self.hidden, self.intermediate
        block = 3 * h * h + h * h + 2 * h * m + m * h
        norms = 1 + (self.layers - 1) + self.layers + 1  # embedding; attention (not in block 0); MLP; final
        return self.layers * block + norms * h


@dataclass(frozen=True)
class Vision:
    """Dimensions of an image tower; `side` and `patch` in pixels, `shared`: of the space that images and texts share."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    side: int
    patch: int
    shared: int
    channels: int = 3
    norm_eps: float = 1e-6

    @property
    def patches(self) -> int:
        return (self.side // self.patch) ** 2


VISION = Vision(layers=12, hidden=384, heads=6, intermediate=1536, side=224, patch=16, shared=384)
"""ViT-S/16. The router's multi-modal-embed-small has 384 shared dimensions; its towers' sizes are not public: an assumption."""

SIZES: dict[str, Architecture] = {
    "mmbert32k": Architecture(layers=22, hidden=768, heads=12, intermediate=1152),
    "mmbert-small": Architecture(layers=22, hidden=384, heads=6, intermediate=1152),
    "mmbert-mini": Architecture(layers=6, hidden=384, heads=6, intermediate=1152),
}
"""Family name -> dimensions. `mmbert32k` is mmBERT-base; `mmbert-mini` exists for demonstrations and tests only."""


@dataclass(frozen=True)
class Head:
    """What stands on the encoder. `outputs`: labels, or None for an embedding as wide as the encoder."""

    task: Task
    outputs: int | None


HEADS: dict[str, Head] = {
    "intent": Head("sequence_classification", 14),
    "jailbreak": Head("sequence_classification", 2),
    "fact-check": Head("sequence_classification", 2),
    "user-feedback": Head("sequence_classification", 4),
    "modality": Head("sequence_classification", 3),
    "pii": Head("token_classification", 35),
    "embedding": Head("embedding", None),
    "reranker": Head("reranking", 1),
    "multimodal": Head("multimodal", None),
}

ARTIFACTS = ("fp32", "fp16")
"""What the zoo builds of each model: weights and activations in float32, or in float16 (token ids int64, outputs float32)."""

EXIT_LAYERS = (6, 11, 16, 22)
DIMENSIONS = (64, 128, 256, 512, 768)
"""Exits and lengths of mmbert-embed-32k-2d-matryoshka; a smaller size has those that fit."""


@dataclass(frozen=True)
class ModelSpec:
    """Everything that determines a model file of the zoo."""

    name: str
    architecture: Architecture
    head: Head
    seed: int
    artifact: str = "fp32"
    exit_layer: int | None = None
    dimensions: int | None = None
    vision: Vision | None = None

    def identity(self) -> dict[str, object]:
        """What the cache key is made of; what a model does not have is left out."""
        optional = {"exit_layer", "dimensions", "vision"}
        return {key: value for key, value in asdict(self).items() if key not in optional or value is not None}


def names() -> list[str]:
    """Every model that the zoo can build, exits left out."""
    return [f"{size}-{signal}" for size in SIZES for signal in HEADS]


def spec_of(name: str, seed: int, vocab: int | None = None, artifact: str = "fp32") -> ModelSpec:
    """The specification behind a model name; InputError with the nearest for an unknown name, exit or artifact."""
    if artifact not in ARTIFACTS:
        raise InputError(f"no artifact {artifact!r} in the zoo; {nearest(artifact, ARTIFACTS)}")
    for size, architecture in SIZES.items():
        signal, *options = _parts(name.removeprefix(f"{size}-"))
        head = HEADS.get(signal)
        if head is not None and name.startswith(f"{size}-"):
            exit_layer, dimensions = _exit(name, head, architecture, options)
            sized = replace(architecture, vocab=vocab or architecture.vocab)
            vision = VISION if head.task == "multimodal" else None
            return ModelSpec(name, sized, head, seed, artifact, exit_layer, dimensions, vision)
    raise InputError(f"no model {name!r} in the zoo; {nearest(name, names())}")


def _parts(rest: str) -> tuple[str, int | None, int | None]:
    """`embedding-l6-d256` -> (`embedding`, 6, 256)."""
    found = re.fullmatch(r"(.+?)(?:-l(\d{1,6}))?(?:-d(\d{1,6}))?", rest)
    if found is None:
        return rest, None, None
    signal, layer, dimensions = found.groups()
    return signal, int(layer) if layer else None, int(dimensions) if dimensions else None


def _exit(name: str, head: Head, architecture: Architecture, asked: list[int | None]) -> tuple[int | None, int | None]:
    """Exit layer and dimensions, each checked against what the size has."""
    for value, known, limit, what in zip(
        asked,
        (EXIT_LAYERS, DIMENSIONS),
        (architecture.layers, architecture.hidden),
        ("layer", "dimensions"),
        strict=True,
    ):
        if value is None:
            continue
        if head.task != "embedding":
            raise InputError(f"{name!r}: only an embedding has exits; leave out -l and -d")
        valid = [k for k in known if k <= limit]
        if value not in valid:
            raise InputError(f"{name!r}: no exit at {what} {value}; {nearest(str(value), map(str, valid))}")
    return asked[0], asked[1]
