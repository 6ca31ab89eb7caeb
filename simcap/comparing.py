"""A comparison of scenarios from what a command asks: which variants, run where, written to which files.

Enters: scenarios by name or path, `--vary`, `--set`, a seed, workers or a cluster, a directory. Leaves: a `Comparison`; in the
directory `comparison.json`, `compare.html` and `plots/`, whole or not at all. Finished parts are kept beside the
directory while it runs (`sim.journal`), so the same command goes on after a stop.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from profiles.errors import InputError, SimcapError
from profiles.schema import Profile
from scenarios.schema import Scenario
from sim.rounds import Progress
from simcap import compare, replications
from simcap.comparison import Comparison
from simcap.staging import staged
from simcap.variants import Named, variants

FILE = "comparison.json"
PAGE = "compare.html"
PLOTS = "plots"

Load = Callable[[Scenario, str | None], tuple[Profile, str]]
"""The profile of a scenario, and its name, given `--profile`."""


@dataclass(frozen=True)
class Ask:
    """What the user asked for. `page`: draw compare.html, too."""

    sources: tuple[str, ...]
    vary: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    profile: str | None = None
    seed: int = 1
    page: bool = True

    def line(self) -> str:
        """The command that gives the same figures again, quoted for a shell."""
        parts = ["simcap", "compare", *self.sources]
        for flag, values in (("--vary", self.vary), ("--set", self.overrides)):
            for value in values:
                parts += [flag, value]
        if self.profile is not None:
            parts += ["--profile", self.profile]
        return shlex.join([*parts, "--seed", str(self.seed)])

    def default_target(self, profile: str) -> Path:
        """Of `simcap run --vary`: `runs/SCENARIO-PROFILE-seedN-vary` and a digest of what varies."""
        told = "\n".join((*self.vary, "", *self.overrides))
        name = f"{Path(self.sources[0]).stem}-{profile}-seed{self.seed}-vary"
        return Path("runs") / (name + hashlib.sha256(told.encode()).hexdigest()[:8])


def prepared(ask: Ask, profile_for: Load) -> list[tuple[Named, Profile]]:
    """All variants with their profiles. Raises InputError where there is nothing to compare."""
    found = variants(ask.sources, ask.vary, ask.overrides)
    if len(found) < 2:
        raise InputError("compare needs two variants or more: two scenarios, or --vary KEY=VALUE,VALUE")
    known: dict[str, Profile] = {}
    for variant in found:
        name = ask.profile or variant.scenario.profile or ""
        if name not in known:
            known[name] = profile_for(variant.scenario, ask.profile)[0]
    return [(variant, known[ask.profile or variant.scenario.profile or ""]) for variant in found]


def answered(
    ask: Ask,
    asked: Sequence[tuple[Named, Profile]],
    *,
    workers: int,
    dask: str | None,
    out: Path | None,
    progress: AbstractContextManager[Progress | None],
) -> Comparison:
    """Run all variants and compare them; with `out` write the directory."""
    journal = None if out is None else journal_of(out)
    with progress as said:
        how = replications.How(workers=workers, dask=dask, journal=journal, progress=said)
        found = replications.answers(
            [replications.Variant(variant.name, variant.scenario, profile) for variant, profile in asked],
            ask.seed,
            how,
        )
    comparison = compare.of_answers(found, [variant.settings for variant, _ in asked], ask.seed)
    notes = _notes([variant.scenario for variant, _ in asked])
    comparison = comparison.model_copy(update={"notes": notes, "command": ask.line()})
    if out is not None:
        write(comparison, out, page=ask.page)
        if journal is not None:
            shutil.rmtree(journal, ignore_errors=True)
    return comparison


def journal_of(out: Path) -> Path:
    return out.with_name(f".{out.name}.finished")


def _notes(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    others = {scenario.slo for scenario in scenarios} - {scenarios[0].slo}
    return ("The variants promise different SLOs: each is held to its own.",) if others else ()


def check_out(out: Path | None) -> None:
    """InputError unless `out` is free or holds a comparison and nothing else."""
    if out is None or not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"--out {out}: exists and is not a directory; choose another")
    foreign = [path for path in sorted(out.iterdir()) if path.name not in {FILE, PAGE, PLOTS}]
    if foreign:
        raise InputError(f"--out {out}: holds files that simcap compare did not write; choose another")


def text(comparison: Comparison) -> str:
    """comparison.json."""
    return json.dumps(comparison.model_dump(mode="json", by_alias=True), indent=1, allow_nan=False) + "\n"


def write(comparison: Comparison, out: Path, *, page: bool) -> None:
    """The directory. SimcapError: the disk does not take it; what is finished is still there."""
    try:
        with staged(out, lambda: check_out(out)) as folder:
            (folder / FILE).write_text(text(comparison), encoding="utf-8")
            if page:
                _draw(comparison, folder)
    except OSError as error:
        raise SimcapError(unwritten(out, error)) from None


def unwritten(out: Path, error: OSError) -> str:
    """What to say where results cannot be written: which, why, and what is safe."""
    from sim.journal import kept

    said = f"{out}: cannot be written ({error.strerror or error}); nothing half-written is left"
    parts = kept(journal_of(out))
    if not parts:
        return said
    return f"{said}; all {parts} finished parts are safe in {journal_of(out)}, and the same command goes on from them"


def _draw(comparison: Comparison, folder: Path) -> None:
    from simcap.report import compare_figures, compare_page
    from simcap.report.plots import save
    from simcap.rundir import versions

    drawn = compare_figures.figures(comparison)
    (folder / PAGE).write_text(compare_page.render(comparison, drawn, versions()), encoding="utf-8")
    save(drawn, folder / PLOTS)
