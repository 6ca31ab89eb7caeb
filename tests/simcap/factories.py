"""Results with plausible figures, for tests of everything that reads a `Result`. No simulation behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.result import TIME_PARTS, Capacity, ClassResult, InputOrigin, Interval, Point, Result, SignalResult, Slo

LOADS = (5.0, 10.0, 20.0, 30.0, 38.0, 44.0)
CEILING = 42.0
SLO_S = 0.8


NOTHING = Interval(mean=None, lo=None, hi=None)


def interval(mean: float, spread: float = 0.03, top: float = float("inf")) -> Interval:
    return Interval(mean=mean, lo=mean * (1 - spread), hi=min(mean * (1 + spread), top))


def point(load: float, kind: str = "rps", signals: tuple[str, ...] = ("intent", "pii", "jailbreak")) -> Point:
    rho = min(load / CEILING, 0.985)
    wait = 0.03 * rho / (1 - rho)
    parts = dict.fromkeys(TIME_PARTS, 0.0) | {
        "router_queue": 0.0004,
        "router_cpu": 0.0021,
        "lock": 0.55 * wait,
        "session_queue": 0.15 * wait,
        "device_own": 0.052,
        "device_slowdown": 0.3 * wait,
    }
    mean = sum(parts.values())
    latency = {"mean": mean, "p50": mean * 0.8, "p90": mean * 2.1, "p95": mean * 2.9, "p99": mean * 4.6}
    verdict = "pass" if latency["p99"] < 0.8 * SLO_S else "indeterminate" if latency["p99"] < SLO_S else "fail"
    attained = 1 - 0.012 * rho**6 if verdict == "pass" else 0.99 if verdict == "indeterminate" else 0.71
    edges = np.geomspace(0.01, 20, 61)
    counts = 20_000 * np.diff(1 - np.exp(-((edges / mean) ** 1.4)))
    utilisation = {"router_cpu": 0.14 * rho, "device:gpu": 0.83 * rho, "lock:sequence": rho, "lock:token": 0.5 * rho}
    utilisation |= {f"session:{name}": (0.3 + 0.1 * i) * rho for i, name in enumerate(signals)}
    return Point(
        load_kind=kind,
        load=load,
        offered_rps=interval(load, 0.01),
        throughput_rps=interval(min(load, CEILING), 0.01),
        goodput_rps=interval(min(load, CEILING) * attained, 0.01),
        latency_s={name: interval(value, 0.03 + 0.2 * rho**8) for name, value in latency.items()},
        slo_attainment=interval(attained, 0.002, top=1.0),
        slo_percentile_s=interval(latency["p99"]),
        verdict=verdict,
        saturated=load > CEILING,
        utilisation={name: interval(value, 0.02, top=1.0) for name, value in utilisation.items()},
        queue_wait_p99_s=interval(wait * 3.1),
        mean_parts_s={name: interval(value) for name, value in parts.items()},
        failed_fraction=Interval(mean=0.0, lo=0.0, hi=0.0),
        fallback_fraction=None,
        compile_stall_s=None,
        vram_peak_bytes=None,
        bottleneck="lock:sequence",
        headroom={name: 1 / used for name, used in sorted(utilisation.items(), key=lambda item: -item[1])},
        signals={name: _signal(mean * (0.7 + 0.1 * i), wait) for i, name in enumerate(signals)},
        classes={"short": _kind(15_000, mean * 0.7, attained), "document": _kind(5_000, mean * 1.9, attained * 0.98)},
        requests_measured=98_000,
        warmup_removed=(400, 390, 410, 405, 395),
        histogram_edges_s=tuple(float(edge) for edge in edges),
        histogram=tuple(int(count) for count in counts),
    )


def _signal(mean: float, wait: float) -> SignalResult:
    parts = {"lock": 0.5 * wait, "session_queue": 0.1 * wait, "device_own": 0.05, "device_slowdown": 0.2 * wait}
    return SignalResult(
        requests=98_000,
        latency_s={"mean": interval(mean), "p50": interval(mean * 0.8), "p99": interval(mean * 4)},
        mean_parts_s={name: interval(value) for name, value in parts.items()},
    )


def _kind(requests: int, mean: float, attained: float) -> ClassResult:
    return ClassResult(
        requests=requests,
        latency_s={"mean": interval(mean), "p50": interval(mean * 0.8), "p99": interval(mean * 4)},
        slo_attainment=interval(attained, 0.002, top=1.0),
    )


def result(**changes: Any) -> Result:
    """A curve of six rates that passes to 30, is unclear at none or more, and fails above; `changes` replace fields."""
    loads, kind = changes.pop("loads", LOADS), changes.pop("kind", "rps")
    points = tuple(point(load, kind) for load in loads)
    passed = [p.load for p in points if p.verdict == "pass"]
    failed = [p.load for p in points if p.verdict == "fail"]
    fields: dict[str, Any] = {
        "scenario": "longctx",
        "question": "How many long documents a second can one node classify within 800 ms?",
        "profile": "mi300x-published",
        "profile_origins": {"published": 41, "modeled": 30, "assumed": 12},
        "seed": 1,
        "replications": 5,
        "requests": 20_000,
        "slo": Slo(latency_s=SLO_S, attainment=0.99),
        "points": points,
        "capacity": Capacity(
            load_kind=kind,
            lo=max(passed, default=None),
            hi=min(failed, default=None),
            indeterminate=tuple(p.load for p in points if p.verdict == "indeterminate"),
            sentence=f"The node keeps 99 % of requests within 800 ms up to at least {max(passed, default=0):g} "
            "requests/s; the lock sequence breaks first.",
        ),
        "inputs": INPUTS,
        "notes": ("Spread around published medians is assumed lognormal.",),
    }
    return Result(**(fields | changes))


def troubled() -> Result:
    """As `result`, with failures, steps down, stalls and memory at every load: more of them the higher the load."""
    points = []
    for p in result().points:
        changes: dict[str, Any] = {
            "failures": {"timeout": interval(0.001 * p.load, top=1.0)},
            "failed_fraction": interval(0.001 * p.load, top=1.0),
            "fallback_fraction": interval(0.004 * p.load, top=1.0),
            "compile_stall_s": interval(0.1 * p.load),
            "vram_peak_bytes": 2.0e9 + 1e7 * p.load,
            "watermark_events": 0.2 * p.load,
            "steps_down": {"intent:migraphx:compile_pending": 0.002 * p.load},
            "memory_timeline": ((0.0, 1.5e9), (0.5, 1.9e9), (2.0, 2.0e9 + 1e7 * p.load)),
            "compile_events": ((0.25, "intent:migraphx", 512, 30.0), (31.0, "intent:migraphx", 128, 20.0 + p.load)),
        }
        if p.load > 20:
            changes["failures"] |= {"out_of_memory": interval(0.0005 * p.load, top=1.0)}
            changes["steps_down"] |= {"pii:rocm:answered_without:out_of_memory": 0.0001 * p.load}
        points.append(p.model_copy(update=changes))
    return result(points=tuple(points), memory_capacity_bytes=4.0e9, memory_watermark=0.9)


INPUTS = (
    InputOrigin(
        what="service time of mmbert32k-intent fa_fp16 on rocm",
        value="12.4 ms at 1024 tokens",
        origin="published",
        source="Router pull request: CK flash attention",
        url="https://github.com/vllm-project/semantic-router/pull/1",
        doubt="one run, spread not published",
    ),
    InputOrigin(what="occupancy of mmbert32k-intent", value="0.61 at 1024 tokens", origin="modeled", doubt="roofline"),
    InputOrigin(what="router.cpu.base_s", value="0.0021", origin="assumed"),
    InputOrigin(what="session load", value="3.1 s", origin="measured"),
)


class Records:
    """Stands in for the records of a run: two columns."""

    def to_table(self) -> dict[str, np.ndarray[Any, Any]]:
        return {"arrival_s": np.array([0.1, 0.25]), "latency_s": np.array([0.05, 0.0625])}
