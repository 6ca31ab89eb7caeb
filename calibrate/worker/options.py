"""Which provider options this build knows.

Enters: a job with a small `model`, a `provider` and `candidates` (name -> value). Each is tried alone in a session of its
own: a build that does not know a name raises. Leaves: one `option` record a name. Known is not the same as obeyed; effects
show elsewhere (a cache file, a latency).
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from .session import FellBackError, create


def try_options(job: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
    """Send a record for each candidate; FellBackError when the provider does not load even without options."""
    create({**job, "provider_options": job.get("base", {})})
    for name, value in job["candidates"].items():
        reason = None
        try:
            create({**job, "provider_options": {**job.get("base", {}), name: value}})
        except FellBackError as error:
            reason = str(error)
        send({"kind": "option", "name": name, "value": value, "accepted": reason is None, "reason": reason})
