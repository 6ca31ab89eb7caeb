"""How figures and names of a result are put to a person: rounded numbers with units, and words for keys.

Enters: seconds, fractions, intervals, keys of `sim.result`. Leaves: short text. Everything a person reads in a table or
under a figure is worded here, once; files for machines keep the exact figures.
"""

from __future__ import annotations

from sim.capacity import resource_in_words
from sim.result import Capacity, Interval, Result, Uncertainty

ABSENT = "–"

ORIGINS = ("published", "modeled", "assumed", "measured")

PARTS = {
    "retry": "failed attempts and pauses before a retry",
    "router_queue": "waiting for a router CPU worker",
    "router_cpu": "router CPU work",
    "lock": "waiting for a lock",
    "session_queue": "waiting for a model session",
    "load": "loading a session",
    "compile": "compiling or loading a program",
    "memory": "waiting for memory",
    "fallback": "on providers that then failed",
    "device_own": "inference: its own work",
    "device_slowdown": "inference: slowed by others",
}

FAILURES = {
    "refused": "refused by the router",
    "queue_full": "queue full",
    "timeout": "timed out",
    "crash": "lost in a crash",
    "no_replica": "no replica was up",
    "out_of_memory": "out of memory",
    "provider": "no provider could serve",
    "unfinished": "still waiting at the end",
}
"""Words for the reasons of `Point.failures`, in the order in which figures stack them."""

LOADS = {
    "rps": ("offered load", "requests/s"),
    "rate_scale": ("rate of the trace", "times its own rate"),
    "burst_size": ("burst size", "requests at one instant"),
    "clients": ("clients", "clients"),
}


def resource(key: str) -> str:
    """Words for a key of `Point.utilisation` or a bottleneck, the same as in the capacity sentence."""
    return resource_in_words(key)


def failure(reason: str) -> str:
    """Words for why a request failed."""
    return FAILURES.get(reason, reason.replace("_", " "))


def step_reason(reason: str) -> str:
    """Words for why a signal left a provider: `answered_without:failed` is `failed; answered without it`."""
    kind, colon, cause = reason.partition(":")
    return (
        f"{cause}; answered without it".replace("_", " ")
        if colon and kind == "answered_without"
        else reason.replace("_", " ")
    )


def load_title(kind: str) -> str:
    """Axis title of a kind of load."""
    name, unit = LOADS[kind]
    return name if name == unit else f"{name} ({unit})"


def number(value: float | None) -> str:
    """Three significant digits; whole numbers with thousands separators from 100 on."""
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def short(value: float | None) -> str:
    """As `number`, but with k and M from ten thousand on, for narrow columns."""
    if value is None:
        return ABSENT
    for size, suffix in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return number(value / (1e6 if suffix == "M" else 1e3)) + suffix
    return number(value).replace(",", "")


def half_width(interval: Interval) -> float | None:
    """The wider side of the interval about its mean; None where there is none."""
    if interval.mean is None or interval.lo is None or interval.hi is None:
        return None
    return max(interval.hi - interval.mean, interval.mean - interval.lo)


def plus_minus(interval: Interval, scale: float = 1.0) -> str:
    """`12.3±0.43`: the mean and the half width of the 95 % interval, both multiplied by `scale`."""
    half = half_width(interval)
    if interval.mean is None:
        return ABSENT
    if half is None:
        return f"{short(interval.mean * scale)}±?"
    return f"{short(interval.mean * scale)}±{_spread(half * scale)}"


def _spread(half: float) -> str:
    """A half width: two digits, one below 0.1; what follows is no more certain than the interval itself."""
    if half >= 99.5:
        return short(float(f"{half:.2g}"))
    return f"{half:.2g}" if half >= 0.1 else f"{half:.1g}"


def milliseconds(interval: Interval | None) -> str:
    """An interval of seconds as `12.3±0.43`, in ms."""
    return ABSENT if interval is None else plus_minus(interval, 1000)


def percent(value: float | None) -> str:
    """A fraction as percent; decimals are kept near 100, where promises are made, and never rounded up to it."""
    if value is None:
        return ABSENT
    if value < 0.985:
        return f"{100 * value:.1f}"
    text = f"{100 * value:.2f}"
    return "99.99" if text == "100.00" and value < 1 else text


def percent_interval(interval: Interval | None) -> str:
    """A fraction over replications as `99.52±0.12`, in percent."""
    if interval is None or interval.mean is None:
        return ABSENT
    half = half_width(interval)
    if half is None:
        return percent(interval.mean)
    return f"{percent(interval.mean)}±{_spread(100 * half)}"


def size(value: float | None) -> str:
    """Bytes as GiB."""
    return ABSENT if value is None else f"{value / 2**30:.3g} GiB"


def replications(result: Result) -> str:
    """`5`, or `10 to 38` where load points stopped by themselves."""
    counts = [point.replications for point in result.points]
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{counts[0]}"


def promise(result: Result) -> str:
    """The SLO as a clause: `99 % of requests within 500 ms`."""
    return f"{100 * result.slo.attainment:g} % of requests within {number(result.slo.latency_s * 1000)} ms"


def bracket(capacity: Capacity) -> str:
    """The capacity as an interval of loads: `40 to 50 requests/s`."""
    unit = LOADS[capacity.load_kind][1]
    if capacity.lo is None:
        known = capacity.hi is not None
        return f"below {capacity.hi:g} {unit}" if known else "not found: no load passed, none surely failed"
    if capacity.hi is None:
        return f"{capacity.lo:g} {unit} or more"
    return f"at least {capacity.lo:g}, less than {capacity.hi:g} {unit}"


def breaks_first(result: Result) -> str:
    """The bottleneck at the lowest load that did not pass; where all passed, at the highest load tried."""
    broken = next((point for point in result.points if point.verdict != "pass"), result.points[-1])
    return resource(broken.bottleneck)


def origins_line(result: Result) -> str:
    """`profile mi300x-published: 41 published, 30 modeled, 12 assumed, 0 measured`."""
    counts = ", ".join(f"{result.profile_origins.get(origin, 0)} {origin}" for origin in ORIGINS)
    return f"profile {result.profile}: {counts}"


def calibration_runs(known: Uncertainty) -> str:
    """How many runs stand behind the profile."""
    if known.runs == 0:
        return "bounds that the profile states; nobody measured it"
    return "one calibration run" if known.runs == 1 else f"{known.runs} calibration runs"


def uncertainty_lines(known: Uncertainty | None) -> list[str]:
    """What the intervals cover beyond the simulation, and what they do not; nothing where that is the simulation alone."""
    if known is None or known.covers == "simulation":
        return []
    runs = calibration_runs(known)
    if known.between_runs is not None:
        runs += f", ±{100 * known.between_runs:.2g} % from run to run"
    lines = [f"intervals cover the simulation and calibration ({runs})"]
    if known.left_out:
        lines.append(f"not in them: {'; '.join(known.left_out)}")
    if known.narrowing:
        first = known.narrowing[0]
        lines.append(f"what would narrow them most: {first.measure} ({first.what}: {first.share:.0%} of the variance)")
    return lines


def _of_errors(result: Result) -> str:
    if result.uncertainty is not None and result.uncertainty.covers == "full":
        return "The intervals hold the bounds that the profile states for them, and nothing of what it leaves out."
    return "The intervals show sampling noise of the simulation and say nothing about errors in these inputs."


def doubts(result: Result) -> list[str]:
    """What a reader must know about where the figures come from, before any of them."""
    measured = result.profile_origins.get("measured", 0)
    rest = sum(result.profile_origins.values()) - measured
    if measured and not rest:
        return []
    if not measured:
        text = (
            f"No number in profile {result.profile} was measured on this hardware by simcap: its {rest} figures are "
            f"published, modeled or assumed. {_of_errors(result)}"
        )
        return [text]
    return [f"{rest} of the {rest + measured} figures used from profile {result.profile} are not measured; see Inputs."]
