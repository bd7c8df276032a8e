"""The progress of a job: updated by the thread that works on it, read by its heartbeat."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from jobs.table import Phase, Progress
from lab.estimate import WITHOUT_GPU
from lab.schedule import End, Step
from lab.study import Arm
from lab.study.plan import Launch, PlannedRun, engine_starts
from workers.load.window import LoadProgress

#: Above this share of a run's requests its own pace predicts its end better than the forecast.
_TRUST_OWN_PACE_FROM = 0.25


class Forecast:
    """Predicts durations within one job, from its own engine starts and runs only."""

    def __init__(self) -> None:
        self._starts_s: list[float] = []
        self._guessed_s = self._took_s = 0.0

    def saw_start(self, took_s: float) -> None:
        self._starts_s.append(took_s)

    def saw_run(self, run: PlannedRun, took_s: float) -> None:
        """`took_s` lasts from the beginning of the warm-up to the end of the window."""
        self._guessed_s += WITHOUT_GPU.run_s(run)
        self._took_s += took_s

    def run_s(self, run: PlannedRun) -> float:
        """Predict how long this run takes, in seconds."""
        return WITHOUT_GPU.run_s(run) * (self._took_s / self._guessed_s if self._guessed_s else 1.0)

    def remaining_s(self, runs: Sequence[PlannedRun], starts: int) -> float:
        """Predict how long these runs take with this number of engine starts, in seconds."""
        start_s = sum(self._starts_s) / len(self._starts_s) if self._starts_s else WITHOUT_GPU.start_s
        return starts * start_s + sum(map(self.run_s, runs))


class JobStatus:
    """The status of a job. Call `snapshot` from any thread, `finished` from the thread that writes bundles."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        """`launches`: the most that the job will measure, until its schedule gives its first step."""
        self.forecast = Forecast()
        self.runs_done = self.runs_failed = self.launches_done = 0
        self._runs_total, self._launches_total = _runs(launches), _count(launches)
        self._at_most = False
        self._phase: Phase = "starting engine"
        self._arm, self._repeat = launches[0].arms[0].name, launches[0].runs[0].repeat
        self._launch: Launch | None = None
        self._to_start = 0  # engines of the current launch
        self._left: tuple[PlannedRun, ...] = ()  # of the current step, the current run included
        self._later: tuple[Launch, ...] = tuple(launches)
        self._shared_by = 1  # slots that measure what is later
        self._run: PlannedRun | None = None
        self._load: LoadProgress | None = None
        self._shares: dict[tuple[str, str, str, int], float] = {}  # of runs in rounds that are done in part, by names
        self._standing, self._end = "", End("")
        self._end_s: float | None = None  # time.monotonic, when the study's budget will be spent
        self._since_s = time.monotonic()

    def step(self, step: Step) -> None:
        """Begin the step that the schedule has chosen; all runs before it are finished."""
        launch, before = step.launch, self._launch
        if before is None or before.index != launch.index:
            self.launches_done += before is not None
            self._to_start = len(launch.arms)
        self._launch, self._left, self._later = launch, launch.runs, step.later
        self._runs_total = self.runs_done + _runs((launch, *step.later))
        self._launches_total = self.launches_done + _count((launch, *step.later))
        self._at_most, self._standing = not step.later_is_certain, step.standing
        self._shared_by = step.shared_by
        self._end_s = None if step.most_s is None else time.monotonic() + step.most_s

    def starting(self, arm: Arm, repeat: int) -> None:
        """Begin to start an engine of the current launch."""
        self._run, self._load, self._since_s = None, None, time.monotonic()
        self._phase, self._arm, self._repeat = "starting engine", arm.name, repeat
        self._to_start = max(0, self._to_start - 1)

    def warming_up(self, run: PlannedRun) -> None:
        self._load, self._since_s = None, time.monotonic()
        self._run, self._arm, self._repeat, self._phase = run, run.arm.name, run.repeat, "warming up"

    def window_begins(self, run: PlannedRun) -> None:
        self._load, self._since_s = None, time.monotonic()
        self._run, self._arm, self._repeat, self._phase = run, run.arm.name, run.repeat, "measuring"

    def measuring(self, progress: LoadProgress) -> None:
        self._load = progress
        if self._run is not None:
            self._shares[self._run.names] = progress.share_done

    def finishing(self, end: End) -> None:
        """End the schedule; the last bundle is being written."""
        self.launches_done += self._launch is not None
        self._phase, self._end, self._standing = "finishing", end, ""
        self._runs_total, self._launches_total, self._at_most = self.runs_done, self.launches_done, False
        self._left = self._later = ()
        self._end_s = None

    def finished(self, run: PlannedRun, *, failed: bool) -> None:
        self.runs_done += 1
        self.runs_failed += failed
        self._shares.pop(run.names, None)
        self._left = tuple(left for left in self._left if left != run)

    def snapshot(self) -> Progress:
        run, load, end_s = self._run, self._load, self._end_s
        budget_s = math.inf if end_s is None else max(0.0, end_s - time.monotonic())
        return Progress(
            phase=self._phase,
            arm=self._arm,
            workload=run.workload.name if run else None,
            load=run.load.name if run else None,
            repeat=self._repeat,
            runs_total=self._runs_total,
            runs_total_is_at_most=self._at_most,
            runs_done=self.runs_done,
            runs_failed=self.runs_failed,
            launches_total=self._launches_total,
            launches_done=self.launches_done,
            requests_done=load.requests_done if load else 0,
            requests_total=load.requests_total if load else run.load.num_prompts if run else 0,
            output_tok_per_s=load.output_tok_per_s if load else None,
            ttft_ms=load.ttft_ms if load else None,
            remaining_s=min(self._remaining_s(), budget_s),
            standing=self._standing,
            end_reason=self._end.reason,
            end_sentence=self._end.sentence,
            at=datetime.now(UTC).isoformat(),
        )

    def _remaining_s(self) -> float:
        """Predict the current engine start or run by the time it has taken so far, the rest by the forecast."""
        current, left = self._run, self._left
        later = [run for launch in self._later for run in launch.runs]
        continued = () if self._launch is None else (self._launch,)
        later_starts = len(engine_starts((*continued, *self._later))) - len(engine_starts(continued))
        others, shares = [run for run in left if run != current], self._shares
        rest_s = self.forecast.remaining_s(others, self._to_start)
        rest_s -= sum(shares.get(run.names, 0.0) * self.forecast.run_s(run) for run in others)
        rest_s += self.forecast.remaining_s(later, later_starts) / self._shared_by
        spent_s = time.monotonic() - self._since_s
        if current is None:
            return rest_s + max(0.0, self.forecast.remaining_s((), 1) - spent_s)
        if current not in left:
            return rest_s
        load = self._load
        share = load.share_done if load else 0.0
        if load is not None and share >= _TRUST_OWN_PACE_FROM:
            return rest_s + load.elapsed_s * (1 - share) / share
        done = 0.0 if load else shares.get(current.names, 0.0)  # in the windows before
        return rest_s + max(0.0, self.forecast.run_s(current) * (1 - done) - (load.elapsed_s if load else spent_s))


def _runs(launches: Sequence[Launch]) -> int:
    return sum(len(launch.runs) for launch in launches)


def _count(launches: Sequence[Launch]) -> int:
    return len({launch.index for launch in launches})
