"""Every shipped scenario runs, at reduced size, and shows what its comment says was found."""

from __future__ import annotations

import pytest

from profiles import store
from profiles.schema import Profile
from scenarios import loader
from sim.replicate import run
from sim.result import Result

SMALL = {"burst": [], "rps": ["measurement.requests=400"], "duration": ["measurement.duration_s=60"]}


def profile_of_mini_models() -> Profile:
    """A made-up profile with the entries that scenarios without a profile ask for: 1 ms a request and 8 tokens."""
    levels = [0.0, 0.5, 1.0]
    entries = []
    for model in ("intent", "jailbreak", "pii"):
        cells = [
            {
                "tokens": tokens,
                "batch": batch,
                "levels": levels,
                "seconds": [tokens * batch * k / 8000 for k in (0.9, 1.0, 1.2)],
                "n": 0,
                "origin": "assumed",
                "spread_origin": "assumed",
            }
            for tokens in (16, 512)
            for batch in (1, 4)
        ]
        entries.append(
            {
                "model": f"mmbert-mini-{model}",
                "artifact": "fp32",
                "provider": {"name": "cpu"},
                "task": "sequence_classification",
                "service": {"cadence": "tight", "cells": cells},
                "occupancy": [{"tokens": t, "value": 1.0, "origin": "assumed"} for t in (16, 512)],
            }
        )
    return Profile.model_validate(
        {
            "schema": "simcap.profile/1",
            "name": "made-up",
            "description": "for tests",
            "created": "2026-12-01",
            "device": {"catalog": "cpu", "kind": "cpu", "name": "none"},
            "entries": entries,
        }
    )


def small(name: str, *more: str) -> Result:
    plain = loader.load(name)
    kind = "duration" if plain.measurement.duration_s else "burst" if plain.load.kind == "burst_size" else "rps"
    scenario = loader.load(name, [*SMALL[kind], *more])
    profile = store.load(scenario.profile) if scenario.profile else profile_of_mini_models()
    return run(scenario, profile, seed=1)[0]


@pytest.mark.parametrize("name", loader.shipped_names())
def test_it_runs_and_answers(name: str) -> None:
    """Each load point has a verdict, a bottleneck and an attainment between 0 and 1."""
    result = small(name)
    assert len(result.points) == len(loader.load(name).load.points)
    for point in result.points:
        assert point.bottleneck
        assert point.slo_attainment.mean is not None
        assert 0 <= point.slo_attainment.mean <= 1


def test_the_sdpa_cliff_is_at_8192_tokens_and_flash_attention_has_none() -> None:
    """Three SDPA sessions beside an LLM server: 4096 tokens fit, 8192 run out of memory; with flash attention all fit."""
    point = small("sdpa_memory_cliff", "load.rps=[1]").points[0]
    assert {name: kind.slo_attainment.mean for name, kind in point.classes.items()} == {
        "short": 1,
        "medium": 1,
        "long": 0,
    }
    assert list(point.failures) == ["out_of_memory"]
    assert point.bottleneck == "memory"
    flash = [f"signals.{name}.artifact=ck_fa_fp16" for name in ("intent", "jailbreak", "pii")]
    assert not small("sdpa_memory_cliff", "load.rps=[1]", *flash).points[0].failures


def test_many_shapes_collapse_a_session_and_one_bucket_cures_it() -> None:
    """Throughput falls by a factor of more than a thousand when lengths alternate on one program."""
    many = small("new_shapes", "load.rps=[1]").points[0].throughput_rps.mean
    one = small("new_shapes", "load.rps=[300]", "signals.intent.buckets=[512]", "measurement.requests=20000").points[0]
    assert many is not None
    assert one.throughput_rps.mean is not None
    assert one.throughput_rps.mean / many > 1000


def test_a_cold_start_stalls_and_warm_up_takes_the_stall_away() -> None:
    """Without warm-up the median of the first minute is tens of seconds; with it, milliseconds."""
    cold = small("cold_start", "load.rps=[20]").points[0].latency_s["p50"].mean
    heads = ("intent", "jailbreak", "user-feedback")
    warm_up = [f"signals.{name}.compile.warmup_tokens=[512]" for name in heads]
    warm = small("cold_start", "load.rps=[20]", *warm_up).points[0].latency_s["p50"].mean
    assert cold is not None
    assert warm is not None
    assert cold > 20
    assert warm < 0.05


def test_the_second_provider_carries_the_traffic_while_programs_compile() -> None:
    """With ROCm behind MIGraphX the promise holds through a cold start; with only the CPU behind it does not."""
    both = small("provider_order", "load.rps=[30]").points[0]
    without = [f"signals.{name}.fallbacks.0.available=false" for name in ("intent", "jailbreak")]
    cpu_only = small("provider_order", "load.rps=[30]", *without).points[0]
    assert both.verdict == "pass"
    assert both.fallback_fraction is not None
    assert (both.fallback_fraction.mean or 0) > 0.3
    assert cpu_only.verdict == "fail"
