"""The validation record, `simcap.validation/1`: what simcap said, what was measured, and how far apart they lie.

Enters: rows that a check made, and the profile file that it is about. Leaves: `<profile>.validation-<kind>.json` beside
that profile, or in the user's data directory where the profile ships with simcap or its place cannot be written. A
record holds the SHA-256 of the profile: it applies to those very bytes and to nothing else. Seconds, requests a
second, shares 0 to 1; `error` = predicted / measured - 1.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from profiles import store
from profiles.document import Strict, load_json
from profiles.errors import InputError
from profiles.store import write_whole

Kind = Literal["theory", "published", "live", "metrics"]
KINDS: tuple[Kind, ...] = ("theory", "published", "live", "metrics")
Verdict = Literal["pass", "attention"]


class Estimate(Strict):
    """A figure with its interval (95 % unless the row's remark says otherwise), or a range that bounds it.

    A histogram's bucket has `lo` and `hi` and no `value`; `hi` None beside a `lo` means: no upper bound.
    """

    value: float | None = None
    lo: float | None = None
    hi: float | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.value is None and self.lo is None and self.hi is None:
            raise ValueError("an estimate needs a value or a bound")
        if self.lo is not None and self.hi is not None and self.lo > self.hi:
            raise ValueError(f"lo {self.lo} is above hi {self.hi}")
        return self


class Row(Strict):
    """One comparison. `where`: the point (`closed, 4 clients`); `figure`: what is compared (`p95`), in `unit`.

    `basis`: `prediction`, from the profile alone; or `law`, where the simulator was given the service times that were
    measured in the same run. `counted`: False keeps a row on show and out of the summary; `remark` says why.
    """

    where: str
    figure: str
    unit: Literal["s", "requests/s", "share", "count", ""] = "s"
    basis: Literal["prediction", "law"] = "prediction"
    measured: Estimate | None = None
    predicted: Estimate | None = None
    error: float | None = None
    counted: bool = True
    remark: str = ""


class ProfileRef(Strict):
    """The profile file that was checked, by its name and its bytes."""

    name: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Machine(Strict):
    """Where the check ran. `software`: versions that shape the figures."""

    cpu: str
    cores: int
    memory_bytes: int
    os: str
    kernel: str
    software: dict[str, str] = {}


class Validation(Strict):
    """The whole file. `summary`: one sentence. `notes`: what a reader must know before relying on it."""

    schema_version: Literal["simcap.validation/1"] = Field(alias="schema", default="simcap.validation/1")
    kind: Kind
    profile: ProfileRef | None = None
    scenario: str | None = None
    date: AwareDatetime
    machine: Machine
    command: str
    verdict: Verdict
    summary: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """What lies beside a profile. `outdated`: how many records are of other bytes of it; `unreadable`: why, one a file."""

    applying: tuple[Validation, ...] = ()
    outdated: int = 0
    unreadable: tuple[str, ...] = ()


def reference(name: str, path: Path) -> ProfileRef:
    """The profile as a record names it."""
    return ProfileRef(name=name, sha256=digest(path))


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def now() -> datetime:
    """The date of a record."""
    return datetime.now(UTC).replace(microsecond=0)


def this_machine(software: dict[str, str] | None = None) -> Machine:
    """The machine at hand; `software`: versions beside those of Python and our packages."""
    from calibrate.machine import machine
    from simcap.rundir import versions

    seen = machine()
    return Machine(
        cpu=seen.cpu,
        cores=seen.cores,
        memory_bytes=seen.memory_bytes,
        os=seen.os,
        kernel=seen.kernel,
        software=versions() | (software or {}),
    )


def dumps(validation: Validation) -> str:
    """The record as JSON text, keys in schema order, absent values left out."""
    return json.dumps(validation.model_dump(mode="json", by_alias=True, exclude_none=True), indent=1) + "\n"


def write(validation: Validation, profile_path: Path) -> Path:
    """Write the record where `applying` finds it and return that path; a record of the same kind is replaced."""
    if validation.profile is None or validation.profile.sha256 != digest(profile_path):
        raise InputError(f"{profile_path}: changed while it was checked; run the check again")
    content = dumps(validation).encode()
    beside = beside_profile(profile_path, validation.kind)
    if profile_path.resolve().parent != store.SHIPPED.resolve() and os.access(beside.parent, os.W_OK):
        write_whole(beside, content)
        return beside
    own = _own(profile_path, validation.kind)
    write_whole(own, content)
    return own


def beside_profile(profile_path: Path, kind: Kind) -> Path:
    """`<stem>.validation-<kind>.json` in the profile's own folder."""
    return profile_path.parent / f"{_stem(profile_path)}.validation-{kind}.json"


def applying(profile_path: Path) -> tuple[Validation, ...]:
    """The records that are of these very bytes of the profile, newest first."""
    return look(profile_path).applying


def look(profile_path: Path) -> Found:
    """All that is recorded about a profile; a file that cannot be read is named and stops nothing."""
    of, records, outdated, unreadable = digest(profile_path), list[Validation](), 0, list[str]()
    for kind in KINDS:
        for path in (beside_profile(profile_path, kind), _own(profile_path, kind)):
            if not path.is_file():
                continue
            try:
                read = load_json(path, Validation)
            except InputError as error:
                unreadable.append(str(error))
                continue
            if read.profile is None or read.profile.sha256 != of:
                outdated += 1
            else:
                records.append(read)
    return Found(_newest_first(records), outdated, tuple(unreadable))


def _newest_first(records: Sequence[Validation]) -> tuple[Validation, ...]:
    return tuple(sorted(records, key=lambda record: record.date, reverse=True))


def _own(profile_path: Path, kind: Kind) -> Path:
    """A place of the user's, by the profile's bytes: two profiles of one name do not meet there."""
    root = os.environ.get("XDG_DATA_HOME")
    folder = (Path(root) if root else Path.home() / ".local" / "share") / "simcap" / "validations"
    return folder / f"{_stem(profile_path)}-{digest(profile_path)[:12]}.validation-{kind}.json"


def _stem(profile_path: Path) -> str:
    return profile_path.name.removesuffix(".json").removesuffix(".profile")
