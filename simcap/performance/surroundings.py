"""Sections of the performance report about everything but the results: hardware, method, workloads, settings.

Enters: the profile, the runs, the hardware catalog, the knowledge file. Leaves: Markdown with origin marks.
"""

from __future__ import annotations

from collections.abc import Sequence

from profiles import hardware as catalog
from profiles.hardware import Hardware, Spec
from profiles.schema import Profile, origins
from scenarios.node import CoTenant, Timeline
from scenarios.schema import Scenario
from simcap.documents.ledger import Ledger
from simcap.documents.text import code, digits, listed, percent, plain, size, table
from simcap.performance.runs import Finished
from simcap.strategy import knowledge

CATALOG = {
    "compute_units": ("compute units", 1.0, ""),
    "memory_bytes": ("device memory", 1e-9, " GB"),
    "bandwidth_bytes_per_s": ("memory bandwidth", 1e-12, " TB/s"),
    "fp16_dense_flops": ("dense FP16 peak", 1e-12, " TFLOPS"),
    "board_power_w": ("board power", 1.0, " W"),
}
"""Field of the catalog -> its words, factor and unit."""


def hardware(profile: Profile, ledger: Ledger) -> str:
    """Device, host and software."""
    device, host = profile.device, profile.host
    rows = [["device", f"{plain(device.name)} (catalog {code(device.catalog)})"]]
    if device.memory_bytes:
        rows.append(
            ["memory of the device", f"{size(device.memory_bytes.value)} {ledger.of(profile, device.memory_bytes)}"]
        )
    if host:
        rows.append(["host", plain(host.cpu) + (f", {code(f'{host.cores} threads')}" if host.cores else "")])
        if host.os:
            rows.append(["system", code(host.os)])
    known = catalog.load()
    listed_device = known.hardware.get(device.catalog)
    rows += _catalog_rows(listed_device, known, ledger) if listed_device else []
    rows += [[plain(name), code(version)] for name, version in profile.software.items()]
    return table(["", ""], rows)


def _catalog_rows(device: Hardware, known: catalog.Catalog, ledger: Ledger) -> list[list[str]]:
    rows = []
    for field, (name, factor, unit) in CATALOG.items():
        spec: Spec | None = getattr(device, field)
        if spec is None:
            continue
        source = known.sources.get(spec.source) if spec.source else None
        title = (
            f"{plain(source.title)} (trust {spec.trust})"
            if source
            else f"simcap's hardware catalog (trust {spec.trust})"
        )
        mark = ledger.mark(
            spec.origin, title, source.url if source else None, plain(spec.doubt) if spec.doubt else None
        )
        rows.append([f"{name}, nominal", f"{digits(spec.value * factor)}{unit} {mark}"])
    return rows


def method(profile: Profile, runs: Sequence[Finished], ledger: Ledger) -> str:
    """Where service times come from and what the simulation does with them."""
    counts = origins(profile)
    mark = ledger.mark("modeled", f"counted over profile {code(profile.name)}")
    said = listed(
        [
            f"{counts[origin]} {mark} are {origin}"
            for origin in ("measured", "published", "modeled", "assumed")
            if counts.get(origin)
        ]
    )
    lines = [
        (
            f"Service times, occupancy, memory and compile times come from the profile: of its numbers {said}. "
            "simcap replays each workload in a discrete-event simulation of the node: router CPU, stages, locks, sessions, "
            "memory, compiles and the sharing of the device."
        ),
        (
            f"Each load point is simulated {listed([f'{n} times {ran_mark}' for n, ran_mark in _replications(runs, ledger)])} with independent "
            "random numbers; brackets hold intervals at 95 % "
            f"{ledger.mark('assumed', 'the confidence level that simcap uses throughout')} over them. "
            f"{_covered(runs)} A load passes when its whole interval keeps the promise. Failed and rejected requests count as late."
        ),
    ]
    if profile.notes:
        lines += ["The profile says of itself:", "\n".join(f"> - {plain(note)}" for note in profile.notes)]
    return "\n\n".join(lines)


def _covered(runs: Sequence[Finished]) -> str:
    """What the intervals are about."""
    full = [
        code(run.result.scenario) for run in runs if run.result.uncertainty and run.result.uncertainty.covers == "full"
    ]
    if not full:
        return "They cover the noise of the simulation, and not how far the profile's figures may lie off."
    return f"For {listed(full)} they cover how far the calibration may lie off as well; elsewhere the noise of the simulation."


def _replications(runs: Sequence[Finished], ledger: Ledger) -> list[tuple[int, str]]:
    mark = ledger.mark("assumed", f"{code('measurement.replications')} of the scenarios")
    return [(n, mark) for n in sorted({run.result.replications for run in runs})]


def workload(run: Finished, ledger: Ledger) -> str:
    """Classes and signals of one run, as the scenario gives them."""
    scenario = run.scenario
    mark = ledger.mark("assumed", f"scenario {code(scenario.name)}")
    classes = [
        [
            code(name),
            f"{percent(kind.weight)} {mark}" if kind.weight is not None else "as the trace says",
            code(_law(kind.tokens.model_dump(mode="json", exclude_none=True))),
            "all" if kind.signals == "all" else listed([code(s) for s in kind.signals]),
        ]
        for name, kind in scenario.classes.items()
    ]
    signals = [_signal(name, scenario) for name in scenario.signals]
    tenants = [_tenant(tenant) for tenant in scenario.node.co_tenants]
    parts = [
        f"### {code(scenario.name)}",
        (
            f"Arrivals: {code(scenario.arrivals.process)}; router CPU workers: {code(scenario.node.cpu_workers)}; "
            f"GPUs: {code(scenario.node.gpus)}; nodes: {code(scenario.replicas.count)}."
        ),
        table(["class", "share", "length in tokens", "signals"], classes),
        table(["signal", "model", "provider order", "lock", "sessions", "lengths"], signals),
        *tenants,
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts)


def _law(data: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in data.items())


def _tenant(tenant: CoTenant) -> str:
    held, taken = tenant.memory_bytes, tenant.compute
    memory = "memory that changes with time" if isinstance(held, Timeline) else f"{code(size(held))} of memory"
    compute = (
        "a share of compute that changes with time"
        if isinstance(taken, Timeline)
        else f"{code(percent(taken))} of compute"
    )
    return f"Beside it on the device: {code(tenant.name)}, with {memory} and {compute}."


def _signal(name: str, scenario: Scenario) -> list[str]:
    signal = scenario.signals[name]
    order = " → ".join(f"{choice.provider} {code(choice.artifact)}" for choice in signal.choices)
    limits = [f"up to {signal.max_tokens}"] if signal.max_tokens else []
    limits += [f"padded to {', '.join(map(str, signal.buckets))}"] if signal.buckets else []
    lengths = code("; ".join(limits)) if limits else "in full"
    lock = code(signal.lock_domain) if signal.lock_domain else "none"
    return [code(name), code(signal.model), order, lock, code(signal.sessions), lengths]


def settings(runs: Sequence[Finished], ledger: Ledger) -> str:
    """Options of the router and of its libraries, and the metrics to watch, each by its exact name."""
    known = knowledge.load()
    providers = {
        choice.provider for run in runs for signal in run.scenario.signals.values() for choice in signal.choices
    }
    options = [
        [code(each.name), plain(each.where), knowledge.marked(each.text, known, ledger)]
        for each in known.settings
        if knowledge.concerns(each.provider, providers)
    ]
    metrics = [[code(each.name), knowledge.marked(each.text, known, ledger)] for each in known.metrics]
    advice = _sessions(runs, ledger)
    parts = [
        "### Settings",
        table(["option", "where", "what to do"], options),
        *advice,
        "### What to watch",
        table(["metric", "what it says"], metrics),
        "No metric of the router tells lock waiting, compiles or the provider in use; `simcap strategy` says how to see those.",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part)


def _sessions(runs: Sequence[Finished], ledger: Ledger) -> list[str]:
    """The number of GPU sessions of each workload, for the router's share of memory."""
    counts = {
        run.scenario.name: sum(
            signal.sessions
            for signal in run.scenario.signals.values()
            if any(c.device == "gpu" for c in signal.choices)
        )
        for run in runs
    }
    said = [
        f"{n} {ledger.mark('assumed', f'sessions of scenario {code(name)}')} for {code(name)}"
        for name, n in counts.items()
        if n
    ]
    return [f"`ORT_GPU_NUM_SESSIONS` for these workloads: {listed(said)}."] if said else []
