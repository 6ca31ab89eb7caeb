"""`--strict`: a provider that does not do the work is an error before anything is measured or written.

Enters: cells, launchers. Each entry's smallest shape is run once with the profile on. Leaves: nothing, or a FindingError
with every entry that another provider ran and the library's reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibrate.artifacts import Artifact
from calibrate.jobs import job_for
from calibrate.launch import Launch
from calibrate.ownership import verdict_of
from calibrate.plan import PlannedCell
from calibrate.results import Visit
from profiles.entry import ProviderName
from profiles.errors import FindingError, MeasurementError


def insist(
    cells: Sequence[PlannedCell],
    artifacts: Mapping[tuple[str, str], Artifact],
    launches: Mapping[ProviderName, Launch],
    limit_s: float,
    seed: int,
) -> None:
    """Raise FindingError unless every entry's provider runs its nodes."""
    fell: list[str] = []
    for entry in dict.fromkeys(c.entry for c in cells):
        cell = min((c for c in cells if c.entry == entry), key=lambda c: (c.tokens * c.batch, c.key))
        artifact = artifacts[cell.model, cell.artifact]
        outcome = launches[cell.provider](job_for("ownership", cell, artifact, seed), limit_s)
        verdict = verdict_of(cell, [Visit(cell=cell.key, role="cell", started="", outcome=outcome)])
        if verdict is None:
            raise MeasurementError(f"--strict: {cell.label}: {outcome.status.replace('_', ' ')}: {outcome.reason}")
        if verdict.word == "fell_back":
            fell.append(f"{cell.model} {cell.artifact} on {cell.provider} fell back: {verdict.reason}")
    if fell:
        raise FindingError("--strict: nothing was measured or written:\n" + "\n".join(fell))
