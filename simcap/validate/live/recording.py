"""What was played, kept on disk: one .npz a point and run, with everything that judging needs.

Enters: `Played`, the point, the run. Leaves: files `<point>-run<k>.npz` in a folder, whole or not at all, and back from
them `Recording`s. A folder is of one scenario and one seed, as its `live.json` says; another scenario may be judged against
it, another may not be played into it. Seconds.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrate.live import Load, Played
from calibrate.results import LiveRecord
from profiles.errors import InputError
from profiles.store import write_whole
from simcap.validate.live.points import Point

STEPS = ("arrived", "answered", "ready", "locked", "started", "ended", "cpu_s")
NOTE = "live.json"


@dataclass(frozen=True)
class Recording:
    """A point of a run as it was played. class_of: (n,) of each request. when: date and time in UTC."""

    point: Point
    run: int
    class_of: np.ndarray[tuple[int], np.dtype[np.int64]]
    played: Played
    when: str


class Folder:
    """Recordings on disk. identity: what must be equal to play into it."""

    def __init__(self, path: Path, identity: dict[str, Any] | None = None) -> None:
        self.path = path
        note = path / NOTE
        if note.is_file():
            self.identity: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
            for key, value in (identity or {}).items():
                if self.identity.get(key) != value:
                    raise InputError(
                        f"{path} holds a run with another {key} ({self.identity.get(key)!r}, now {value!r}); "
                        "name another --played folder, or judge it as it is with --judge"
                    )
        elif identity is None:
            raise InputError(f"{path}: no recordings of a live run there ({NOTE} is missing)")
        else:
            path.mkdir(parents=True, exist_ok=True)
            write_whole(note, (json.dumps(identity, indent=1) + "\n").encode())
            self.identity = identity

    def file(self, point: Point, run: int) -> Path:
        return self.path / f"{point.key}-run{run}.npz"

    def save(self, recording: Recording) -> None:
        p, point = recording.played, recording.point
        about = {
            "loop": point.loop,
            "clients": point.clients,
            "share": point.share,
            "rps": point.rps,
            "run": recording.run,
            "when": recording.when,
            "record": p.record.model_dump(mode="json"),
        }
        stream = io.BytesIO()
        np.savez_compressed(
            stream,
            about=np.array(json.dumps(about)),
            class_of=recording.class_of,
            needed=p.load.needed,
            tokens=p.load.tokens,
            times_s=p.load.times_s,
            **{name: getattr(p, name) for name in STEPS},
        )
        write_whole(self.file(point, recording.run), stream.getvalue())

    def read(self) -> list[Recording]:
        """All of them, closed points first, by load and run."""
        found = [_read(path) for path in sorted(self.path.glob("*-run*.npz"))]
        return sorted(found, key=lambda r: (r.point.loop, r.point.clients, r.point.share, r.run))


def _read(path: Path) -> Recording:
    with np.load(path) as data:
        about = json.loads(str(data["about"]))
        point = Point(about["loop"], about["clients"], about["share"], about["rps"])
        load = Load(data["needed"], data["tokens"], data["times_s"], point.clients)
        record = LiveRecord.model_validate(about["record"])
        played = Played(load=load, record=record, **{name: data[name] for name in STEPS})
        return Recording(point, about["run"], data["class_of"], played, about["when"])
