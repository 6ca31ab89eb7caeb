"""Which model files are measured: those of the zoo, and the user's own.

Enters: names (`mmbert32k-intent`) and arguments (`intent=/path/model.onnx`, with the task after a colon where the
outputs do not tell it: `intent:embedding=/path/model.onnx`). Leaves: `Artifact`s with path, digest and task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from calibrate.launch import Launch
from calibrate.model_zoo.architecture import spec_of
from calibrate.model_zoo.cache import ensure
from calibrate.results import TensorRecord
from calibrate.runtimes import EXECUTION_PROVIDERS
from profiles.entry import ProviderName, Task
from profiles.errors import InputError, MeasurementError, nearest

OWN_MAX_ID = 1000
"""Token ids for models of users are drawn below this: every vocabulary in use is larger, and time does not depend on them."""

INSPECT_LIMIT_S = 300.0


@dataclass(frozen=True)
class Precision:
    """A number format that a provider converts the file to while it loads it. options: what tells it to, by provider."""

    name: str
    options: Mapping[ProviderName, Mapping[str, str]]


@dataclass(frozen=True)
class Artifact:
    """One ONNX file of a model. size_bytes: of the file, external data included; max_id: token ids stay below it.

    precision: where the provider converts it, and `artifact` says so (`fp32-as-fp16`).
    """

    model: str
    artifact: str
    task: Task
    path: Path
    digest: str
    size_bytes: int
    max_id: int
    precision: Precision | None = None


def converted(artifact: Artifact, precision: Precision) -> Artifact:
    """The same file, loaded in another number format by the provider."""
    return replace(artifact, artifact=f"{artifact.artifact}-as-{precision.name}", precision=precision)


def from_zoo(name: str, cache: Path, seed: int, artifact: str = "fp32") -> Artifact:
    """A model of the zoo, built first when the cache does not have it."""
    spec = spec_of(name, seed, artifact=artifact)
    path = ensure(spec, cache)
    digest, size = digest_of([path])
    return Artifact(name, spec.artifact, spec.head.task, path, digest, size, spec.architecture.vocab)


@dataclass(frozen=True)
class OwnModel:
    """`--model name[:task]=path`, taken apart."""

    model: str
    task: Task | None
    path: Path


def parse_own(argument: str) -> OwnModel:
    """Take `name[:task]=path` apart; InputError that shows the form when it is not that."""
    left, equals, path = argument.partition("=")
    model, colon, task = left.partition(":")
    if not (equals and model and path):
        raise InputError(f"--model {argument!r}: expected name=path, as in intent=/models/intent/model.onnx")
    known: tuple[Task, ...] = get_args(Task)
    if colon and task not in known:
        raise InputError(f"--model {argument!r}: no task {task!r}; {nearest(task, known)}")
    if not Path(path).is_file():
        raise InputError(f"--model {argument!r}: {path} is not a file")
    return OwnModel(model, next((t for t in known if t == task), None), Path(path).resolve())


def from_file(own: OwnModel, launch: Launch, provider: ProviderName = "cpu", custom_ops: str | None = None) -> Artifact:
    """The user's file, loaded once in the runtime to see its inputs and outputs; the artifact is named after the file.

    custom_ops: a library without which the file may not load, for this provider.
    """
    job = {
        "op": "inspect",
        "model": str(own.path),
        "provider": EXECUTION_PROVIDERS[provider],
        "threads": 1,
        "custom_ops": custom_ops,
    }
    outcome = launch(job, INSPECT_LIMIT_S)
    if outcome.failure_type == "UnsupportedInputError":
        raise InputError(f"{own.path}: simcap cannot make up inputs for this model: {outcome.reason}")
    if outcome.status == "failed":
        raise InputError(f"{own.path}: ONNX Runtime cannot load it: {outcome.reason}")
    if outcome.status != "done":
        raise MeasurementError(f"{own.path}: looking at the model {outcome.status}: {outcome.reason}")
    if outcome.fell_back is not None and own.task is None:
        raise InputError(
            f"{own.path}: cannot be looked at without {provider}, which does not load here ({outcome.fell_back.reason}); "
            f"say its task: --model {own.model}:TASK={own.path} with TASK one of {', '.join(get_args(Task))}"
        )
    outputs = [r for r in outcome.records if isinstance(r, TensorRecord) and r.role == "output"]
    digest, size = digest_of([own.path, *external_data(own.path)])
    task = own.task or _task_of(own, outputs)
    return Artifact(own.model, own.path.stem, task, own.path, digest, size, OWN_MAX_ID)


def _task_of(own: OwnModel, outputs: Sequence[TensorRecord]) -> Task:
    first = outputs[0]
    if "logits" in first.name:
        if len(first.shape) == 3:
            return "token_classification"
        if len(first.shape) == 2:
            return "sequence_classification"
    if "embedding" in first.name or "hidden" in first.name:
        return "embedding"
    raise InputError(
        f"{own.path}: its first output {first.name!r} {list(first.shape)} does not tell the task; say it: "
        f"--model {own.model}:TASK={own.path} with TASK one of {', '.join(get_args(Task))}"
    )


def external_data(path: Path) -> list[Path]:
    """Files beside the model that hold its large weights."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    names = {
        entry.value
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [path.parent / name for name in sorted(names)]


def digest_of(paths: Sequence[Path]) -> tuple[str, int]:
    """sha256 over the files' bytes, in order, and their total size."""
    sha, size = hashlib.sha256(), 0
    for path in paths:
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 22):
                sha.update(chunk)
                size += len(chunk)
    return f"sha256:{sha.hexdigest()}", size
