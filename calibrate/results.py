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
Status = Literal["done", "failed", "crashed", "timed_out", "garbage"]


class RuntimeRecord(Strict):
    kind: Literal["runtime"]
    python: str
    numpy: str
    onnxruntime: str
    providers: tuple[str, ...]


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
    kind: Literal["memory"]
    idle_bytes: Bytes
    load_peak_bytes: Bytes
    loaded_bytes: Bytes
    peak_bytes: Bytes
    steady_bytes: Bytes
    how: Literal["high_water_mark", "sampled"]


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


class Visit(Strict):
    """One measurement of one cell: a line of the journal. A cell may be visited again to narrow its interval."""

    cell: str
    role: Literal["cell", "sentinel"]
    started: str
    outcome: Outcome
