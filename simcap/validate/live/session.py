"""One validation, from what a person asked for to the record: set up, play what is missing, judge, report.

Enters: scenario, profile, a folder, the plan. Leaves: `Judged`s and a `Report` with the record, groups of errors and findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.age import age_of
from calibrate.artifacts import OwnModel
from calibrate.in_place_request import hosted_of, runtime_of
from calibrate.launch import WorkerLauncher
from calibrate.live import Host, Hosted, check_playable
from calibrate.machine import machine
from calibrate.model_zoo.cache import cache_directory
from profiles.errors import InputError
from profiles.schema import Profile
from scenarios.loader import entries_of
from scenarios.schema import Scenario
from scenarios.threads import most_threads
from simcap.validate import record
from simcap.validate.live import summary
from simcap.validate.live.judge import Judged, judge
from simcap.validate.live.play import Plan, play_missing
from simcap.validate.live.recording import Folder

OPEN_FACTOR = 1.5  # an open point takes so many times as long as a closed one: it brings fewer requests a second


@dataclass(frozen=True)
class Report:
    """findings: why the command ends with 4; none when all is well."""

    record: record.Validation
    path: Path
    groups: Sequence[summary.Group]
    judged: Sequence[Judged]
    coverage: summary.Coverage
    findings: Sequence[str]


class Session:
    """zoo_seed: of the zoo's weights, which the profile's digests must match."""

    def __init__(
        self,
        scenario: Scenario,
        profile: Profile,
        folder: Path,
        *,
        clients: Sequence[int],
        shares: Sequence[float],
        runs: int,
        seconds: float,
        seed: int,
        own: Sequence[OwnModel] = (),
        cache: Path | None = None,
        zoo_seed: int = 1,
    ) -> None:
        check_playable(scenario)
        self.scenario, self.profile, self._folder, self._seed = scenario, profile, folder, seed
        self._refused: list[str] = []
        self._here = machine()
        self.threads = _threads(scenario, profile)
        launch, self._runtime = runtime_of(scenario, cache_directory(cache), {}, WorkerLauncher)
        options = {e.provider.name: e.provider.options for e in profile.entries}
        self.hosted = hosted_of(scenario, own, cache_directory(cache), zoo_seed, launch, self.threads, options)
        files = {hosted.artifact.model: hosted.artifact.path for hosted in self.hosted.values()}
        age = age_of(profile, files, cache=cache_directory(cache))
        self.stale = age.sentence(profile.name) if age.word in {"stale", "elsewhere"} else None
        parallel = max(min(most_threads(scenario, self.threads), self._here.cores) // max(self.threads.values()), 1)
        self._plan = Plan(clients, shares, runs, seconds, OPEN_FACTOR * seconds, parallel, seed)
        self._host = Host(scenario, self.hosted, launch, sentinel=self._sentinel(), width=self._width(), seed=seed)

    def _sentinel(self) -> tuple[Hosted, int]:
        """The profile's, where it has one among the scenario's models; else the first signal at its shortest text."""
        looked = self.profile.sentinel
        for hosted in self.hosted.values():
            if looked and (hosted.artifact.model, hosted.artifact.artifact) == (looked.model, looked.artifact):
                return hosted, looked.tokens
        name, signal = next(iter(self.scenario.signals.items()))
        entry = entries_of(self.scenario, self.profile)[name][signal.provider, signal.artifact]
        return self.hosted[name], entry.surface(signal.cadence).range_of_tokens()[0]

    def _width(self) -> int:
        return max(self._here.cores // max(self.threads.values()), 1)

    def play_and_judge(self, say: Callable[[str], None]) -> list[Judged]:
        """Play what the folder does not hold, then judge it."""
        identity = {
            "scenario": self.scenario.model_dump(mode="json", by_alias=True, exclude_none=True),
            "seed": self._seed,
        }
        self._refused = play_missing(
            self.scenario, self.profile, self._host, Folder(self._folder, identity), self._plan, say
        )
        return self.judge_only()

    def judge_only(self) -> list[Judged]:
        """Judge what is there."""
        recordings = [r for r in Folder(self._folder).read() if r.run <= self._plan.runs]
        if not recordings:
            raise InputError(f"{self._folder}: nothing was recorded there")
        return judge(self.scenario, self.profile, recordings, self.threads, cores=self._here.cores, seed=self._seed)

    def report(self, judged: Sequence[Judged], *, command: str, profile_path: Path) -> Report:
        """Say what was found, and write the record beside the profile."""
        never_shared = most_threads(self.scenario, self.threads) <= self._here.cores
        groups = summary.groups(judged, "pool" if never_shared else "shared")
        findings = [
            *([self.stale] if self.stale else []),
            *self._refused,
            *(found for found in (summary.wrong_law(judged), summary.moved(judged)) if found),
            *(summary.missed(group) for group in groups if group.missed),
        ]
        covered = summary.coverage(judged)
        validation = record.Validation(
            kind="live",
            profile=record.reference(self.profile.name, profile_path),
            scenario=self.scenario.name,
            date=record.now(),
            machine=record.this_machine({"onnxruntime": self._runtime.onnxruntime}),
            command=command,
            verdict="attention" if findings else "pass",
            summary=summary.sentence(groups, covered, judged),
            rows=tuple(summary.rows_of(judged)),
            notes=(*findings, *summary.notes(judged)),
        )
        return Report(validation, record.write(validation, profile_path), groups, judged, covered, findings)


def _threads(scenario: Scenario, profile: Profile) -> dict[str, int]:
    """Intra-op threads of each signal's sessions, as they were calibrated."""
    found = {}
    for name, signal in scenario.signals.items():
        threads = profile.entry(signal.model, signal.artifact, signal.provider).provider.threads
        if threads is None:
            raise InputError(f"profile {profile.name} does not say with how many threads {signal.model} was measured")
        found[name] = threads
    return found
