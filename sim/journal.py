"""Finished tasks of a sweep on disk, so that a run that was stopped goes on where it was.

Enters: an executor and a directory. Leaves: the same outcomes; those that the directory holds are read, the others are
written as soon as they are there, each file whole or not at all. A kill at any moment loses the tasks in flight and no
more. Files are for one question: scenario, profile, trace, seed and the code that answers it; for another question the
directory is emptied first. Figures are written with every digit, so results do not depend on how often a run was stopped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from profiles.errors import SimcapError
from sim.executor import Executor, LostWorkerError, Shared
from sim.metrics import Figures
from sim.rounds import Do
from sim.sweep import Outcome

QUESTION = "question.sha256"
CODE = ("sim", "scenarios", "profiles")


class Journal(Executor):
    """An executor that keeps what another one has done in `directory`."""

    def __init__(self, executor: Executor, directory: Path) -> None:
        self._executor, self.directory = executor, directory

    def beside(self, name: str) -> Journal:
        """A journal for another pass over the same tasks, in a directory of its own below this one."""
        return Journal(self._executor, self.directory / name)

    @contextmanager
    def opened(self, shared: Shared) -> Iterator[Do]:
        question = question_of(shared)
        if not self._is_for(question):
            shutil.rmtree(self.directory, ignore_errors=True)
        with ExitStack() as stack:
            begun: list[Do] = []  # no worker is started where everything is known

            def do(tasks: Sequence[Any]) -> Generator[tuple[int, Any], None, None]:
                left = []
                for place, task in enumerate(tasks):
                    known = read(self._file(task))
                    if known is None:
                        left.append(place)
                    else:
                        yield place, Outcome(known)
                if not left:
                    return
                if not begun:
                    begun.append(stack.enter_context(self._executor.opened(shared)))
                try:
                    with closing(begun[0]([tasks[place] for place in left])) as running:
                        for k, outcome in running:
                            self._keep(question, tasks[left[k]], outcome.figures)
                            yield left[k], outcome
                except LostWorkerError as error:
                    raise LostWorkerError(
                        f"{self.directory}: {error}; {kept(self.directory)} finished parts are safe there, and the "
                        "same command goes on from them"
                    ) from None

            yield do

    def _is_for(self, question: str) -> bool:
        try:
            return (self.directory / QUESTION).read_text(encoding="ascii") == question
        except (OSError, UnicodeError):
            return False

    def _file(self, task: Sequence[Any]) -> Path:
        return self.directory / f"{'-'.join(repr(part) for part in task)}.json"

    def _keep(self, question: str, task: Sequence[Any], figures: Figures) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            _write(self.directory / QUESTION, question)
            _write(self._file(task), json.dumps(dataclasses.asdict(figures), default=_plain))
        except OSError as error:
            raise SimcapError(
                f"{self.directory}: cannot keep a finished part of the run ({error.strerror}); {kept(self.directory)} "
                "parts are safe there, and the same command goes on from them"
            ) from None


def kept(directory: Path) -> int:
    """How many tasks a directory holds."""
    return sum(1 for _ in directory.rglob("*.json")) if directory.is_dir() else 0


def read(file: Path) -> Figures | None:
    """The figures of a task, or None where they are not there or not readable."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if set(data) != {field.name for field in dataclasses.fields(Figures)}:
            return None
        memory = [(float(time), float(used)) for time, used in data["memory"]]
        compiles = [(float(begin), str(who), int(tokens), float(took)) for begin, who, tokens, took in data["compiles"]]
        return Figures(
            **data | {"memory": memory, "compiles": compiles, "histogram": np.array(data["histogram"], dtype=np.int64)}
        )
    except (OSError, ValueError, TypeError):
        return None


def question_of(shared: Shared) -> str:
    """A digest of all that figures depend on: inputs, seed, and the source of the code. Not the engine, nor workers."""
    digest = hashlib.sha256()
    for sweep in shared.sweeps:
        digest.update(sweep.scenario.model_dump_json().encode())
        digest.update(sweep.profile.model_dump_json().encode())
        digest.update(repr((sweep.seed, sweep.plausible)).encode())
        if sweep.trace is not None:
            digest.update(np.ascontiguousarray(sweep.trace.times_s).tobytes())
            for column in (sweep.trace.tokens, sweep.trace.class_of):
                digest.update(b"" if column is None else np.ascontiguousarray(column).tobytes())
    root = Path(__file__).resolve().parents[1]
    for folder in CODE:
        for source in sorted((root / folder).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _write(file: Path, text: str) -> None:
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(type(value).__name__)
