"""Outputs on fixed inputs, to compare providers by.

Enters: a job with a shape, `inputs` (how many texts) and `outputs` (a file to write). Every runtime draws the same token
ids from the same seed. Leaves: a `.npy` file with the model's first output, one text after another along axis 0, in
float32; a record with its name and shape. Comparing is not this process's work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np

from .session import create, feed


def save_outputs(job: Dict[str, Any]) -> Dict[str, Any]:
    """Run the texts one by one and write the file."""
    session = create(job)
    rows = []
    for number in range(int(job["inputs"])):
        inputs = feed(session, {**job, "batch": 1, "seed": int(job["seed"]) + number})
        rows.append(np.asarray(session.run(None, inputs)[0], dtype=np.float32))
    stacked = np.concatenate(rows, axis=0)
    with Path(job["outputs"]).open("wb") as stream:
        np.save(stream, stacked, allow_pickle=False)
    return {"kind": "outputs", "name": session.get_outputs()[0].name, "shape": list(stacked.shape)}
