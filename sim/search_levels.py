"""One load of a capacity search: its replications, how many requests breach the SLO there, and what that allows to say.

Enters: outcomes of replications from a probe. Leaves: `Reading`s. A breach is a request that failed or was late; the
share of breaches is 1 - attainment. Seconds, requests, shares.

Warm-up: MSER-5 (`sim.metrics.mser5`) on the mean over replications of log latency, one cut for all replications of a load.
On a single replication the rule often cuts a long queue at its beginning and so flatters the attainment: on M/M/1 at
ρ = 0.9 and 20 000 requests the share of breaches comes out a quarter too low. docs/decisions/0013 has the comparison.

Interval: Student's t on the jackknife of ln p, p the mean share over R replications (Tukey 1958; Miller 1974): about
ln p ± t(0.975, R-1) s / (p sqrt R). The share is skewed (breaches come in clusters); the logarithm of its mean is not, much.
Where no request at all breached, or every one, the end that variance cannot give is Wilson's, z² / (N + z²) for N requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sim.capacity import verdict_of
from sim.intervals import SATURATED_BACKLOG, interval
from sim.metrics import mser5
from sim.result import Interval, Verdict

Z2 = 1.959964**2  # square of the 97.5 % point of the normal law


@dataclass(frozen=True)
class Outcome:
    """One replication at one load. `latency_s` (infinite where the request failed), `breached`: (n,) in order of arrival,
    warm-up included.
    """  # fmt: skip

    latency_s: NDArray[np.float32]
    breached: NDArray[np.bool_]
    backlog_share: float  # of arrivals, unanswered when arrivals stop
    served: float  # throughput in the unit of the load; NaN where loads are no rates
    utilisation: Mapping[str, float]


class Probe(Protocol):
    """Runs one replication. The same arguments give the same outcome; replications share their streams over loads."""

    def __call__(self, load: float, replication: int, requests: int) -> Outcome: ...


Level = Callable[[float, Sequence[int], int], list[Outcome]]
"""Runs several replications of one load, in their order."""


@dataclass(frozen=True)
class Settings:
    """What a search is to do.

    whole: loads are whole numbers (clients, burst size). rates: loads are rates of arrival from outside, so that a queue
    can grow without end. steady: arrivals have one law for ever, so that runs have a warm-up and can be lengthened
    (bursts, a trace and a day have neither). start: any load, to begin with.
    requests, replications: of the first full run of a load; a search adds to both. max_requests: effort, all runs together.
    """

    attainment: float
    start: float
    requests: int
    replications: int
    precision: float = 0.03
    max_requests: int = 5_000_000
    whole: bool = False
    rates: bool = True
    steady: bool = True

    @property
    def allowed(self) -> float:
        """The share of breaches that the SLO allows."""
        return 1.0 - self.attainment


class Reading:
    """What R replications of one length say about one load. `y` and its ends are ln(share of breaches / allowed share):
    0 at capacity, above 0 where the SLO is broken.
    """  # fmt: skip

    def __init__(self, load: float, requests: int, runs: tuple[Outcome, ...], settings: Settings) -> None:
        self.load, self.requests, self.replications = load, requests, len(runs)
        self.length = runs[0].breached.size  # requests that a run had: bursts and traces keep their own
        self._settings = settings
        late = _shares(runs, steady=settings.steady)
        self.counted = late.counted
        self.share = float(late.values.mean())
        self.cv = float(late.values.std(ddof=1) / self.share) if self.share and self.replications > 1 else 0.0
        self.share_lo, self.share_hi = share_interval(late.values, late.counted)
        self.percentile_s = late.percentile(settings.attainment)
        self.served = interval(run.served for run in runs)
        self.utilisation = {
            name: interval((run.utilisation[name] for run in runs), lowest=0.0) for name in runs[0].utilisation
        }
        backlog = interval(run.backlog_share for run in runs)
        self.saturated = (
            settings.rates and settings.steady and backlog.lo is not None and backlog.lo > SATURATED_BACKLOG
        )

    @cached_property
    def attainment(self) -> Interval:
        if self.replications < 2:
            return Interval(mean=1.0 - self.share, lo=None, hi=None)
        return Interval(mean=1.0 - self.share, lo=1.0 - self.share_hi, hi=1.0 - self.share_lo)

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.attainment, self._settings.attainment, saturated=self.saturated)

    @property
    def keeps(self) -> bool:
        """The best guess, certain or not: the SLO is kept here."""
        return self.share <= self._settings.allowed and not self.saturated

    @property
    def y(self) -> float:
        return self._log(self.share)

    @property
    def y_lo(self) -> float:
        return self._log(self.share_lo)

    @property
    def y_hi(self) -> float:
        return self._log(self.share_hi)

    @property
    def fullest(self) -> float:
        """The highest mean utilisation of any resource."""
        return max((used.mean or 0.0 for used in self.utilisation.values()), default=0.0)

    def _log(self, share: float) -> float:
        y = float(np.log(max(share, 0.5 / self.counted) / self._settings.allowed))
        return max(y, 1.0) if self.saturated else y


@dataclass(frozen=True)
class _Shares:
    values: NDArray[np.float64]  # share of breaches of each replication, warm-up removed
    counted: int  # requests in all of them
    kept_latency: NDArray[np.float32]

    def percentile(self, level: float) -> float:
        return float(np.quantile(self.kept_latency, level, method="inverted_cdf"))


def _shares(runs: tuple[Outcome, ...], *, steady: bool) -> _Shares:
    cut = 0
    if steady:
        worst = max(float(run.latency_s[np.isfinite(run.latency_s)].max(initial=1e-9)) for run in runs)
        logs = np.mean([np.log(np.clip(run.latency_s, 1e-9, worst)) for run in runs], axis=0)
        cut = mser5(np.asarray(logs, dtype=float))
    values = np.array([run.breached[cut:].mean() for run in runs])
    kept = np.concatenate([run.latency_s[cut:] for run in runs])
    return _Shares(values, kept.size, kept)


def share_interval(shares: NDArray[np.float64], requests: int) -> tuple[float, float]:
    """95 % interval of a share from its values in R replications, `requests` in all; (0, 1) for a single replication."""
    if shares.size < 2:
        return 0.0, 1.0
    mean = float(shares.mean())
    if mean == 0.0:
        return 0.0, Z2 / (requests + Z2)
    if mean == 1.0:
        return requests / (requests + Z2), 1.0
    centre, cv = log_mean(shares)
    half = half_log(cv, shares.size)
    return float(np.exp(centre - half)), min(float(np.exp(centre + half)), 1.0)


def log_mean(shares: NDArray[np.float64]) -> tuple[float, float]:
    """Jackknife of ln(mean share): its estimate without the bias of order 1/R, and the standard deviation of its
    pseudo-values. Where one replication holds all breaches the jackknife does not exist: the delta method, s / p.
    """  # fmt: skip
    total, number = float(shares.sum()), shares.size
    if float(np.ptp(shares)) <= 1e-12:
        return float(np.log(total / number)), 0.0  # equal shares; rounding is no spread
    others = (total - shares) / (number - 1)
    if np.any(others <= 1e-12 * total):
        return float(np.log(total / number)), float(shares.std(ddof=1)) * number / total
    pseudo = number * np.log(total / number) - (number - 1) * np.log(others)
    return float(pseudo.mean()), float(pseudo.std(ddof=1))


def half_log(cv: float, replications: int) -> float:
    """Half width of the interval of ln(share) for a coefficient of variation between replications."""
    return float(stats.t.ppf(0.975, replications - 1)) * cv / float(np.sqrt(replications))


class EffortUsedUpError(Exception):
    """The next run would pass `max_requests`. Caught by the search, never seen outside it."""


class Bench:
    """Runs what is asked for and keeps it; a load that gains replications keeps those that it has."""

    def __init__(
        self,
        probe: Probe,
        settings: Settings,
        progress: Callable[[int, int], None] | None = None,
        level: Level | None = None,
    ) -> None:
        self.settings = settings
        self._level = level
        self.spent = 0  # requests
        self._first = 0  # number of the first replication of a reading
        self._probe, self._progress = probe, progress
        self._runs: dict[tuple[float, int, int], list[Outcome]] = {}
        self._readings: dict[tuple[float, int, int, int], Reading] = {}

    def read(self, load: float, requests: int, replications: int) -> Reading:
        """The reading of a load (rounded where loads are whole). Raises EffortUsedUpError."""
        if self.settings.whole:
            load = float(max(round(load), 1))
        first = self._first
        key = (load, requests, first, replications)
        if key not in self._readings:
            runs = self._runs.setdefault((load, requests, first), [])
            for outcome in self._more(load, range(first + len(runs), first + replications), requests):
                runs.append(outcome)
                self.spent += runs[-1].breached.size
                if self._progress:
                    self._progress(self.spent, self.settings.max_requests)
            self._readings[key] = Reading(load, requests, tuple(islice(runs, replications)), self.settings)
        return self._readings[key]

    def _more(self, load: float, replications: Sequence[int], requests: int) -> Iterator[Outcome]:
        """Further replications of a load, side by side where there are workers, as far as the effort goes."""
        side_by_side = None
        for place, replication in enumerate(replications):
            if self.spent + requests > self.settings.max_requests:
                raise EffortUsedUpError
            if self._level is None:
                yield self._probe(load, replication, requests)
            else:
                side_by_side = side_by_side or self._level(load, replications, requests)
                yield side_by_side[place]

    def begin_afresh(self) -> None:
        """From now on read replications that no reading has seen, so that what was chosen by those does not bias these."""
        self._first = self.settings.replications

    @property
    def left(self) -> int:
        """Requests that may still be simulated."""
        return self.settings.max_requests - self.spent

    def readings(self) -> list[Reading]:
        """The last word on each load that was evaluated (longest runs, most replications), by load."""
        last: dict[float, Reading] = {}
        for reading in self._readings.values():
            before = last.get(reading.load)
            if before is None or reading.counted >= before.counted:
                last[reading.load] = reading
        return [last[load] for load in sorted(last)]
