"""Writes each run into its bundle, whether it was measured or could not start."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from host import quiet
from host.disk_space import refuse_full_disk
from host.settings import Settings
from jobs.table import Job
from lab.errors import BundleError, DrafthouseError, UserError
from lab.metrics.records import RequestRecord, RunRecord, TelemetrySample, WorkBeside
from lab.study.cell_ids import Contents, identity
from lab.study.plan import Launch, PlannedRun
from warehouse.bundles.run_bundle import bundle_folder, is_whole, read_run, write_bundle
from workers.engine_runtime.launch import Command, RunningEngine
from workers.job_progress import JobStatus
from workers.os_errors import named_os_errors, what_failed
from workers.probes.window_probes import Probes
from workers.run_environment import describe_environment
from workers.run_measurement import Measured

logger = logging.getLogger(__name__)
#: Errors of a folder that is full, read-only or unreachable for everybody: no study has caused them.
_OF_THE_HOST = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
        errno.ESTALE,
        errno.ENOTCONN,
        errno.ETIMEDOUT,
    )
)
_WRITE_AGAIN_AFTER_S = 0.5
#: A network's file system may show a folder before its files.
_FILES_COME_WITHIN_S, _POLL_EVERY_S = 5.0, 0.1


class CannotStore(DrafthouseError):  # noqa: N818 - an event like WorkerStops, not a failure
    """This host could not store a run for the length of a lease: the job goes back to the queue."""


@contextlib.contextmanager
def host_errors_named(operation: str) -> Iterator[None]:
    """Raise CannotStore in place of an OSError inside that the host has caused, and not the study."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_HOST:
            raise
        raise CannotStore(what_failed(operation, error)) from error


def refuse_to_store(settings: Settings) -> None:
    """Raise CannotStore unless there is room for a run, and a file can be written where the bundles are."""
    _refuse_full_disk(settings)
    try:
        settings.bundles.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.bundles) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
    except OSError as error:
        raise CannotStore(what_failed("writing a file", error)) from error


def _refuse_full_disk(settings: Settings) -> None:
    try:
        refuse_full_disk(settings.bundles, settings.least_free_mib, "the next run")
    except UserError as full:
        raise CannotStore(str(full)) from None


class BundleWriter:
    """Writes a bundle while the next run warms up, so that the engine does not wait for a disk.

    It writes one bundle at a time; a failed write is raised by the next call, as CannotStore if the folder stayed full,
    read-only or unreachable for the length of a lease, else as UserError. `check` raises the reason if the job must
    stop meanwhile.
    """

    def __init__(self, settings: Settings, check: Callable[[], None] = lambda: None) -> None:
        self._settings, self._check = settings, check
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
            self._patiently(lambda: write_bundle(self._root, run, requests, telemetry, existing_log))
            written()
            if self._settings.bundles_url is None:  # else the upload asks, and no window waits for it
                self._asked = quiet.ask_for_round(self._home)

        self._last = self._pool.submit(write)

    def wait(self) -> None:
        """Wait until the last bundle is on disk. Raises CannotStore and UserError."""
        if (last := self._last) is not None:
            self._last = None
            with named_os_errors("writing a bundle"):
                last.result()

    def await_room(self) -> None:
        """Wait until there is room for another run. Raises CannotStore."""
        self._patiently(lambda: _refuse_full_disk(self._settings))

    def _patiently(self, work: Callable[[], object]) -> None:
        """Do the work; retry for the length of a lease while this host cannot store anything."""
        give_up_s, is_logged = time.monotonic() + self._settings.lease_s, False
        while True:
            try:
                with host_errors_named("writing a bundle"):
                    work()
            except CannotStore as why:
                if time.monotonic() > give_up_s:
                    raise
                if not is_logged:  # once only: every half second would fill the log
                    logger.warning("trying again for %g s: %s", self._settings.lease_s, why)
                    is_logged = True
                time.sleep(_WRITE_AGAIN_AFTER_S)
                self._check()
            else:
                return

    def being_published(self) -> bool:
        """Return whether an ingester of this machine is alive that has not yet published the last bundle."""
        return self._asked is not None and self._asked.exists() and bool(quiet.under_way(self._home, "ingester"))


def announced_as(slot: int, job: Job) -> str:
    """Return the name under which this worker's job is announced; a job shared by slots is named with the slot."""
    return f"{job.job_id} on slot {slot}" if job.study.spread else job.job_id


def bundle_of(bundles: Path, job: Job, run: PlannedRun) -> Path | None:
    """Return the run's bundle of this attempt, or a completed one of an earlier attempt that counts; else None."""
    for number in range(job.attempt, job.reuse_from_attempt - 1, -1):
        folder = bundle_folder(bundles, job.job_id, _run_id(job, run, number))
        if folder.exists():
            give_up_s = time.monotonic() + _FILES_COME_WITHIN_S
            while not is_whole(folder) and time.monotonic() < give_up_s:  # another host may be writing it
                time.sleep(_POLL_EVERY_S)
            if number == job.attempt or not _has_failed(folder):
                return folder
    return None


def _run_id(job: Job, run: PlannedRun, tries: int) -> str:
    return f"{run.key(job.job_id)}-{tries}"


@dataclass
class Recorder:
    """Records the runs of one job on disk and counts them in the job's status."""

    settings: Settings
    job: Job
    bundles: BundleWriter
    status: JobStatus
    contents: Contents
    first_error: str | None = None

    def is_done(self, run: PlannedRun) -> bool:
        """Return whether the run has a bundle that counts; count it in the job's status if so."""
        folder = bundle_of(self.settings.bundles, self.job, run)
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
            attempt=job.attempt,
            status="completed" if measured.error is None else "failed",
            error=measured.error,
            ended_early=measured.ended_early,
            started_at=probes.started_at,
            duration_s=measured.duration_s,
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
            ),
        )
        count = functools.partial(self.status.finished, run, failed=measured.error is not None)
        log = engine.command.log if isinstance(engine, RunningEngine) else engine.log if engine else None
        self.bundles.write(record, measured.requests, measured.telemetry, log, count)
        self.first_error = self.first_error or measured.error

    def _beside(self, probes: Probes) -> tuple[WorkBeside, ...] | None:
        if probes.began_s is None or probes.ended_s is None:
            return None
        subject = announced_as(self.settings.slot, self.job)
        ran_beside = quiet.beside(self.settings.home, probes.began_s, probes.ended_s, subject)
        return tuple(WorkBeside.model_validate(ran._asdict()) for ran in ran_beside)


def _has_failed(folder: Path) -> bool:
    """Return whether the run failed. A damaged bundle counts as failed: its name is taken, so only another attempt
    replaces it.
    """
    try:
        return read_run(folder).status == "failed"
    except BundleError:
        return True
