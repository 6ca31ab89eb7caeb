"""Compile times with the on-disk cache cold and warm, and the proof of what the cache did.

For a provider that compiles: a fresh process with an empty cache directory of its own, then a NEW process with what the
first one left there. Each pair has a directory of its own, one per model, shape and round, because providers' cache
keys collide otherwise. Whether the cache was used is read from its files, never believed: written by the first process,
and by the second one read and left as they were. Enters: cells, a bench. Leaves: `compile` visits in the journal.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Literal

from calibrate.bench import Bench
from calibrate.plan import PlannedCell
from calibrate.provider_options import CACHE_OPTION
from calibrate.results import CompileRecord, Outcome
from profiles.entry import ProviderName

PER_SHAPE: dict[ProviderName, bool] = {"openvino": False, "migraphx": True}
"""Whether an unseen shape compiles again (MIGraphX) or the session is compiled once when it is made (OpenVINO)."""

ROUNDS: dict[ProviderName, int] = {"openvino": 6, "migraphx": 2}
"""Pairs of processes. Six are the fewest that give a median an interval; MIGraphX takes half a minute for each."""

Proof = Literal["used", "unread", "rewritten", "absent"]


def shapes_to_compile(cells: Sequence[PlannedCell]) -> list[PlannedCell]:
    """Every cell where each shape compiles; otherwise the smallest shape of each entry, since making a session costs the
    same whatever its lengths, and a short first run costs least.
    """
    chosen: list[PlannedCell] = []
    for entry in dict.fromkeys(c.entry for c in cells):
        own = [c for c in cells if c.entry == entry]
        if own[0].provider not in PER_SHAPE:
            continue
        chosen += own if PER_SHAPE[own[0].provider] else [min(own, key=lambda c: (c.tokens * c.batch, c.key))]
    return chosen


def measure_compiles(cells: Sequence[PlannedCell], bench: Bench) -> None:
    """Make the pairs that the journal lacks. A pair counts whole: killed between its two processes, it is made again."""
    for cell in cells:
        for round_ in range(len(bench.visits(cell, "compile")), ROUNDS[cell.provider]):
            bench.say(f"{cell.label}, compiling with its cache cold and warm, {round_ + 1} of {ROUNDS[cell.provider]}")
            outcome = bench.keep(cell, "compile", partial(_pair, cell, bench))
            if outcome.status != "done" or outcome.fell_back:
                break


def _pair(cell: PlannedCell, bench: Bench) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="simcap-cache-") as folder:
        job = bench.job("compile", cell, cache_dir=folder)
        job["provider_options"] |= {CACHE_OPTION[cell.provider]: folder}
        cold = bench.launch(cell, job)
        if cold.status != "done" or cold.fell_back:
            return cold
        warm = bench.launch(cell, job)
        both = {"wall_s": cold.wall_s + warm.wall_s}
        if warm.status != "done" or warm.fell_back:
            return warm.model_copy(update=both)
        return warm.model_copy(update={**both, "records": (*cold.records, *warm.records)})


def proof_of(warm: CompileRecord) -> Proof:
    """What the second process did with the files of the first."""
    if not warm.before:
        return "absent"
    if warm.before != warm.after:
        return "rewritten"
    return "used" if warm.read else "unread"


PROOFS: dict[Proof, str] = {
    "used": "the new process read the cache's files and left them as they were",
    "unread": "the cache's files were there and nothing was seen to read them (or the file system does not record reading)",
    "rewritten": "the cache was NOT used: its files were there, and the new process wrote them again, so it compiled again",
    "absent": "the cache was NOT used: the option was accepted and no file appeared",
}
