"""The work that requests bring, drawn before the run: classes, lengths, needs, service times.

Enters: scenario, profile, streams. Leaves: `Work`, arrays in seconds, bytes and tokens. n requests, S signals, V
variants (see `sim.node`). Draws exist for what a request turns out not to need, too, so that variants of a scenario
stay aligned under common random numbers. A long run draws piece by piece (`Piece`) and gets the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.entry import Entry
from profiles.schema import Profile
from profiles.surface import ServiceSurface, TokenCurve
from scenarios.loader import Bound, entries_of
from scenarios.node import PARTITION_DEVICES, Choice, RouterCpu, Signal
from scenarios.schema import Scenario
from scenarios.traces import TraceRows
from sim.streams import Streams
from sim.workload_draw import draw_requests

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Piece:
    """Which requests of a run are drawn: the n from `first` on, of `total`."""

    first: int
    total: int


@dataclass
class Work:
    """What each request asks of the node. Only `sim.pages` changes one after it is drawn.

    class_of, tokens: (n,). router_s: (n,) CPU seconds. needed: (n, S). service_s: (n, V) seconds when alone on the
    device, windows summed. occupancy: (n, V) share of the device. processed: (n, S) tokens that one inference sees.
    The rest is None where not simulated: fails (n, V) whether the inference fails on this variant; compile_s and
    cached_load_s (n, V) seconds to compile or load the program of the request's shape; activation_bytes (n, V).
    batch_service: by signal, seconds for (requests that run as one batch). at_length: by variant, (service seconds,
    occupancy) for (request, tokens of the larger program that it is padded to). asked_later: what these two look up,
    columns of one row a request.
    """

    class_of: Ints
    tokens: Ints
    router_s: Floats
    needed: Bools
    service_s: Floats
    occupancy: Floats
    processed: Ints | None = None
    fails: Bools | None = None
    compile_s: Floats | None = None
    cached_load_s: Floats | None = None
    activation_bytes: Floats | None = None
    batch_service: dict[int, Callable[[list[int]], float]] = field(default_factory=dict)
    at_length: dict[int, Callable[[int, int], tuple[float, float]]] = field(default_factory=dict)
    asked_later: dict[str, NDArray[Any]] = field(default_factory=dict)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name, all with one row a request."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, np.ndarray)}

    def rows(self, rows: slice) -> Work:
        """A view of some requests, for who reads arrays."""
        views: dict[str, Any] = {name: value[rows] for name, value in self.columns().items()}
        return replace(self, **views)

    def copy(self) -> Work:
        """Arrays of its own; what is asked later is shared."""
        copies: dict[str, Any] = {name: value.copy() for name, value in self.columns().items()}
        return replace(self, **copies)


def draw_work(
    scenario: Scenario,
    profile: Profile,
    streams: Streams,
    n: int,
    trace: TraceRows | None = None,
    piece: Piece | None = None,
) -> Work:
    """Draw classes, lengths and service times of n requests; `trace`: their rows, where arrivals are a trace."""
    bound = entries_of(scenario, profile)
    class_of, tokens = draw_requests(scenario, streams, n, trace)
    signals = list(scenario.signals.items())
    steps = [(s, signal.choices[0]) for s, (_, signal) in enumerate(signals)]
    steps += [(s, choice) for s, (_, signal) in enumerate(signals) for choice in signal.fallbacks]
    needed = _needed(scenario, streams, class_of)
    draw = _Draw(streams, n, class_of, tokens, needed, piece or Piece(0, n))

    width = (n, len(steps))
    service, occupancy, compile_s, cached_s = np.zeros(width), np.ones(width), np.zeros(width), np.zeros(width)
    activation, fails = np.zeros(width), np.zeros(width, dtype=bool)
    processed = np.column_stack([processed_tokens(signal, tokens) for _, signal in signals])
    for v, (s, choice) in enumerate(steps):
        name, signal = signals[s]
        entry, rows = bound[name][choice.provider, choice.artifact], draw.needed[:, s]
        shape = processed[rows, s]
        own, share = draw.service(name, signal, choice, entry, rows), entry.occupancy_curve().at(shape)
        service[rows, v], occupancy[rows, v] = on_part_of_device(own, share, _part(scenario, choice))
        if choice.failure_probability:
            fails[:, v] = draw.uniform(f"fails:{name}:{choice.provider}") < choice.failure_probability
        if choice.compile is not None:
            u = draw.uniform(f"compile:{name}:{choice.provider}")[rows]
            compile_s[rows, v] = entry.compile_surface("cold").sample(shape, u)
            cached_s[rows, v] = _cached_load(choice, entry, shape, u)
        if scenario.node.memory is not None and choice.device == "gpu":
            activation[rows, v] = entry.activation_curve().at(shape)
    base, per_token = _router_cpu(scenario, profile)
    later = {"processed": processed, **draw.later}
    compiled = any(choice.compile for _, choice in steps)
    return Work(
        class_of=class_of,
        tokens=tokens,
        router_s=base + per_token * tokens.astype(np.float64),
        needed=draw.needed,
        service_s=service,
        occupancy=occupancy,
        processed=processed,
        fails=fails if any(choice.failure_probability for _, choice in steps) else None,
        compile_s=compile_s if compiled else None,
        cached_load_s=cached_s if compiled else None,
        activation_bytes=activation if scenario.node.memory is not None else None,
        batch_service=_batch_services(scenario, bound, later),
        at_length={
            v: _at_length(
                scenario, bound[signals[s][0]][choice.provider, choice.artifact], choice, later, signals[s][0]
            )
            for v, (s, choice) in enumerate(steps)
            if _pads(choice)
        },
        asked_later=later,
    )


def processed_tokens(signal: Signal, tokens: Ints) -> Ints:
    """Tokens that one inference sees: truncated to max_tokens, the window and the last bucket, padded to a bucket."""
    seen = tokens if signal.max_tokens is None else np.minimum(tokens, signal.max_tokens)
    if signal.windows is not None:
        seen = np.minimum(seen, signal.windows.tokens)
    if signal.buckets is not None:
        buckets = np.array(signal.buckets, dtype=np.int64)
        seen = buckets[np.minimum(np.searchsorted(buckets, seen), buckets.size - 1)]
    return seen


def window_counts(signal: Signal, tokens: Ints) -> Ints:
    """How many inferences a text takes: 1, or ceil((tokens - overlap) / (window - overlap)) when it is cut."""
    seen = tokens if signal.max_tokens is None else np.minimum(tokens, signal.max_tokens)
    if signal.windows is None:
        return np.ones_like(seen)
    stride = signal.windows.tokens - signal.windows.overlap
    return np.maximum(-(-(seen - signal.windows.overlap) // stride), 1)


@dataclass(frozen=True)
class _Draw:
    """The draws of one replication that several variants look at."""

    streams: Streams
    n: int
    class_of: Ints
    tokens: Ints
    needed: Bools
    piece: Piece
    later: dict[str, NDArray[Any]] = field(default_factory=dict)  # draws and counts that are asked for again in the run

    def uniform(self, name: str) -> Floats:
        """One draw a request; the same whenever it is asked for."""
        return self.streams.after(name, self.piece.first).random(self.n)

    def service(self, name: str, signal: Signal, choice: Choice, entry: Entry, rows: Bools) -> Floats:
        """Own seconds of the inferences of the rows, windows summed (each window with a draw of its own)."""
        stream = _stream(name, signal, choice)
        surface, shape = entry.surface(choice.cadence), processed_tokens(signal, self.tokens)[rows]
        first, windows = self.uniform(stream), window_counts(signal, self.tokens)
        if signal.batching is not None or _pads(choice):
            self.later[stream], self.later[f"windows:{name}"] = first, windows
        total = surface.sample(shape, first[rows])
        counts = windows[rows]
        for k in range(2, int(counts.max(initial=1)) + 1):
            before = (k - 2) * self.piece.total + self.piece.first
            u = self.streams.after(f"{stream}:windows", before).random(self.n)[rows]
            more = counts >= k
            total[more] += surface.sample(shape[more], u[more])
        return total


def _stream(name: str, signal: Signal, choice: Choice) -> str:
    """The stream of a variant's service draws."""
    return f"service:{name}" if choice is signal else f"service:{name}:{choice.provider}:{choice.artifact}"


def _pads(choice: Choice) -> bool:
    return choice.compile is not None and choice.compile.cold_shape == "pad"


def _needed(scenario: Scenario, streams: Streams, class_of: Ints) -> Bools:
    """(n, S): the class wants the signal, its stage is run, and no cache hit skips the stage."""
    names, kinds = list(scenario.signals), list(scenario.classes.values())
    needed = np.zeros((class_of.size, len(names)), dtype=bool)
    for s, name in enumerate(names):
        needed[:, s] = np.array([kind.signals == "all" or name in kind.signals for kind in kinds])[class_of]
    hit = None
    if scenario.cache is not None:
        hit = streams.generator("cache").random(class_of.size) < scenario.cache.hit_probability
    for k, stage in enumerate(scenario.walk):
        columns = [names.index(name) for name in stage.signals]
        if stage.probability < 1:
            needed[:, columns] &= (streams.generator(f"stage:{k}").random(class_of.size) < stage.probability)[:, None]
        if hit is not None and scenario.cache is not None and k in scenario.cache.skips_stages:
            needed[:, columns] &= ~hit[:, None]
    return needed


def _cached_load(choice: Choice, entry: Entry, shape: Ints, u: Floats) -> Floats:
    """Seconds to load a cached program; asked for only where the scenario has an on-disk cache."""
    assert choice.compile is not None  # noqa: S101 - the caller has looked
    if choice.compile.disk_cache == "none":
        return np.zeros(shape.size)
    if choice.compile.cached_load_s is not None:
        return np.full(shape.size, choice.compile.cached_load_s)
    return entry.compile_surface("warm").sample(shape, u)


def _batch_services(
    scenario: Scenario, bound: Bound, later: dict[str, NDArray[Any]]
) -> dict[int, Callable[[list[int]], float]]:
    """For each batching signal: seconds of a batch, from the surface at its longest text and its size."""
    services: dict[int, Callable[[list[int]], float]] = {}
    for s, (name, signal) in enumerate(scenario.signals.items()):
        if signal.batching is None:
            continue
        entry = bound[name][signal.provider, signal.artifact]
        surface, occupancy = entry.surface(signal.cadence), entry.occupancy_curve()
        part, stream = _part(scenario, signal), _stream(name, signal, signal)

        def seconds(
            requests: list[int],
            s: int = s,
            surface: ServiceSurface = surface,
            occupancy: TokenCurve = occupancy,
            part: float = part,
            stream: str = stream,
        ) -> float:
            longest = later["processed"][requests, s].max(keepdims=True)
            own = surface.sample(longest, later[stream][requests[:1]], len(requests))
            return float(on_part_of_device(own, occupancy.at(longest), part)[0][0])

        services[s] = seconds
    return services


def on_part_of_device(service_s: Floats, occupancy: Floats, part: float) -> tuple[Floats, Floats]:
    """Own seconds and occupancy of inferences on a device that has `part` of the compute they were measured with.

    Work that used a share f of the whole device uses f / part of the part, at the same speed; where that would be more
    than all of it, it uses all and takes f / part times as long. Modeled: nobody published encoders on partitions.
    """
    wanted = occupancy / part
    return service_s * np.maximum(wanted, 1.0), np.minimum(wanted, 1.0)


def _part(scenario: Scenario, choice: Choice) -> float:
    """Share of the measured device's compute that one device of the node has."""
    return 1.0 / PARTITION_DEVICES[scenario.node.partition] if choice.device == "gpu" else 1.0


def _at_length(
    scenario: Scenario, entry: Entry, choice: Choice, later: dict[str, NDArray[Any]], name: str
) -> Callable[[int, int], tuple[float, float]]:
    """Service time and occupancy of a request on the program of another length, with the request's own draw."""
    surface, occupancy = entry.surface(choice.cadence), entry.occupancy_curve()
    part, stream = _part(scenario, choice), _stream(name, scenario.signals[name], choice)

    def at(i: int, tokens: int) -> tuple[float, float]:
        own = surface.sample(np.array([tokens]), later[stream][i : i + 1]) * later[f"windows:{name}"][i]
        seconds, share = on_part_of_device(own, occupancy.at([tokens]), part)
        return float(seconds[0]), float(share[0])

    return at


def _router_cpu(scenario: Scenario, profile: Profile) -> tuple[float, float]:
    if isinstance(scenario.router.cpu, RouterCpu):
        return scenario.router.cpu.base_s, scenario.router.cpu.per_token_s
    assert profile.router is not None  # noqa: S101 - bind has refused it with an error for the user
    return profile.router.base_s.value, profile.router.per_token_s.value
