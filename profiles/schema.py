"""The profile file, `simcap.profile/1`: everything known about models on one machine.

Enters: JSON. Leaves: frozen models. Every number carries its origin (`measured`, `published`, `modeled`, `assumed`)
and, where there is one, the key of its source in `sources` and the doubt that attaches to it. Seconds, bytes, tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.distribution import QuantileLaw, problem_with
from profiles.document import Strict, nearest
from profiles.errors import InputError
from profiles.surface import ServiceSurface, TokenCurve

Origin = Literal["measured", "published", "modeled", "assumed"]
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

PositiveInt = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Figure(Strict):
    """One number with its origin. `lo` and `hi` bound it at 95 % where that is known."""

    value: float
    origin: Origin
    source: str | None = None
    doubt: str | None = None
    n: Annotated[int, Field(ge=0)] | None = None
    lo: float | None = None
    hi: float | None = None


class Law(Strict):
    """A distribution of seconds as quantiles. `n` counts the samples behind it (0 for what nobody measured);
    `median_lo` and `median_hi` bound the median at 95 % where that is known.

    `run_medians`: where several runs were merged, the median of each: the spread between runs, which the law itself, the
    average of the runs' quantile functions, leaves out.

    `origin` speaks for the location, `spread_origin` for the shape around it: a published median with a spread that we
    assumed has `published` and `assumed`.
    """

    levels: tuple[float, ...]
    seconds: tuple[Seconds, ...]
    n: Annotated[int, Field(ge=0)]
    origin: Origin
    spread_origin: Origin
    median_lo: Seconds | None = None
    median_hi: Seconds | None = None
    run_medians: Annotated[tuple[Seconds, ...], Field(min_length=1)] | None = None
    source: str | None = None
    doubt: str | None = None

    @model_validator(mode="after")
    def _well_formed(self) -> Self:
        problem = problem_with(self.levels, self.seconds)
        if problem:
            raise ValueError(problem)
        return self

    def law(self) -> QuantileLaw:
        return QuantileLaw(self.levels, self.seconds)


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


class Provider(Strict):
    """An ONNX Runtime execution provider with the options it was given. `threads`: intra-op threads, CPU kinds only."""

    name: ProviderName
    options: dict[str, str] = {}
    threads: PositiveInt | None = None


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


class Device(Strict):
    """The accelerator or CPU measured. `catalog`: key of the hardware catalog (`mi300x`, `cpu`, …)."""

    catalog: str
    kind: Literal["gpu", "cpu"]
    name: str
    memory_bytes: Figure | None = None
    cores: PositiveInt | None = None
    partition: str | None = None


class Host(Strict):
    """The machine around the device."""

    cpu: str
    cores: PositiveInt | None = None
    memory_bytes: Annotated[int, Field(ge=1)] | None = None
    os: str | None = None


class Source(Strict):
    """Where published numbers come from. `trust`: A read in source or official docs, B published measurement, C secondary, D derived."""

    title: str
    url: str | None = None
    date: str | None = None
    trust: Literal["A", "B", "C", "D"] | None = None
    doubt: str | None = None


class RouterOverhead(Strict):
    """Router CPU seconds a request: base + per_token * tokens."""

    base_s: Figure
    per_token_s: Figure


class Profile(Strict):
    """The whole file. `runs`: where runs were merged, each one's start and digest, so that none is counted twice."""

    schema_version: Literal["simcap.profile/1"] = Field(alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    description: str
    created: str
    runs: tuple[str, ...] | None = None
    device: Device
    host: Host | None = None
    software: dict[str, str] = {}
    sources: dict[str, Source] = {}
    router: RouterOverhead | None = None
    notes: tuple[str, ...] = ()
    entries: tuple[Entry, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        seen: set[str] = set()
        for entry in self.entries:
            if entry.key in seen:
                raise ValueError(f"entry {entry.key} stands twice")
            seen.add(entry.key)
        for source in _sources_named(self):
            if source not in self.sources:
                raise ValueError(f"source {source!r} is named but not listed; {nearest(source, self.sources)}")
        return self

    def entry(self, model: str, artifact: str, provider: str) -> Entry:
        """The entry of model x artifact x provider; InputError with the nearest valid name otherwise."""
        for e in self.entries:
            if (e.model, e.artifact, e.provider.name) == (model, artifact, provider):
                return e
        models = sorted({e.model for e in self.entries})
        if model not in models:
            raise InputError(f"profile {self.name} has no model {model!r}; {nearest(model, models)}")
        have = sorted({f"{e.artifact} on {e.provider.name}" for e in self.entries if e.model == model})
        raise InputError(
            f"profile {self.name} has {model} not as {artifact!r} on {provider!r}; {nearest(f'{artifact} on {provider}', have)}"
        )


def _sources_named(model: Strict) -> Iterable[str]:
    """Every `source` key used anywhere in the file."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name == "source" and value is not None:
            yield value
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Strict) and not isinstance(item, Source):
                yield from _sources_named(item)


def origins(model: Strict) -> dict[str, int]:
    """How many numbers of each origin stand below `model` (a law counts once by location, once by spread)."""
    counts: dict[str, int] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name in {"origin", "spread_origin"}:
            counts[value] = counts.get(value, 0) + 1
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Strict):
                for origin, count in origins(item).items():
                    counts[origin] = counts.get(origin, 0) + count
    return counts
