"""What a worker says, and what the journal keeps: the contract between the measuring process and us.

Enters: JSON lines of a worker. Leaves: frozen records; anything else is refused, since a worker that writes garbage
must cost its cell and nothing more. Times are integer nanoseconds, memory is bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from profiles.document import Strict

Nanoseconds = Annotated[int, Field(gt=0)]
Bytes = Annotated[int, Field(ge=0)]
Status = Literal["done", "failed", "crashed", "timed_out", "out_of_memory", "garbage"]
Role = Literal["cell", "sentinel", "compile", "drift", "concurrency", "together", "effect", "tokenizer"]


class RuntimeRecord(Strict):
    """`providers`: compiled into the build; `loader`: why the library of the one asked about does not load."""

    kind: Literal["runtime"]
    python: str
    numpy: str
    onnxruntime: str
    providers: tuple[str, ...]
    loader: str | None = None


class TensorRecord(Strict):
    """An input or output of a model. `shape`: a number, a symbolic name, or null where the model says nothing."""

    kind: Literal["tensor"]
    role: Literal["input", "output"]
    name: str
    dtype: str
    shape: tuple[int | str | None, ...]


class LoadedRecord(Strict):
    kind: Literal["loaded"]
    ns: tuple[Nanoseconds, ...]
    session_providers: tuple[str, ...]


class FirstRunRecord(Strict):
    kind: Literal["first_run"]
    ns: tuple[Nanoseconds, ...]
    non_finite: Annotated[int, Field(ge=0)]


class MemoryRecord(Strict):
    """`device`: bytes in use on the whole device, by whomever; otherwise resident bytes of the worker."""

    kind: Literal["memory"]
    idle_bytes: Bytes
    load_peak_bytes: Bytes
    loaded_bytes: Bytes
    peak_bytes: Bytes
    steady_bytes: Bytes
    how: Literal["high_water_mark", "sampled"]
    device: bool = False


class LatencyRecord(Strict):
    """`ns` in the order measured; the first `warm_up` of them are warm-up. `stopped`: what ended the sampling."""

    kind: Literal["latency"]
    cadence: Literal["tight", "paced"]
    ns: Annotated[tuple[Nanoseconds, ...], Field(min_length=1)]
    warm_up: Annotated[int, Field(ge=0)]
    stopped: Literal["narrow", "budget"]
    mean_gap_s: float | None = None

    @property
    def settled_s(self) -> list[float]:
        """Seconds of the inferences after warm-up."""
        return [ns / 1e9 for ns in self.ns[self.warm_up :]]


class OwnershipRecord(Strict):
    kind: Literal["ownership"]
    session_providers: tuple[str, ...]
    nodes: dict[str, int]
    ns: dict[str, float]
    cpu_operators: dict[str, int]


class FellBackRecord(Strict):
    """No session with the provider could be made. `session_providers`: what the session had, empty when there was none."""

    kind: Literal["fell_back"]
    reason: Annotated[str, Field(min_length=1)]
    session_providers: tuple[str, ...] = ()


class OptionRecord(Strict):
    """Whether this build knows a provider option; `reason` is the library's when it does not."""

    kind: Literal["option"]
    name: str
    value: str
    accepted: bool
    reason: str | None = None


class CacheFile(Strict):
    """A file of a compile cache. `changed_ns` and `number` (inode) differ after it was written again."""

    name: str
    bytes: Bytes
    changed_ns: int
    number: int


class CompileRecord(Strict):
    """One session in a fresh process, with the cache's files before and after; `read`: those that were read meanwhile."""

    kind: Literal["compile"]
    create_ns: Nanoseconds
    first_run_ns: Nanoseconds
    before: tuple[CacheFile, ...]
    after: tuple[CacheFile, ...]
    read: tuple[str, ...]


class ConcurrencyRecord(Strict):
    """Inferences that ended within `span_ns`, `width` at once on one session (`threads`) or on a session each."""

    kind: Literal["concurrency"]
    how: Literal["threads", "sessions"]
    width: Annotated[int, Field(ge=1)]
    span_ns: Nanoseconds
    ns: Annotated[tuple[Nanoseconds, ...], Field(min_length=1)]


class TogetherRecord(Strict):
    """Different models at once, each back to back on a session of its own. `names`, `tokens`, `ns`: by member."""

    kind: Literal["together"]
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    tokens: tuple[int, ...]
    span_ns: Nanoseconds
    ns: tuple[tuple[Nanoseconds, ...], ...]


class EffectRecord(Strict):
    """One provider option against none, in turns. `with_s`, `without_s`: medians of each turn.

    `max_abs`: largest difference of outputs; `noise`: the same between two runs that both had the option.
    """

    kind: Literal["effect"]
    name: str
    value: str
    max_abs: Annotated[float, Field(ge=0)]
    noise: Annotated[float, Field(ge=0)]
    with_s: Annotated[tuple[float, ...], Field(min_length=1)]
    without_s: Annotated[tuple[float, ...], Field(min_length=1)]


class TokenizedRecord(Strict):
    """Texts of about so many tokens, each encoded once. `tokens`: what the tokenizer made of them, the median."""

    kind: Literal["tokenized"]
    tokens: Annotated[int, Field(ge=1)]
    ns: Annotated[tuple[Nanoseconds, ...], Field(min_length=1)]


class BurstsRecord(Strict):
    """`width` inferences that started at one instant, burst after burst: nanoseconds to each end, CPU time of each, and how
    often the system took the core from its thread.
    """

    kind: Literal["bursts"]
    width: Annotated[int, Field(ge=1)]
    ends: Annotated[tuple[tuple[Nanoseconds, ...], ...], Field(min_length=1)]
    cpu: tuple[tuple[Nanoseconds, ...], ...]
    switches: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...]


class SentinelLook(Strict):
    """Nanoseconds of a fixed small inference, back to back: one alone, and one on each of several threads at once."""

    alone: Annotated[tuple[Nanoseconds, ...], Field(min_length=1)]
    together: Annotated[tuple[Nanoseconds, ...], Field(min_length=1)]


class LiveRecord(Strict):
    """A load that was played for real; the steps of its requests stand in a file of their own.

    `sentinels`: before and after. `pulses`: CPU nanoseconds of the sentinel's inference while the load ran. `own_cores`, `other_cores`, `stolen_cores`: mean cores that we, others, and the
    hypervisor used meanwhile; null where the system does not tell.
    """

    kind: Literal["live"]
    sentinels: Annotated[tuple[SentinelLook, ...], Field(min_length=1)]
    pulses: tuple[Nanoseconds, ...] = ()
    span_s: Annotated[float, Field(gt=0)]
    own_cores: Annotated[float, Field(ge=0)]
    other_cores: Annotated[float, Field(ge=0)] | None
    stolen_cores: Annotated[float, Field(ge=0)] | None


class OutputsRecord(Strict):
    kind: Literal["outputs"]
    name: str
    shape: tuple[int, ...]


class AccuracyRecord(Strict):
    """Outputs against a reference's, over `inputs` texts. `cosine`, `label_agreement`: where the task has them."""

    kind: Literal["accuracy"]
    reference: str
    inputs: Annotated[int, Field(ge=1)]
    max_abs: float | None = None
    mean_abs: float | None = None
    cosine: float | None = None
    label_agreement: float | None = None
    non_finite: Annotated[int, Field(ge=0)]


class FailureRecord(Strict):
    kind: Literal["failure"]
    type: str
    message: str


class EndRecord(Strict):
    kind: Literal["end"]


Record = Annotated[
    RuntimeRecord
    | TensorRecord
    | LoadedRecord
    | FirstRunRecord
    | MemoryRecord
    | LatencyRecord
    | OwnershipRecord
    | FellBackRecord
    | OptionRecord
    | CompileRecord
    | OutputsRecord
    | ConcurrencyRecord
    | TogetherRecord
    | EffectRecord
    | TokenizedRecord
    | BurstsRecord
    | LiveRecord
    | AccuracyRecord
    | FailureRecord
    | EndRecord,
    Field(discriminator="kind"),
]

RECORD: TypeAdapter[Record] = TypeAdapter(Record)


class Outcome(Strict):
    """How one worker ended. `reason` says why when it is not `done`; `records` are kept only when it is."""

    status: Status
    records: tuple[Record, ...] = ()
    reason: str | None = None
    failure_type: str | None = None
    wall_s: Annotated[float, Field(ge=0)]

    @property
    def fell_back(self) -> FellBackRecord | None:
        """What the worker said when no session with the provider could be made."""
        return next((r for r in self.records if isinstance(r, FellBackRecord)), None)


class Visit(Strict):
    """One measurement of one cell: a line of the journal. A cell may be visited again to narrow its interval.

    `compile`: a pair of fresh processes, the first with an empty cache, the second with what the first left there;
    `drift`: the cell's outputs compared with the reference's; `concurrency`: several at once; `together`: this model beside
    others; `effect`: with and without a provider option; `tokenizer`: of the model's text.
    """

    cell: str
    role: Role
    started: str
    outcome: Outcome
