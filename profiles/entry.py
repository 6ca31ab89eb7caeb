"""What a profile knows about one model x artifact x provider: the `Entry` and the parts it is made of.

Enters: JSON. Leaves: frozen models, and the curves that the simulator looks numbers up in. Seconds, bytes, tokens.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import Strict
from profiles.errors import InputError
from profiles.quantity import Figure, Law, PositiveInt
from profiles.surface import ServiceSurface, TokenCurve

ProviderName = Literal["migraphx", "rocm", "cpu", "openvino", "cuda"]
Task = Literal["sequence_classification", "token_classification", "embedding", "reranking", "multimodal"]
Cadence = Literal["tight", "paced", "unknown"]

PROVIDER_DEVICE: dict[str, Literal["gpu", "cpu"]] = {
    "migraphx": "gpu",
    "rocm": "gpu",
    "cuda": "gpu",
    "cpu": "cpu",
    "openvino": "cpu",
}
"""Which device of the node a provider's work occupies. OpenVINO here means its device CPU."""


class Cell(Law):
    """A law at one measurement point."""

    tokens: PositiveInt
    batch: PositiveInt = 1


class Surface(Strict):
    """Service time at each calibrated tokens x batch. `cadence`: how requests were spaced while it was measured."""

    cadence: Cadence
    cells: Annotated[tuple[Cell, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _one_grid(self) -> Self:
        seen: set[tuple[int, int]] = set()
        for cell in self.cells:
            if cell.levels != self.cells[0].levels:
                raise ValueError("all cells of a surface must use the same quantile levels")
            if (cell.tokens, cell.batch) in seen:
                raise ValueError(f"cell tokens={cell.tokens} batch={cell.batch} stands twice")
            seen.add((cell.tokens, cell.batch))
        return self


class OccupancyPoint(Figure):
    """Share of the device, 0 to 1, that one inference of this many tokens uses."""

    tokens: PositiveInt

    @model_validator(mode="after")
    def _share(self) -> Self:
        if not 0 < self.value <= 1:
            raise ValueError(f"occupancy must be above 0 and at most 1, found {self.value}")
        return self


class ConcurrencyPoint(Strict):
    """Several inferences of one shape at once, back to back. `slowdown`: time of one over its time alone.

    `how`: `threads` on one session, or `sessions` of their own. `rate_per_s`: of all together.
    """

    tokens: PositiveInt
    batch: PositiveInt = 1
    how: Literal["threads", "sessions"]
    width: PositiveInt
    rate_per_s: Figure
    median_s: Figure
    slowdown: Annotated[float, Field(gt=0)]


class MemoryCell(Strict):
    """Bytes of device (or host) memory above the idle baseline while this shape runs, and after it."""

    tokens: PositiveInt
    batch: PositiveInt = 1
    peak_bytes: Figure
    steady_bytes: Figure | None = None


class MemoryFit(Strict):
    """Peak bytes = weights + a + b·tokens + c·tokens², by least squares over the cells of one batch size.

    `largest_residual`: the largest of |measured - fitted| over the cells, in bytes; `cells`: how many were fitted.
    Valid between the smallest and the largest token count measured.
    """

    batch: PositiveInt = 1
    a_bytes: float
    b_bytes_per_token: float
    c_bytes_per_token2: float
    largest_residual: Annotated[float, Field(ge=0)]
    cells: Annotated[int, Field(ge=4)]


class Memory(Strict):
    """`weights_bytes`: growth from idle baseline to loaded session. `cells`: totals by shape, weights included."""

    weights_bytes: Figure | None = None
    cells: tuple[MemoryCell, ...] = ()
    fits: tuple[MemoryFit, ...] | None = None


class CompileCell(Cell):
    """Seconds that compiling one shape takes, with the on-disk cache as stated."""

    cache: Literal["cold", "warm"]


class Compile(Strict):
    """`per_shape`: True when an unseen input shape compiles (MIGraphX); False when creation compiles once.

    `cache`: what a new process did with the on-disk cache, and `proof` what that was seen by. Only `used` makes the warm
    cells loads from the cache; after any other the provider compiled again, cache or not.
    """

    per_shape: bool
    cells: tuple[CompileCell, ...] = ()
    cache: Literal["used", "unread", "rewritten", "absent"] | None = None
    proof: str | None = None


class Accuracy(Strict):
    """Drift of the outputs against a reference artifact and provider on fixed inputs. `cosine` is the least over inputs.

    `rejected` says why a gate stopped them; such an entry has no service times.
    """

    reference: str
    inputs: PositiveInt
    max_abs_difference: Figure | None = None
    mean_abs_difference: Figure | None = None
    cosine: Figure | None = None
    label_agreement: Figure | None = None
    non_finite_outputs: Annotated[int, Field(ge=0)] = 0
    rejected: str | None = None


class FellBackCell(Strict):
    """A cell that the asked provider did not run. It is in no surface. `reason`: the library's own words."""

    tokens: PositiveInt
    batch: PositiveInt = 1
    reason: str


class Ownership(Strict):
    """Who ran the nodes, from the profiling JSON. `verdict` is `owned` only when the asked provider ran the work.

    The worst verdict of the entry's cells; `fell_back` lists those cells that the provider did not run at all.
    """

    asked: ProviderName
    session_providers: tuple[str, ...]
    nodes: dict[str, int]
    seconds: dict[str, float] = {}
    cpu_operators: dict[str, int] = {}
    verdict: Literal["owned", "partial", "fell_back"]
    reason: str | None = None
    fell_back: tuple[FellBackCell, ...] = ()


class OptionEffect(Strict):
    """What was seen of a provider option that the build accepts. `none`: perhaps it is ignored, and `told` says so."""

    name: str
    value: str
    seen: Literal["outputs", "latency", "none"]
    told: str


class Provider(Strict):
    """An ONNX Runtime execution provider with the options it was given. `threads`: intra-op threads, CPU kinds only.

    `custom_ops`: file name and digest of the library of custom operators that its sessions registered.
    """

    name: ProviderName
    options: dict[str, str] = {}
    threads: PositiveInt | None = None
    custom_ops: str | None = None


class TokenizerCost(Strict):
    """Seconds = base_s + per_token_s * tokens that a tokenizer takes for a text on one CPU core.

    `largest_residual`: the largest relative error of that line at a median of `cells`.
    """

    digest: str
    base_s: Figure
    per_token_s: Figure
    cells: Annotated[tuple[Cell, ...], Field(min_length=1)]
    largest_residual: Annotated[float, Field(ge=0)]


class Entry(Strict):
    """What is known about one model x artifact x provider."""

    model: str
    artifact: str
    provider: Provider
    task: Task
    digest: str | None = None
    load: Law | None = None
    compile: Compile | None = None
    first_run: tuple[Cell, ...] = ()
    service: Surface | None = None
    paced_service: Surface | None = None
    occupancy: tuple[OccupancyPoint, ...] = ()
    concurrency: tuple[ConcurrencyPoint, ...] | None = None
    memory: Memory | None = None
    accuracy: Accuracy | None = None
    ownership: Ownership | None = None
    effects: tuple[OptionEffect, ...] | None = None
    tokenizer: TokenizerCost | None = None

    @property
    def key(self) -> str:
        return f"{self.model} {self.artifact} on {self.provider.name}"

    @property
    def device(self) -> Literal["gpu", "cpu"]:
        return PROVIDER_DEVICE[self.provider.name]

    def surface(self, cadence: Literal["tight", "paced"] | None = None) -> ServiceSurface:
        """The service surface for look-ups; `cadence` None takes the one there is, `service` first."""
        chosen = self.service or self.paced_service
        if cadence is not None:
            chosen = next((s for s in (self.service, self.paced_service) if s and s.cadence == cadence), None)
        if chosen is None:
            reasons = (self.ownership and self.ownership.reason, self.accuracy and self.accuracy.rejected)
            why = "".join(f"; {reason}" for reason in reasons if reason)
            kind = f"{cadence} " if cadence else ""
            raise InputError(f"{self.key}: the profile has no {kind}service times for it{why}")
        grid: dict[int, dict[int, tuple[float, ...]]] = {}
        for cell in chosen.cells:
            grid.setdefault(cell.batch, {})[cell.tokens] = cell.seconds
        return ServiceSurface(self.key, chosen.cells[0].levels, grid)

    def occupancy_curve(self) -> TokenCurve:
        """Occupancy over tokens; InputError when the profile has none."""
        if not self.occupancy:
            raise InputError(
                f"{self.key}: the profile has no occupancy; measure it, or state it as assumed in the profile"
            )
        return TokenCurve(f"occupancy of {self.key}", {p.tokens: p.value for p in self.occupancy})

    def activation_curve(self) -> TokenCurve:
        """Bytes above the weights while one inference of this many tokens runs, a power law between the cells."""
        memory = self.memory
        if memory is None or memory.weights_bytes is None or not memory.cells:
            raise InputError(
                f"{self.key}: the profile has no memory by shape; measure it, or leave node.memory out of the scenario"
            )
        weights = memory.weights_bytes.value
        points = {c.tokens: max(c.peak_bytes.value - weights, 1.0) for c in memory.cells if c.batch == 1}
        return TokenCurve(f"memory of {self.key}", points, power_law=True)

    def compile_surface(self, cache: Literal["cold", "warm"]) -> ServiceSurface:
        """Seconds to get the program of a shape, compiled (cold) or loaded from the on-disk cache (warm)."""
        cells = [c for c in self.compile.cells if c.cache == cache] if self.compile else []
        if not cells:
            raise InputError(f"{self.key}: the profile has no {cache} compile time; measure it")
        grid: dict[int, dict[int, tuple[float, ...]]] = {}
        for cell in cells:
            grid.setdefault(cell.batch, {})[cell.tokens] = cell.seconds
        return ServiceSurface(f"{cache} compile of {self.key}", cells[0].levels, grid)
