"""The launches of a job: start the engines of a launch, measure its runs one by one or in rounds, stop the engines."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from access.accounts import role_now
from host import quiet
from host.os_errors import named_os_errors
from jobs.datasets.prompt import Prompt
from jobs.engine_logs import engine_log
from jobs.policy import author_problems
from jobs.submission import Context
from lab.errors import EngineError, HostError, StudyError, UserError
from lab.quality.code_answers import UNIT_TESTS
from lab.schedule.rounds import (
    LEAST_TOKENS,
    LEAST_TOKENS_ON_GPU,
    PlannedWindow,
    dealt,
    in_long_windows,
    in_order,
)
from lab.study import Arm
from lab.study.plan import Launch, PlannedRun, repeats_of_a_launch
from workers.engine_runtime import start_failure
from workers.engine_runtime.kept import Identity, KeptEngines, KeptLaunch, all_answer, identity, make_room
from workers.engine_runtime.launch import Command, Process, RunningEngine, engine_command, start_engine
from workers.engine_runtime.memory_check import largest_bytes, refuse_without_memory, while_memory_lasts
from workers.engine_runtime.process import EngineProcess
from workers.heartbeat import HandsBack, Heartbeat
from workers.probes.nvml import gpus
from workers.probes.occupied import used_by_others
from workers.run_measurement import Measured, Measurement
from workers.run_recorder import Recorder, announced_as
from workers.slots import taken_slot
from workers.unit_tests import with_unit_tests

#: A crash under one load must not spoil the other runs of the launch: the engine is started once more.
_STARTS = 2
_STOP_GRACE_S = 10.0
#: A cancelled job must end within 2 s.
_HASTY_STOP_GRACE_S = 0.5
#: An engine that had no requests for so long is warmed up before it is measured again.
_COLD_AFTER_S = 60.0
#: An engine polls for about a second after its last message. One that cannot be suspended has to come to rest.
_RESTS_AFTER_S = 1.2
#: A window waits at most this long for the ingester, and as long again for an ingestion that does not end.
_PATIENCE_S = 5.0
_POLL_EVERY_S = 0.02
#: Log numbers reserved for each slot of a shared job: more than a study has arms.
_LOGS_OF_A_SLOT = 1000
T = TypeVar("T")


@dataclass
class _ArmEngine:
    """The engine of one arm of the current launch. `starts` counts starts since `measure` was called."""

    arm: Arm
    number: int  # the number of the arm within the launch, as in the name of its log
    command: Command | None = None
    process: Process | None = None
    running: RunningEngine | None = None
    identity: Identity | None = None  # of its start; None: it may not be kept
    starts: int = 0
    is_warm: bool = False  # has answered the requests of a warm-up since its start
    is_suspended: bool = False
    last_end_s: float | None = None  # time.monotonic, of its last window
    last_used_s: float = 0.0  # time.monotonic, of its last window or warm-up
    why_gone: str = "the engine did not start"

    def stop(self, grace_s: float) -> None:
        if self.process is not None:
            self.process.stop(grace_s)
        self.process = self.running = self.last_end_s = None
        self.is_warm = self.is_suspended = False


@dataclass
class _UnderWay:
    """A run that is warm, and perhaps has some of its windows."""

    measurement: Measurement
    engine: _ArmEngine
    idle_before_s: float | None
    prompts: Sequence[Prompt]
    hands: Sequence[Sequence[Prompt]] = ()  # the prompts of each window, once it is known how many there are

    @property
    def has_its_engine(self) -> bool:
        """Return whether the engine start that the run has begun on is still up."""
        running = self.measurement.engine
        return self.engine.running is running and running.why_dead() is None


@dataclass
class LaunchRunner:
    """Measures launches. An engine that does not start or dies is a result, recorded as failed runs; if it is the first
    of its job and no other arm can do better, the job ends with its error.

    Use it as `with LaunchRunner(...)`: afterwards no process of an engine is left but those that `kept` has. Engines
    stay up until a launch of another index begins, or a launch of the same index without their arm.
    """

    heartbeat: Heartbeat
    recorder: Recorder
    prompts: Mapping[str, Sequence[Prompt]]  # by workload, as many as its largest load needs
    drains: Callable[[], bool]  # whether to hand the job back after this block
    kept: KeptEngines
    _served: frozenset[tuple[str, int]] = field(default=frozenset(), init=False)  # earlier launches on these engines
    _starts: list[str] = field(default_factory=list, init=False)  # arms of this launch in the order of their starts
    _launch: Launch | None = field(default=None, init=False)
    _engines: dict[str, _ArmEngine] = field(default_factory=dict, init=False)  # by the arm's name
    _has_started: bool = field(default=False, init=False)  # any engine of the job
    _last: PlannedRun | None = field(default=None, init=False)  # what was measured last
    _engine_bytes: int = field(default=0, init=False)  # the most that an engine of the last launch took; 0 if unknown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self._keep()
        finally:
            self._stop(list(self._engines), _STOP_GRACE_S if kind is None else _HASTY_STOP_GRACE_S)

    def measure(self, launch: Launch, left: Sequence[PlannedRun]) -> None:
        """Measure the runs that are left of the launch.

        Raises the heartbeat's reasons to stop, HandsBack between blocks if this worker drains, HostError if the disk is
        too full for a run, a bundle cannot be written for the time of a lease, or the host fails an engine, and
        UserError if the first engine shows that none will start.
        """
        if left:
            self._hand_back_before(left[0])
        self._begin(launch)
        if left:
            self._take_over(launch)
            self._start_missing({name: [run for run in left if run.arm.name == name] or left for name in self._engines})
        for windows in in_order(self.recorder.job.study, launch, left, LEAST_TOKENS_ON_GPU if gpus() else LEAST_TOKENS):
            self._hand_back_before(windows[0].run)
            self._last = windows[0].run
            self._measure_together(launch, windows)

    def _hand_back_before(self, run: PlannedRun) -> None:
        """Raise HandsBack if this worker drains and the last block is whole, or has no end before the study's."""
        study, last = self.recorder.job.study, self._last
        each = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
        is_between = last is not None and (
            study.order == "fewest_launches" or last.repeat // each != run.repeat // each
        )
        if self.drains() and (last is None or is_between):
            raise HandsBack("drains")

    def _begin(self, launch: Launch) -> None:
        before, names = self._launch, [arm.name for arm in launch.arms]
        goes_on = before is not None and before.index == launch.index
        over = [name for name in self._engines if not goes_on or name not in names]
        if len(over) > 1:
            self._engine_bytes = largest_bytes(self._processes())
        self._stop(over, _STOP_GRACE_S)
        for arm in launch.arms:
            taken = {engine.number for engine in self._engines.values()}
            free = next(number for number in itertools.count() if number not in taken)
            engine = self._engines.setdefault(arm.name, _ArmEngine(arm, free))
            engine.starts = 0 if engine.running is None else 1
        if not goes_on:
            self._served, self._starts = frozenset(), []
        self._launch = launch

    def _take_over(self, launch: Launch) -> None:
        """Take over what an earlier study left if starting this launch would give the same; else end it.

        A study until decided starts its engines: its budget counts the time of its starts.
        """
        if not self.kept:
            return
        job, engines = self.recorder.job, [self._engines[arm.name] for arm in launch.arms]
        wanted: list[Identity | None] = []
        if not job.study.until_decided and all(engine.process is None for engine in engines):
            for engine in engines:
                self._refuse_lost_role(engine.arm)
            with contextlib.suppress(UserError):  # the start raises it
                wanted = [self._identity(engine, self._command(engine)) for engine in engines]
        self.recorder.bundles.wait()  # the engines' logs are about to be overwritten
        taken = self.kept.take(wanted, list(map(self._log, engines)), (job.job_id, launch.index))
        if taken is None:
            return
        for engine, running, of_start in zip(engines, taken.engines, taken.identities, strict=True):
            engine.process, engine.command, engine.running = running.process, running.command, running
            engine.identity, engine.starts = of_start, 1
        if self.heartbeat.run(all_answer(taken.engines)):
            self._has_started, self._served, self._starts = True, taken.served, list(self._engines)
            return
        for engine in engines:
            engine.stop(_HASTY_STOP_GRACE_S)
            engine.starts = 0

    def _keep(self) -> None:
        """Leave the engines to the next study, if they are those of a whole launch, started once each in its order, and
        nothing went wrong on them.
        """
        launch, job = self._launch, self.recorder.job
        if launch is None or not self.kept.is_on or self.drains() or self.recorder.first_error is not None:
            return
        engines = [self._engines[arm.name] for arm in launch.arms if arm.name in self._engines]
        running = tuple(
            each.running for each in engines if each.running is not None and each.running.why_dead() is None
        )
        identities = tuple(engine.identity for engine in engines if engine.identity is not None)
        origins = {each.taken_over_from or f"{job.job_id}/{launch.index}" for each in running}
        is_whole = len(running) == len(identities) == len(launch.arms)
        if not is_whole or len(origins) > 1 or self._starts != [arm.name for arm in launch.arms]:
            return
        served = self._served | {(job.job_id, launch.index)}
        if self.kept.keep(KeptLaunch(identities, running, origins.pop(), served), suspends=self._suspends):
            self._engines.clear()

    def _log(self, engine: _ArmEngine) -> Path:
        settings, job = self.recorder.settings, self.recorder.job
        first = _LOGS_OF_A_SLOT * (settings.slot - 1) if job.study.spread else 0
        return engine_log(settings.logs_dir, job.job_id, first + engine.number)

    def _command(self, engine: _ArmEngine) -> Command:
        return engine_command(self.recorder.settings, self.recorder.job.study, engine.arm, self._log(engine))

    def _identity(self, engine: _ArmEngine, command: Command) -> Identity | None:
        recorder = self.recorder
        return identity(recorder.settings, recorder.job.study, engine.arm, command, recorder.contents.models)

    def _start_missing(self, runs: Mapping[str, Sequence[PlannedRun]]) -> None:
        """Start the engines that are not up. Without GPUs they start together: most of a start is one thread that
        imports. On a GPU each engine measures the memory that the others left.
        """
        missing = [engine for engine in self._engines.values() if engine.running is None and engine.starts < _STARTS]
        for engines in [[engine] for engine in missing] if gpus() or not missing else [missing]:
            self._start(engines, runs)

    def _ensure_up(self, engine: _ArmEngine, for_runs: Sequence[PlannedRun]) -> RunningEngine | None:
        """Start the engine if it is not up and may be started again. Return the engine, or None if it is not up."""
        if engine.running is not None and (died := engine.running.why_dead()) is not None:
            engine.why_gone = died
            engine.stop(_STOP_GRACE_S)
        if engine.running is None and engine.starts < _STARTS:
            self._start([engine], {engine.arm.name: for_runs})
        return engine.running

    def _start(self, engines: Sequence[_ArmEngine], runs: Mapping[str, Sequence[PlannedRun]]) -> None:
        """Start these engines, all at once; an engine that does not start gets its error."""
        recorder = self.recorder
        recorder.bundles.wait()  # the engines' logs are about to be overwritten
        for engine in engines:
            engine.starts += 1
            self._starts.append(engine.arm.name)
            recorder.status.starting(engine.arm, runs[engine.arm.name][0].repeat)
            self._refuse_lost_role(engine.arm)
        make_room(recorder.settings.home / "engines")
        refuse_without_memory(self._processes(), more=len(engines), least_bytes=self._engine_bytes)
        names = ", ".join(repr(engine.arm.name) for engine in engines)
        with named_os_errors(f"starting the engine{'s' * (len(engines) > 1)} of {names}"):
            starts = _all(self._started(engine) for engine in engines)
            is_known = len(engines) == 1 or self._engine_bytes or self._processes()
            started = self.heartbeat.run(starts if is_known else while_memory_lasts(starts))
        for engine, each in zip(engines, started, strict=True):
            if isinstance(each, EngineError):
                self._refuse_faulty_host(engine, str(each))
                engine.why_gone, engine.starts = str(each), _STARTS
                engine.stop(_STOP_GRACE_S)
                continue
            self._has_started, engine.running = True, each
            if each.start_s is not None:  # engines that start together share the host's time
                share_s = each.start_s / len(engines)
                engine.running = replace(each, start_s=share_s)
                recorder.status.forecast.saw_start(share_s)
        for engine in engines:
            if engine.running is None:
                self._refuse_to_go_on(engine, runs[engine.arm.name][0])

    def _refuse_to_go_on(self, engine: _ArmEngine, run: PlannedRun) -> None:
        """Record one failed run and raise UserError if no other arm can start either, and none has so far."""
        recorder, launch = self.recorder, self._launch
        if self._has_started or recorder.status.runs_done > recorder.status.runs_failed or launch is None:
            return
        if start_failure.for_every_arm(recorder.job.study, engine.arm, engine.why_gone):
            recorder.record(launch, run, engine.command, Measured(error=engine.why_gone))
            raise UserError(start_failure.sentence(engine.arm, engine.why_gone))

    def _refuse_faulty_host(self, engine: _ArmEngine, why: str) -> None:
        """Raise HostError if this host has ended an engine, and not the study: the run is measured elsewhere."""
        if engine.arm.server is not None:
            return
        alone = all(other is engine or other.process is None for other in self._engines.values())
        held = start_failure.lacks_gpu_memory(why) and (
            used_by_others(taken_slot(), self.recorder.settings.home / "engines")
            or (alone and start_failure.finds_gpu_memory_held(why))
        )
        if held or start_failure.is_of_host(why):
            by = f" ({held})" if isinstance(held, str) else ""
            raise HostError(f"the engine of arm {engine.arm.name!r} failed{by}: {why}")

    async def _started(self, engine: _ArmEngine) -> RunningEngine | EngineError:
        settings, job = self.recorder.settings, self.recorder.job

        def started(command: Command, process: Process) -> None:
            engine.command, engine.process = command, process
            engine.identity = self._identity(engine, command) if self.kept.is_on else None

        try:
            return await start_engine(settings, job.study, engine.arm, self._log(engine), started)
        except EngineError as error:
            return error

    def _processes(self) -> list[Process]:
        return [engine.process for engine in self._engines.values() if engine.process is not None]

    def _refuse_lost_role(self, arm: Arm) -> None:
        """Raise StudyError if the arm needs trust-remote-code and the job's owner has no (or no longer) permission."""
        settings, job = self.recorder.settings, self.recorder.job
        role = self.heartbeat.query(functools.partial(role_now, self.heartbeat.database, job.submitted_by))
        if problems := author_problems(Context(settings).rules, job.study, arm, role):
            raise StudyError(problems)

    def _measure_together(self, launch: Launch, windows: Sequence[PlannedWindow]) -> None:
        """Measure runs that have their windows by turns, and record each; a run that fails is over at once.

        All are warm before the first window, so that no window comes sooner after a warm-up than others. If an engine
        ends between windows, or under the window of another run, the runs that it had begun are measured anew.
        """
        self.recorder.bundles.await_room()
        runs = list({window.run.names: window.run for window in windows}.values())
        under_way = self._all_warm(launch, runs)
        if not all(each.measurement.counts_chunks for each in under_way.values()):
            windows = in_long_windows(windows)
        anew: list[PlannedRun] = []
        for window in windows:
            if (each := under_way.get(window.run.names)) is None:
                continue
            if not each.has_its_engine:
                del under_way[window.run.names]
                anew.append(window.run)
                continue
            self._measure_window(each, window)
            if each.measurement.problem is not None:
                self._record(launch, under_way.pop(window.run.names))
        for run in runs:
            if run.names in under_way:
                self._record(launch, under_way[run.names])
        if anew:
            self._measure_together(launch, [window for window in windows if window.run in anew])

    def _all_warm(self, launch: Launch, runs: Sequence[PlannedRun]) -> dict[tuple[str, str, str, int], _UnderWay]:
        """Start the engines that are not up, and warm each up once for its runs under one load. Return the runs that
        have not failed by that; the others are recorded.
        """
        under_way: dict[tuple[str, str, str, int], _UnderWay] = {}
        for run in sorted(runs, key=lambda run: run.arm.name):
            alike = [other for other in runs if (other.arm, other.load) == (run.arm, run.load)]
            before = [under_way[other.names] for other in alike if other.names in under_way]
            if (begun := self._begun(launch, run, alike, before)) is not None:
                under_way[run.names] = begun
        return under_way

    def _begun(
        self, launch: Launch, run: PlannedRun, alike: Sequence[PlannedRun], before: Sequence[_UnderWay]
    ) -> _UnderWay | None:
        """Begin a run on its engine, which it warms up for all of its like if none of these has done so `before`."""
        engine, recorder = self._engines[run.arm.name], self.recorder
        if (running := self._ensure_up(engine, [run])) is None:
            recorder.record(launch, run, engine.command, Measured(error=engine.why_gone))
            return None
        timeout_s = recorder.settings.request_timeout_s
        measurement = Measurement(running, run, recorder.job.study, request_timeout_s=timeout_s)
        idle_s = None if engine.last_end_s is None else time.monotonic() - engine.last_end_s
        each = _UnderWay(measurement, engine, idle_s, self._prompts(run))
        like = next((other.measurement for other in before if other.measurement.engine is running), None)
        if like is not None:
            measurement.is_warm_by(like)
            return each
        self._warm_up(each, alike)
        if measurement.problem is not None:
            self._record(launch, each)
            return None
        return each

    def _prompts(self, run: PlannedRun) -> Sequence[Prompt]:
        return self.prompts[run.workload.name][: run.load.num_prompts]

    def _warm_up(self, each: _UnderWay, runs: Sequence[PlannedRun]) -> None:
        """Warm the engine up for these runs of its arm under one load."""
        run, engine = each.measurement.run, each.engine
        self._let_only(engine)
        self.recorder.status.warming_up(run)
        with named_os_errors(f"warming {run.arm.name!r} up for {run.load.name}"):
            self.heartbeat.run(each.measurement.warm_up(list(map(self._prompts, runs)), warmed=engine.is_warm))
        engine.is_warm |= each.measurement.has_warmed
        engine.last_used_s = time.monotonic()

    def _measure_window(self, each: _UnderWay, window: PlannedWindow) -> None:
        run, engine = window.run, each.engine
        if time.monotonic() - engine.last_used_s > _COLD_AFTER_S:
            self._warm_up(each, [run])
            if each.measurement.problem is not None:
                return
        each.hands = each.hands or _hands(each.prompts, window.windows, self.recorder.job.study.seed)
        others = {name: other.process for name, other in self._engines.items() if other is not engine}
        self._let_only(engine)
        self._await_rest(engine)
        with named_os_errors(f"measuring {run.arm.name!r} under {run.load.name}"):
            self.heartbeat.run(
                each.measurement.measure(
                    each.hands[window.number],
                    is_whole=window.windows == 1,
                    quiet=functools.partial(self._quiet, run),
                    on_progress=self.recorder.status.measuring,
                    idle={name: process for name, process in others.items() if process is not None},
                )
            )
        engine.last_end_s = engine.last_used_s = time.monotonic()

    def _let_only(self, engine: _ArmEngine) -> None:
        """Suspend the other arms' engines, and resume this one."""
        for other in self._engines.values():
            suspends = other is not engine and self._suspends
            if other.process is not None and other.is_suspended != suspends:
                (other.process.suspend if suspends else other.process.resume)()
                other.is_suspended = suspends and isinstance(other.process, EngineProcess)

    def _await_rest(self, engine: _ArmEngine) -> None:
        """Wait until engines beside this one rest that are not suspended. Those on a GPU leave it the processors."""
        others = (other for other in self._engines.values() if other is not engine and not other.is_suspended)
        rest_at_s = 0.0 if gpus() else max((other.last_used_s + _RESTS_AFTER_S for other in others), default=0.0)
        if (left_s := rest_at_s - time.monotonic()) > 0:
            self.heartbeat.run(asyncio.sleep(left_s))

    def _record(self, launch: Launch, each: _UnderWay) -> None:
        measurement, engine, recorder = each.measurement, each.engine, self.recorder
        measured = self._with_unit_tests(measurement.run, measurement.result())
        if measurement.engine_died:
            self._refuse_faulty_host(engine, measured.error or "")
        if measured.error is None:
            recorder.status.forecast.saw_run(measurement.run, measurement.took_s)
        recorder.record(launch, measurement.run, measurement.engine, measured, each.idle_before_s)
        if measurement.engine_died:
            engine.why_gone = measured.error or ""
            engine.stop(_STOP_GRACE_S)

    @property
    def _suspends(self) -> bool:
        """Whether idle engines are suspended. Off on a GPU, where this has not been tried."""
        wanted = self.recorder.settings.suspend_idle_engines
        return not gpus() if wanted is None else wanted

    def _with_unit_tests(self, run: PlannedRun, measured: Measured) -> Measured:
        if run.workload.score != UNIT_TESTS:
            return measured
        settings = self.recorder.settings
        subject = announced_as(settings.slot, self.recorder.job)
        with named_os_errors("running the tests of answers"):
            tested = self.heartbeat.run(with_unit_tests(measured.requests, settings.home, subject))
        return replace(measured, requests=tested)

    @contextlib.asynccontextmanager
    async def _quiet(self, run: PlannedRun) -> AsyncIterator[None]:
        """Begin a window once the last run is on disk and published, so that the study is up to date and no work of
        ours is left. A dead or slow ingester delays no window for long.
        """
        home, bundles = self.recorder.settings.home, self.recorder.bundles
        await asyncio.to_thread(bundles.wait)
        await _while(bundles.being_published)
        with quiet.announced(home, "window", self.recorder.job.job_id):
            await _while(lambda: quiet.under_way(home, "ingest"))
            self.recorder.status.window_begins(run)
            yield

    def _stop(self, names: Sequence[str], grace_s: float) -> None:
        """Stop these arms' engines, all at once."""
        engines = [self._engines.pop(name) for name in names]
        with ThreadPoolExecutor(max(1, len(engines)), "stop engine") as pool:
            list(pool.map(lambda engine: engine.stop(grace_s), engines))


def _hands(prompts: Sequence[Prompt], windows: int, seed: int) -> list[list[Prompt]]:
    """Return the prompts of each window of a run."""
    if windows == 1:
        return [list(prompts)]
    kinds = [(prompt.category or "", prompt.output_tokens or 0, len(prompt.text)) for prompt in prompts]
    return [[prompts[place] for place in hand] for hand in dealt(kinds, windows, seed)]


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    return await asyncio.gather(*work)


async def _while(busy: Callable[[], object]) -> None:
    """Wait while the condition holds, but not for ever."""
    until_s = time.monotonic() + _PATIENCE_S
    while busy() and time.monotonic() < until_s:  # noqa: ASYNC110 - another process sets no event of ours
        await asyncio.sleep(_POLL_EVERY_S)
