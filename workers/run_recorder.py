"""Writes each run into its bundle, whether it was measured or could not start."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from host import quiet
from host.disk_space import refuse_full_disk
from host.os_errors import named_os_errors, what_failed
from host.settings import Settings
from jobs.table import Job
from lab.errors import BundleError, HostError
from lab.metrics.records import RequestRecord, RunRecord, TelemetrySample, WorkBeside
from lab.study.cell_ids import Contents, identity
from lab.study.plan import Launch, PlannedRun
from warehouse.bundles.run_bundle import bundle_folder, is_whole, read_run, write_bundle
from workers.engine_runtime.launch import Command, RunningEngine
from workers.job_progress import JobStatus
from workers.probes.window_probes import Probes
from workers.run_environment import describe_environment
from workers.run_measurement import Measured

logger = logging.getLogger(__name__)
_WRITE_AGAIN_AFTER_S = 0.5
#: A network's file system may show a folder before its files.
_FILES_COME_WITHIN_S, _POLL_EVERY_S = 5.0, 0.1


def refuse_to_store(settings: Settings) -> None:
    """Raise UserError unless there is room for a run, and a file can be written where the bundles are."""
    refuse_full_disk(settings.bundles, settings.least_free_mib, "the next run")
    with named_os_errors("writing a file"):
        settings.bundles.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.bundles) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())


class BundleWriter:
    """Writes a bundle while the next run warms up, so that the engine does not wait for a disk.

    What was measured without a lease (`holds_lease`) is stored beside the bundles, as evidence that nothing reads:
    another worker measures the run again. One bundle is written at a time; a failed write is raised by the next call,
    as HostError if the folder stayed full, read-only or unreachable for the length of a lease. `check` raises the
    reason if the job must stop meanwhile.
    """

    def __init__(
        self,
        settings: Settings,
        check: Callable[[], None] = lambda: None,
        holds_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings, self._check, self._holds_lease = settings, check, holds_lease
        self._root, self._home = settings.bundles, settings.home
        self._pool = ThreadPoolExecutor(1, "bundle writer")
        self._last: Future[None] | None = None
        self._asked: Path | None = None  # the ingester's publication of the last bundle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def write(
        self,
        run: RunRecord,
        requests: Sequence[RequestRecord],
        telemetry: Sequence[TelemetrySample],
        log: Path | None,
        written: Callable[[], None],
    ) -> None:
        """Start writing, with the log as it is now. `written` is called once the bundle is on disk."""
        self.wait()
        existing_log = log if log is not None and log.exists() else None

        def write() -> None:
            if not self._holds_lease():
                lost = lost_bundles(self._root, run.lease)
                logger.warning("run %s was measured under a lost lease: it goes to %s", run.run_id, lost)
                write_bundle(lost, run, requests, telemetry, existing_log)
                return
            self._patiently(lambda: write_bundle(self._root, run, requests, telemetry, existing_log))
            written()
            if self._settings.bundles_url is None:  # else the upload asks, and no window waits for it
                self._asked = quiet.ask_for_round(self._home)

        self._last = self._pool.submit(write)

    def wait(self) -> None:
        """Wait until the last bundle is on disk. Raises HostError."""
        if (last := self._last) is not None:
            self._last = None
            last.result()

    def await_room(self) -> None:
        """Wait until there is room for another run. Raises HostError."""
        settings = self._settings
        self._patiently(lambda: refuse_full_disk(settings.bundles, settings.least_free_mib, "the next run"))

    def _patiently(self, work: Callable[[], object]) -> None:
        """Do the work; retry for the length of a lease while this host cannot store anything: no study names this
        folder.
        """
        give_up_s, is_logged = time.monotonic() + self._settings.lease_s, False
        while True:
            try:
                return _as_host_error(work)
            except HostError as why:
                if time.monotonic() > give_up_s:
                    raise
                if not is_logged:  # once only: every half second would fill the log
                    logger.warning("trying again for %g s: %s", self._settings.lease_s, why)
                    is_logged = True
                time.sleep(_WRITE_AGAIN_AFTER_S)
                self._check()

    def being_published(self) -> bool:
        """Return whether an ingester of this machine is alive that has not yet published the last bundle."""
        return self._asked is not None and self._asked.exists() and bool(quiet.under_way(self._home, "ingester"))


def _as_host_error(work: Callable[[], object]) -> None:
    try:
        work()
    except OSError as error:
        raise HostError(what_failed("writing a bundle", error)) from error


def announced_as(slot: int, job: Job) -> str:
    """Return the name under which this worker's job is announced; a job shared by slots is named with the slot."""
    return f"{job.job_id} on slot {slot}" if job.study.spread else job.job_id


def lost_bundles(bundles: Path, lease: int | None) -> Path:
    """Return the folder of what was measured under a lease that had been lost."""
    return bundles.with_name(f"{bundles.name}-lost") / f"lease-{lease}"


def bundle_of(bundles: Path, job: Job, run: PlannedRun, host: str | None = None) -> Path | None:
    """Return the run's bundle of this attempt, or a completed one of an earlier attempt that counts; else None. Of a
    job that is spread over hosts only those of this host, or of the one that measured the block: a block is on one.
    """
    for number in range(job.attempt, job.reuse_from_attempt - 1, -1):
        folder = bundle_folder(bundles, job.job_id, _run_id(job, run, number, host))
        if folder.exists():
            give_up_s = time.monotonic() + _FILES_COME_WITHIN_S
            while not is_whole(folder) and time.monotonic() < give_up_s:  # another host may be writing it
                time.sleep(_POLL_EVERY_S)
            if number == job.attempt or not _has_failed(folder):
                return folder
    return None


def _run_id(job: Job, run: PlannedRun, tries: int, host: str | None = None) -> str:
    """Return the run's id. A host that takes over another's block measures it anew, beside what that one measured."""
    run_id = f"{run.key(job.job_id)}-{tries}"
    if not job.over_hosts:
        return run_id
    return f"{run_id}-{hashlib.sha256((host or platform.node()).encode()).hexdigest()[:8]}"


@dataclass
class Recorder:
    """Records the runs of one job on disk and counts them in the job's status."""

    settings: Settings
    job: Job
    bundles: BundleWriter
    status: JobStatus
    contents: Contents
    first_error: str | None = None

    def is_done(self, run: PlannedRun, host: str | None = None) -> bool:
        """Return whether the run has a bundle that counts, of a block on this `host`, by default on ours; count it in
        the job's status if so.
        """
        folder = bundle_of(self.settings.bundles, self.job, run, host)
        if folder is not None:
            self.status.finished(run, failed=_has_failed(folder))
        return folder is not None

    def record(
        self,
        launch: Launch,
        run: PlannedRun,
        engine: Command | RunningEngine | None,
        measured: Measured,
        idle_before_s: float | None = None,
    ) -> None:
        """Record a run, perhaps not measured to its end or not at all. Raises UserError if the last write failed.

        `engine`: its command if it did not start, None if not even that could be built.
        """
        job, study, probes = self.job, self.job.study, measured.probes
        record = RunRecord(
            run_id=_run_id(job, run, job.attempt),
            cell_key=run.key(job.job_id),
            job_id=job.job_id,
            study_id=job.study_id,
            study_name=study.name,
            target=study.target,
            arm=run.arm,
            is_baseline=run.arm == study.baseline,
            workload=run.workload,
            load=run.load,
            sampling=study.sampling,
            slo=study.slo,
            endpoint=study.endpoint,
            trial=run.trial,
            repeat=run.repeat,
            order=study.order,
            until_decided=study.until_decided,
            launch_index=launch.index,
            taken_over_from=engine.taken_over_from if isinstance(engine, RunningEngine) else None,
            attempt=job.attempt,
            lease=job.lease,
            status="completed" if measured.error is None else "failed",
            error=measured.error,
            ended_early=measured.ended_early,
            started_at=_corrected(probes.started_at, job.clock_behind_s),
            duration_s=measured.duration_s,
            windows=measured.windows,
            warmup_requests=measured.warmup_requests,
            warmup_s=measured.warmup_s,
            idle_before_s=idle_before_s,
            counters_before=probes.counters_before,
            counters_after=probes.counters_after,
            counters_problem=probes.counters_problem,
            reset_problem=measured.reset_problem,
            client=measured.client,
            idle_engines=probes.idle_engines,
            beside=self._beside(probes),
            log_begin_bytes=probes.log_begin_bytes,
            log_end_bytes=probes.log_end_bytes,
            prompts_seed=study.seed,
            identity=identity(study, run.arm, run.workload, run.load, self.contents),
            circumstances=describe_environment(
                self.settings, study, run.arm, contents=self.contents, engine=engine, gpus=probes.gpus
            ).model_copy(update={"clock_behind_s": job.clock_behind_s}),
        )
        count = functools.partial(self.status.finished, run, failed=measured.error is not None)
        log = engine.command.log if isinstance(engine, RunningEngine) else engine.log if engine else None
        self.bundles.write(record, measured.requests, measured.telemetry, log, count)
        self.first_error = self.first_error or measured.error

    def _beside(self, probes: Probes) -> tuple[WorkBeside, ...] | None:
        """Return what else was done on this machine during the windows, the longest work first."""
        if not probes.spans_s:
            return None
        subject = announced_as(self.settings.slot, self.job)
        seconds: dict[tuple[str, str], float] = defaultdict(float)
        for began_s, ended_s in probes.spans_s:
            for ran in quiet.beside(self.settings.home, began_s, ended_s, subject):
                seconds[ran.kind, ran.what] += ran.seconds
        longest = sorted(seconds.items(), key=lambda item: -item[1])
        works = [{"kind": kind, "what": what, "seconds": took_s} for (kind, what), took_s in longest]
        return tuple(map(WorkBeside.model_validate, works))


def _corrected(moment: str, clock_behind_s: float | None) -> str:
    """Return the moment by the database's clock."""
    return (datetime.fromisoformat(moment) + timedelta(seconds=clock_behind_s or 0.0)).isoformat()


def _has_failed(folder: Path) -> bool:
    """Return whether the run failed. A damaged bundle counts as failed: its name is taken, so only another attempt
    replaces it.
    """
    try:
        return read_run(folder).status == "failed"
    except BundleError:
        return True
