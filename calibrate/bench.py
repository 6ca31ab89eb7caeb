"""What every measurement beside the matrix needs: the files, what starts workers, where visits go, limits, a word to say.

Enters: cells and jobs. Leaves: visits in the journal, each on disk before the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from calibrate.artifacts import Artifact
from calibrate.jobs import job_for
from calibrate.journal import Journal
from calibrate.launch import Launch
from calibrate.plan import PlannedCell
from calibrate.results import Outcome, Role, Visit
from profiles.entry import ProviderName


@dataclass(frozen=True)
class Bench:
    """artifacts: by (model, artifact). launches: by provider. limit_s: of one worker. say: what is being done now."""

    artifacts: Mapping[tuple[str, str], Artifact]
    launches: Mapping[ProviderName, Launch]
    journal: Journal
    limit_s: float
    seed: int
    say: Callable[[str], None]

    def artifact(self, cell: PlannedCell) -> Artifact:
        return self.artifacts[cell.model, cell.artifact]

    def job(self, op: str, cell: PlannedCell, **more: Any) -> dict[str, Any]:
        """The job `op` on this cell, with what the operation needs besides."""
        return {**job_for(op, cell, self.artifact(cell), self.seed), **more}

    def launch(self, cell: PlannedCell, job: Mapping[str, Any]) -> Outcome:
        """Run a job in the runtime of the cell's provider; nothing is kept."""
        return self.launches[cell.provider](job, self.limit_s)

    def keep(self, cell: PlannedCell, role: Role, measure: Callable[[], Outcome]) -> Outcome:
        """Measure, and put the visit on disk with the time at which it began."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        outcome = measure()
        self.journal.add(Visit(cell=cell.key, role=role, started=started, outcome=outcome))
        return outcome

    def visits(self, cell: PlannedCell, role: Role) -> list[Visit]:
        """Those that the journal has already."""
        return [v for v in self.journal.visits if v.role == role and v.cell == cell.key]
