"""Memory and session load of the published models: nobody published them, so they are modeled from the architecture.

Enters: artifact, tokens, weights. Leaves: `profiles.entry.Memory` in bytes, every figure `modeled` with its formula and
doubt, and an assumed load time.

Activations of one inference of S tokens, 2 bytes each (fp16), 4 for fp32:
    linear part     (6 * 768 + 3 * 1152) * S          residual, norm, q, k, v, attention out; both GeGLU halves and their product
    SDPA adds       2 * 12 * S * S                    two score matrices of one layer (12 heads) alive at once
One score matrix at 8192 tokens, fp16, is 12 * 8192^2 * 2 = 1,610,612,736 bytes: exactly the allocation that failed in the
published experiment. That two are alive at once was measured by us on the CPU provider (facts: about 2 * heads * tokens^2
* 4 bytes), not on ROCm. Flash attention never holds a score matrix.
"""

from __future__ import annotations

from profiles import entry as entries
from profiles import quantity
from profiles.distribution import LEVELS

HIDDEN, INTERMEDIATE, HEADS = 768, 1152, 12

LINEAR = "linear part from the architecture (hidden 768, intermediate 1152), nobody measured it on this device"
SCORES = (
    "two score matrices of 12 heads alive at once: one of them at 8192 tokens is exactly the published failed allocation; "
    "that two live at once was measured on the CPU provider only"
)
LOAD = (
    "not published; 1 to 5 s is an assumption for reading some 0.6 GB and creating a session (a base model of 447 MB took "
    "1.05 s on a CPU provider, measured by us on another machine)"
)


def activation_bytes(tokens: int, width: int, *, scores: bool) -> float:
    """Modeled bytes of activations; `width` bytes a number."""
    linear = (6 * HIDDEN + 3 * INTERMEDIATE) * tokens * width
    return float(linear + (2 * HEADS * tokens * tokens * width if scores else 0))


def with_activations(weights: quantity.Figure, artifact: str, lengths: list[int]) -> entries.Memory:
    """Weights and modeled totals at each length."""
    width, scores = (4 if artifact == "fp32" else 2), artifact != "ck_fa_fp16"
    doubt = f"{LINEAR}; {SCORES}" if scores else LINEAR
    cells = tuple(
        entries.MemoryCell(
            tokens=tokens,
            peak_bytes=quantity.Figure(
                value=weights.value + activation_bytes(tokens, width, scores=scores), origin="modeled", doubt=doubt
            ),
        )
        for tokens in lengths
    )
    return entries.Memory(weights_bytes=weights, cells=cells)


def assumed_load() -> quantity.Law:
    """Seconds to load a session: an assumption, uniform from 1 to 5 s."""
    seconds = tuple(round(1 + 4 * level, 6) for level in LEVELS)
    return quantity.Law(levels=LEVELS, seconds=seconds, n=0, origin="assumed", spread_origin="assumed", doubt=LOAD)
