"""The figures of a replication that is too long to keep: added up page by page while it runs.

Enters: the times of each page when it is drawn, its records when it is done (`sim.pages`). Leaves: the same `Figures` as
`sim.metrics.figures`, with these differences, which the notes of a result state:
percentiles come from a sketch (`sim.sketch`: within 0.5 %), and warm-up is removed in whole blocks. A block is one of at most
256 equal parts of the run; MSER looks at the mean log(latency) of each. Since it removes half at most, the first half of
the blocks is kept apart and the rest as one. What happens in time (utilisation, answers a second) goes to the stretch between
the first arrivals of two blocks in which it happens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim import metrics
from sim.metrics import HISTOGRAM_EDGES, PERCENTILES, Figures, ratio
from sim.node import NodeSpec
from sim.records import Events, Records
from sim.result import TIME_PARTS
from sim.sketch import Sketch
from sim.tracks import FAILURES

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

BLOCKS = 256
TICK_S = 2**-40  # engines tell of events at different times; whole ticks add up to the same in any order
MOST_POINTS = 1_600  # of a memory timeline while the run goes on


class Tally:
    """Sums and sketches by name. Merging adds."""

    def __init__(self) -> None:
        self.sums: defaultdict[str, float] = defaultdict(float)
        self.beside: Counter[str] = Counter()  # ticks that a resource is in use for what is in no row
        self.sketches: defaultdict[str, Sketch] = defaultdict(Sketch)

    def merge(self, other: Tally) -> None:
        for name, amount in other.sums.items():
            self.sums[name] += amount
        self.beside.update(other.beside)
        for name, sketch in other.sketches.items():
            self.sketches[name].merge(sketch)

    def mean(self, of: str, over: str) -> float:
        return ratio(self.sums[of], self.sums[over])


def merged(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.merge(tally)
    return total


class Ledger:
    """`requests`, in pages of `page`. `steady`: there is a warm-up to remove. `drawn` and `add` in order of arrival."""

    def __init__(
        self, node: NodeSpec, class_names: tuple[str, ...], slo_s: float, *, requests: int, page: int, steady: bool
    ) -> None:
        self._node, self._classes, self._slo_s, self._requests = node, class_names, slo_s, requests
        pages = -(-requests // page)
        self._per_block = -(-pages // BLOCKS)  # pages
        self._block = self._per_block * page  # requests
        self._steady = steady
        apart = -(-pages // self._per_block) // 2 if steady else 0
        self._tallies = [Tally() for _ in range(apart + 1)]
        self._edges: list[float] = []  # arrival of the first request of each block that is kept apart
        self._end = float("inf")  # the last arrival, once it is known
        self._drawn = self._added = 0  # requests
        self._log_sums: list[float] = []  # by block
        self._steps_down: Counter[tuple[int, str]] = Counter()
        self._lines: dict[tuple[int, int], list[tuple[float, float]]] = {}  # memory by replica and device
        self._fullest: tuple[float, tuple[int, int] | None] = -1.0, None  # the most bytes in use, and where first
        self._watermarks = 0
        self._compiles: list[tuple[float, str, int, float]] = []

    def drawn(self, times: Floats) -> None:
        """A page will arrive at these times."""
        if self._drawn % self._block == 0 and len(self._edges) < len(self._tallies):
            self._edges.append(float(times[0]))
        self._drawn += times.size
        if self._drawn == self._requests:
            self._end = float(times[-1])

    def add(self, records: Records) -> None:
        """A page is done."""
        block, within = divmod(self._added, self._block)
        if within == 0:
            self._log_sums.append(0.0)
        self._log_sums[-1] += float(metrics.log_latency(records.latency).sum())
        tally = self._tallies[min(block, len(self._tallies) - 1)]
        self._add_requests(tally, records)
        self._add_signals(tally, records)
        self._add_to_time(records)
        self._add_events(records)
        self._added += records.arrived.size

    def _add_requests(self, tally: Tally, records: Records) -> None:
        latency, answered = records.latency, ~records.failed
        ok: Mask = answered & (latency <= self._slo_s)
        counted = np.where(answered, latency, np.inf)
        parts = metrics.time_parts(records)
        sums = tally.sums
        sums["requests"] += latency.size
        sums["answered"] += int(answered.sum())
        sums["ok"] += int(ok.sum())
        sums["late"] += int((records.answered > self._end).sum())
        sums["latency"] += float(latency[answered].sum())
        for k, count in enumerate(np.bincount(records.failure, minlength=len(FAILURES)).tolist()):
            sums[f"failed:{k}"] += count
        for part in TIME_PARTS:
            sums[f"part:{part}"] += float(parts[part][answered].sum())
        tally.sketches["latency"].add(counted)
        tally.sketches["queued"].add(metrics.waited(parts)[answered])
        for k, name in enumerate(self._classes):
            mine = records.work.class_of == k
            if not mine.any():
                continue
            sums[f"class:{name}"] += int(mine.sum())
            sums[f"class:{name}:ok"] += int(ok[mine].sum())
            sums[f"class:{name}:answered"] += int(answered[mine].sum())
            sums[f"class:{name}:latency"] += float(latency[mine & answered].sum())
            tally.sketches[f"class:{name}"].add(counted[mine])

    def _add_signals(self, tally: Tally, records: Records) -> None:
        for s, name in enumerate(records.node.signals):
            rows = np.flatnonzero(~records.failed & np.isfinite(records.ended[:, s]))
            seconds = records.ended[rows, s] - records.ready[rows, s]
            tally.sums[f"signal:{name}"] += rows.size
            tally.sums[f"signal:{name}:latency"] += float(seconds.sum())
            tally.sketches[f"signal:{name}"].add(seconds)
            for part, values in metrics.job_parts(records, rows, s).items():
                tally.sums[f"signal:{name}:part:{part}"] += float(values.sum())

    def _add_to_time(self, records: Records) -> None:
        """What happened when: to each stretch of time that these requests lived in."""
        beside = [(x.start, x.end) for x in records.events.lost] + [(a, b) for _, a, b in records.events.holds]
        first = min([float(records.arrived.min()), *(a for a, _ in beside)])
        last = max([float(records.answered.max()), *(b for _, b in beside)])
        ends = [*self._edges[1:], self._end]
        ok: Mask = ~records.failed & (records.latency <= self._slo_s)
        rows = replace(records, events=Events())
        for k in range(max(bisect_right(self._edges, first) - 1, 0), bisect_right(self._edges, last)):
            begin, end, sums = self._edges[k], ends[k], self._tallies[k].sums
            inside = (records.answered >= begin) & (records.answered < end)
            if k == len(self._tallies) - 1:
                inside |= records.answered == end
            sums["inside"] += int(inside.sum())
            sums["inside:ok"] += int((inside & ok).sum())
            for name, seconds in metrics.in_use(rows, begin, end).items():
                sums[f"used:{name}"] += float(seconds)
            for name, seconds in metrics.beside(self._node, records.events, begin, end):
                self._tallies[k].beside[name] += round(seconds / TICK_S)

    def _add_events(self, records: Records) -> None:
        events, sums = records.events, self._tallies[0].sums  # of the whole run, warm-up included
        ran = records.variant >= 0
        self._steps_down.update(dict(events.steps_down))
        self._watermarks += len(events.watermarks)
        if len(self._compiles) < metrics.MOST_COMPILES:
            self._compiles += metrics.compiles_of(self._node, events)
        sums["ran"] += int(ran.sum())
        sums["fell_back"] += int((ran & (records.variant != np.arange(len(self._node.signals)))).sum())
        sums["stalled"] += float(records.stalls["compile"].sum() + records.stalls["load"].sum())
        for time, replica, device, used in events.memory:
            line = self._lines.setdefault((replica, device), [])
            line.append((time, used))
            if used > self._fullest[0]:
                self._fullest = used, (replica, device)
            if len(line) >= MOST_POINTS:
                line[:] = [max(line[k : k + 2], key=lambda point: point[1]) for k in range(0, len(line), 2)]

    def figures(self, attainment: float) -> Figures:
        """All figures, once every page is added."""
        whole = np.array(self._log_sums[: self._requests // self._block]) / self._block
        cut = metrics.mser(whole) if self._steady else 0
        tally, everything = merged(self._tallies[cut:]), merged(self._tallies)
        sums, length = tally.sums, self._end - self._edges[cut]
        latency, queued = tally.sketches["latency"], tally.sketches["queued"]
        requests = int(sums["requests"])
        scalars = {
            "throughput_rps": ratio(sums["inside"], length),
            "goodput_rps": ratio(sums["inside:ok"], length),
            "arrival_rps": ratio(requests - 1, length),
            "backlog_share": tally.mean("late", "requests"),
            "slo_attainment": tally.mean("ok", "requests"),
            "slo_percentile_s": float(latency.percentiles([100 * attainment])[0]),
            "queue_wait_p99_s": float(queued.percentiles([99])[0]),
            "failed_fraction": ratio(requests - sums["answered"], requests),
            "compile_stall_s": float(everything.sums["stalled"]),
            "fallback_fraction": everything.mean("fell_back", "ran"),
            "vram_peak_bytes": self._fullest[0] if self._fullest[1] else float("nan"),
            "watermark_events": float(self._watermarks),
        }
        return Figures(
            scalars=scalars,
            latency_s=_latency(tally, "latency", "latency", "answered"),
            utilisation=self._utilisation(tally, length),
            mean_parts_s={part: tally.mean(f"part:{part}", "answered") for part in TIME_PARTS},
            signals={name: self._signal(tally, name) for name in self._node.signals if sums[f"signal:{name}"]},
            classes={name: self._class(tally, name) for name in self._classes if sums[f"class:{name}"]},
            signal_requests={name: int(sums[f"signal:{name}"]) for name in self._node.signals},
            class_requests={name: int(sums[f"class:{name}"]) for name in self._classes},
            failures={reason: tally.mean(f"failed:{k}", "requests") for k, reason in enumerate(FAILURES) if k},
            steps_down=metrics.steps_down_of(self._node, self._steps_down, self._requests),
            memory=metrics.thinned(self._lines[self._fullest[1]]) if self._fullest[1] else [],
            compiles=self._compiles[: metrics.MOST_COMPILES],
            measured=requests,
            warmup_removed=cut * self._block,
            histogram=latency.histogram(HISTOGRAM_EDGES),
        )

    def _utilisation(self, tally: Tally, length: float) -> dict[str, float]:
        node, variants = self._node, range(self._node.variant_count)
        sessions = {metrics.sessions_of(node, v): node.sessions[node.variant(v).signal] for v in variants}
        used = {key.removeprefix("used:"): seconds for key, seconds in tally.sums.items() if key.startswith("used:")}
        for name, ticks in tally.beside.items():
            used[name] += TICK_S * ticks / sessions.get(name, 1)
        return {name: ratio(seconds, length * node.replicas.count) for name, seconds in used.items()}

    def _signal(self, tally: Tally, name: str) -> dict[str, float]:
        me = f"signal:{name}"
        parts = [key for key in tally.sums if key.startswith(f"{me}:part:")]
        return {
            **_latency(tally, me, f"{me}:latency", me),
            **{key.removeprefix(f"{me}:"): tally.mean(key, me) for key in parts},
        }

    def _class(self, tally: Tally, name: str) -> dict[str, float]:
        me = f"class:{name}"
        return {
            **_latency(tally, me, f"{me}:latency", f"{me}:answered"),
            "slo_attainment": tally.mean(f"{me}:ok", me),
        }


def _latency(tally: Tally, sketch: str, total: str, count: str) -> dict[str, float]:
    values = tally.sketches[sketch].percentiles(list(PERCENTILES.values()))
    return {"mean": tally.mean(total, count), **dict(zip(PERCENTILES, values.tolist(), strict=True))}
