"""What every job about one cell tells the worker.

Enters: a cell, its artifact, a seed. Leaves: the job as a JSON mapping: which file, on which provider, with which shape
and inputs. What the operation needs beside that its own room adds.
"""

from __future__ import annotations

from typing import Any

from calibrate.artifacts import Artifact
from calibrate.plan import PlannedCell
from calibrate.runtimes import EXECUTION_PROVIDERS


def job_for(op: str, cell: PlannedCell, artifact: Artifact, seed: int) -> dict[str, Any]:
    """The job `op` of the worker on this cell."""
    return {
        "op": op,
        "model": str(artifact.path),
        "provider": EXECUTION_PROVIDERS[cell.provider],
        "provider_options": dict(cell.options),
        "custom_ops": cell.library.path if cell.library else None,
        "threads": cell.threads,
        "tokens": cell.tokens,
        "batch": cell.batch,
        "max_id": artifact.max_id,
        "seed": seed,
    }
