"""Different models at once, each on a session of its own.

Enters: a job with `members`, each a job of its own (model, shape, threads), and `seconds`. All start together after one
unmeasured run each, and each runs back to back until the time is over. Leaves: the `together` record with the nanoseconds
of every inference that ended, by member.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict

from .concurrency import run_at_once
from .session import create, feed


def together(job: Dict[str, Any]) -> Dict[str, Any]:
    """The record. Models are loaded one after another, before any of them runs."""
    runs = []
    for member in job["members"]:
        session = create(member)
        runs.append(partial(session.run, None, feed(session, member)))
    span_ns = int(float(job["seconds"]) * 1e9)
    ended = run_at_once(runs, span_ns)
    return {
        "kind": "together",
        "names": [member["name"] for member in job["members"]],
        "tokens": [int(member["tokens"]) for member in job["members"]],
        "span_ns": span_ns,
        "ns": ended,
    }
