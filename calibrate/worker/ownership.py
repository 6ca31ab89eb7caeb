"""Who ran each node: read from the profile that ONNX Runtime writes.

Enters: a job. A session of its own, with profiling on, runs a few inferences. Leaves: for each provider the number of
nodes it owns and its seconds an inference; for the CPU provider its operators. The session's list of providers is
reported beside it but proves nothing: only the events of kind "Node" whose name ends in `_kernel_time` do.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Dict, Set, Tuple

from .session import create, feed

RUNS = 2
CPU = "CPUExecutionProvider"


def ownership(job: Dict[str, Any]) -> Dict[str, Any]:
    """The `ownership` record of this job's model and shape."""
    with tempfile.TemporaryDirectory(prefix="simcap-") as folder:
        session = create(job, profile_prefix=str(Path(folder) / "nodes"))
        inputs = feed(session, job)
        for _ in range(RUNS):
            session.run(None, inputs)
        providers = list(session.get_providers())
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return {"kind": "ownership", "session_providers": providers, **count(events, RUNS)}


def count(events: Any, runs: int) -> Dict[str, Any]:
    """Nodes and nanoseconds an inference per provider, and the CPU's operators, from profiling events."""
    nodes: Dict[str, Set[Tuple[str, str]]] = {}
    nanoseconds: Dict[str, float] = {}
    operators: Dict[str, Set[str]] = {}
    for event in events:
        if event.get("cat") != "Node" or not str(event.get("name", "")).endswith("_kernel_time"):
            continue
        arguments = event.get("args", {})
        provider, name = str(arguments.get("provider", "unknown")), str(event["name"])
        nodes.setdefault(provider, set()).add((name, str(arguments.get("node_index"))))
        nanoseconds[provider] = nanoseconds.get(provider, 0.0) + 1000.0 * float(event["dur"]) / runs
        if provider == CPU:
            operators.setdefault(str(arguments.get("op_name", "unknown")), set()).add(name)
    return {
        "nodes": {provider: len(names) for provider, names in nodes.items()},
        "ns": nanoseconds,
        "cpu_operators": {operator: len(names) for operator, names in operators.items()},
    }
