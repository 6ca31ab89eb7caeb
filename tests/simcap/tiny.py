"""A profile and a scenario file small enough to read here, for tests that go through `simcap run`."""

from __future__ import annotations

import json
from pathlib import Path

PROFILE = {
    "schema": "simcap.profile/1",
    "name": "tiny",
    "description": "two cells, made up for tests",
    "created": "2025-01-01",
    "device": {"catalog": "cpu", "kind": "cpu", "name": "test machine"},
    "router": {
        "base_s": {"value": 0.001, "origin": "assumed"},
        "per_token_s": {"value": 0.0, "origin": "assumed"},
    },
    "entries": [
        {
            "model": "m",
            "artifact": "fp32",
            "provider": {"name": "cpu"},
            "task": "sequence_classification",
            "service": {
                "cadence": "tight",
                "cells": [
                    {
                        "tokens": tokens,
                        "levels": [0.0, 0.5, 1.0],
                        "seconds": [0.8 * median, median, 1.3 * median],
                        "n": 30,
                        "origin": "assumed",
                        "spread_origin": "assumed",
                    }
                    for tokens, median in ((64, 0.004), (256, 0.012))
                ],
            },
            "occupancy": [
                {"tokens": 64, "value": 0.9, "origin": "assumed"},
                {"tokens": 256, "value": 0.9, "origin": "assumed"},
            ],
        }
    ],
}

SCENARIO = """\
schema: simcap.scenario/1
name: tiny
question: How many requests?
node: {cpu_workers: 2}
router: {cpu: from_profile}
lock_domains: {seq: {order: fifo}}
signals:
  intent: {model: m, artifact: fp32, provider: cpu, lock_domain: seq}
stages: [[intent]]
classes:
  chat: {weight: 1.0, tokens: {law: fixed, tokens: 128}}
arrivals: {process: poisson}
load: {rps: [20, 60]}
slo: {latency_ms: 100}
measurement: {requests: 400, replications: 5}
"""


def write(directory: Path) -> tuple[Path, Path]:
    """The scenario file and the profile file, written into `directory`."""
    scenario, profile = directory / "tiny.yaml", directory / "tiny.profile.json"
    scenario.write_text(SCENARIO)
    profile.write_text(json.dumps(PROFILE))
    return scenario, profile
