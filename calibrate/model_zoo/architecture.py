"""What the models of the zoo look like: sizes, heads, names.

Enters: a model name such as `mmbert32k-intent`. Leaves: a `ModelSpec`. Dimensions are those of mmBERT (a ModernBERT
encoder) as its public configurations state them: no biases, pre-norm, fused QKV, rotary positions with theta 160000,
GeGLU, attention over the whole text in every third layer (0, 3, 6, …) and over 64 neighbours either side in the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from profiles.errors import InputError, nearest
from profiles.schema import Task


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
}


@dataclass(frozen=True)
class ModelSpec:
    """Everything that determines a model file of the zoo."""

    name: str
    architecture: Architecture
    head: Head
    seed: int
    artifact: str = "fp32"

    def identity(self) -> dict[str, object]:
        """What the cache key is made of."""
        return asdict(self)


def names() -> list[str]:
    """Every model that the zoo can build."""
    return [f"{size}-{signal}" for size in SIZES for signal in HEADS]


def spec_of(name: str, seed: int, vocab: int | None = None) -> ModelSpec:
    """The specification behind a model name; InputError with the nearest name for an unknown one."""
    for size, architecture in SIZES.items():
        head = HEADS.get(name.removeprefix(f"{size}-"))
        if head is not None and name.startswith(f"{size}-"):
            return ModelSpec(name, replace(architecture, vocab=vocab or architecture.vocab), head, seed)
    raise InputError(f"no model {name!r} in the zoo; {nearest(name, names())}")
