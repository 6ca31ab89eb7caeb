from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrate.artifacts import Artifact
from calibrate.bench import Bench
from calibrate.effects import effects_of, judged, measure_effects
from calibrate.journal import Journal
from calibrate.plan import cells_of
from calibrate.results import LatencyRecord, Outcome

ARTIFACT = Artifact("m", "fp32", "embedding", Path("/m.onnx"), "sha256:m", 1000, 10)
GIVEN = {"migraphx_fp16_enable": "1", "migraphx_mem_limit": "5", "device_id": "0"}
CELLS = cells_of([ARTIFACT], ["migraphx"], [16, 64], [1], 1, {"migraphx": GIVEN})


class Build:
    """A runtime in which an option moves outputs by `moves`, runs differ by `noise`, and its latency is `factor` times."""

    def __init__(
        self, moves: float = 0.0, noise: float = 0.0, factor: float = 1.0, drift: float = 1.0, seed: int | None = None
    ) -> None:
        self.moves, self.noise, self.factor, self.drift = moves, noise, factor, drift
        self.mood = None if seed is None else np.random.default_rng(seed)
        self.calls = 0

    def __call__(self, job: Mapping[str, Any], limit_s: float) -> Outcome:
        self.calls += 1
        has = "migraphx_fp16_enable" in job["provider_options"]
        if job["op"] == "outputs":
            np.save(job["outputs"], np.ones(4) + self.moves * has + self.noise * self.calls)
            return Outcome(status="done", wall_s=1)
        mood = 1.0 if self.mood is None else self.mood.lognormal(0.0, 0.2)
        ns = int(1e6 * (self.factor if has else 1.0) * self.drift**self.calls * mood)
        record = LatencyRecord(kind="latency", cadence="tight", ns=(ns,) * 6, warm_up=0, stopped="budget")
        return Outcome(status="done", records=(record,), wall_s=1)


def _seen(tmp_path: Path, build: Build) -> tuple[str, str]:
    journal = Journal(tmp_path / "p.json", {})
    bench = Bench({("m", "fp32"): ARTIFACT}, {"migraphx": build}, journal, 60, 1, lambda _: None)
    measure_effects(CELLS, {"migraphx": GIVEN}, bench)
    calls = build.calls
    measure_effects(CELLS, {"migraphx": GIVEN}, bench)
    assert build.calls == calls  # the journal has it
    (effect,) = effects_of("migraphx", CELLS, journal.visits)
    assert (effect.name, effect.value) == ("migraphx_fp16_enable", "1")
    return effect.seen, effect.told


@pytest.mark.parametrize(
    ("build", "seen"),
    [
        (Build(moves=1e-3), "outputs"),
        (Build(factor=0.5), "latency"),
        (Build(factor=2.0), "latency"),
        (Build(), "none"),
        (Build(noise=1e-6), "none"),  # outputs of equal runs differ as much
        (Build(drift=1.2), "none"),  # the machine slows down: no turn order makes an option of it
        (Build(factor=1.02), "none"),
    ],
    ids=["outputs", "faster", "slower", "ignored", "noisy outputs", "drift", "two per cent"],
)
def test_what_is_seen_of_an_option(tmp_path: Path, build: Build, seen: str) -> None:
    """Outputs or latency that change beyond noise and drift show an option at work; otherwise it is perhaps ignored."""
    found, told = _seen(tmp_path, build)
    assert found == seen
    assert ("accepted, and nothing was seen of it" in told) == (seen == "none")


def test_a_machine_that_is_not_quiet_makes_no_option_of_itself(tmp_path: Path) -> None:
    """Processes that differ by a fifth among themselves: an option that does nothing is seen in 6 of 300 calibrations at most
    (2.4 are expected); one that doubles the latency is seen in nearly all.
    """
    for factor, least, most in ((1.0, 0, 6), (2.0, 250, 300)):
        seen = 0
        for seed in range(300):
            folder = tmp_path / f"{factor}-{seed}"
            folder.mkdir()
            seen += _seen(folder, Build(factor=factor, seed=seed))[0] == "latency"
        assert least <= seen <= most


def test_resources_are_not_judged() -> None:
    """Limits, devices and caches show neither in outputs nor in latency, and are not called ignored."""
    names = ["migraphx_mem_limit", "device_id", "device_type", "arena_extend_strategy", "cache_dir", "gpu_mem_limit"]
    assert [n for n in names if judged(n)] == []
    assert judged("migraphx_exhaustive_tune")
    assert judged("precision")
