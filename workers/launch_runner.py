"""One launch of a job: start the arm's engine, measure its runs one after the other, stop the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from jobs.datasets.prompt import Prompt
from lab.errors import EngineError
from lab.study.plan import Launch, PlannedRun
from workers.engine_runtime.launch import Command, Process, RunningEngine, start_engine
from workers.heartbeat import Heartbeat
from workers.run_measurement import Measured, measure
from workers.run_recorder import Recorder

#: A crash under one load must not spoil the other runs of the launch: the engine is started once more.
_STARTS = 2
_STOP_GRACE_S = 10.0
#: A cancelled job must end within 2 s.
_HASTY_STOP_GRACE_S = 0.5


@dataclass
class LaunchRun:
    """Measures the runs left in one launch. An engine that does not start or dies is a result, recorded as failed
    runs.
    """

    launch: Launch
    left: list[PlannedRun]
    heartbeat: Heartbeat
    recorder: Recorder
    prompts: Mapping[str, Sequence[Prompt]]  # by workload, as many as its largest load needs
    _command: Command | None = field(default=None, init=False)
    _process: Process | None = field(default=None, init=False)

    def run(self) -> None:
        """Raises the heartbeat's reasons to stop, and UserError if a bundle cannot be written."""
        why = "the engine did not start"
        for _ in range(_STARTS):
            if not self.left:
                return
            self.recorder.status.starting(self.launch, self.left)
            self.recorder.bundles.wait()  # the engine's log is about to be overwritten
            try:
                with self._engine() as engine:
                    why = self._measure_all(engine)
            except EngineError as error:
                why = str(error)
                break
        for run in self.left:
            self.recorder.unmeasured(self.launch, run, self._command, why)

    @contextmanager
    def _engine(self) -> Iterator[RunningEngine]:
        """The engine inside the block; afterwards no process of it is left. Raises EngineError if it does not start."""
        grace_s = _HASTY_STOP_GRACE_S
        settings, job = self.recorder.settings, self.recorder.job
        try:
            engine = self.heartbeat.run(start_engine(settings, job.study, self.launch.arm, job.job_id, self._started))
            if engine.start_s is not None:
                self.recorder.status.forecast.saw_start(engine.start_s)
            yield engine
            grace_s = _STOP_GRACE_S
        finally:
            if self._process is not None:
                self._process.stop(grace_s)

    def _started(self, command: Command, process: Process) -> None:
        self._command, self._process = command, process

    def _measure_all(self, engine: RunningEngine) -> str:
        """Measure until nothing is left or the engine has died; return why it died, or an empty string."""
        last_end_s: float | None = None
        while self.left:
            run = self.left[0]
            seen = self._measure(engine, run)
            idle_before_s = None if last_end_s is None else seen.warmup_began_s - last_end_s
            self.recorder.measured(self.launch, run, engine, seen, idle_before_s)
            del self.left[0]
            if seen.engine_died:
                return seen.error or ""
            last_end_s = seen.ended_s
        return ""

    def _measure(self, engine: RunningEngine, run: PlannedRun) -> Measured:
        recorder, study = self.recorder, self.recorder.job.study
        recorder.status.warming_up(run)
        seen = self.heartbeat.run(
            measure(
                engine,
                run,
                study,
                self.prompts[run.workload.name][: run.load.num_prompts],
                request_timeout_s=recorder.settings.request_timeout_s,
                before_window=self._before_window,
                on_progress=recorder.status.measuring,
            )
        )
        if seen.error is None and seen.ended_s is not None:
            recorder.status.forecast.saw_run(run, seen.ended_s - seen.warmup_began_s)
        return seen

    async def _before_window(self) -> None:
        """Wait until the last bundle is on disk: nothing of ours may run during a window."""
        await self.recorder.bundles.wait_async()
        self.recorder.status.window_begins()
