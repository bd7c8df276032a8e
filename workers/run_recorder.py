"""What is written of a run, whether it was measured or could not be."""

from __future__ import annotations

import asyncio
import errno
import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from jobs.engine_logs import engine_log
from jobs.table import Job
from lab.errors import BundleError, UserError
from lab.metrics.records import RunRecord
from lab.study.cell_ids import Contents, identity
from lab.study.plan import Launch, PlannedRun
from warehouse.bundles.run_bundle import bundle_folder, read_run, write_bundle
from warehouse.settings import Settings
from workers.engine_runtime.launch import Command, RunningEngine
from workers.job_progress import JobStatus
from workers.probes.engine_gpus import NO_GPUS
from workers.run_environment import circumstances
from workers.run_measurement import Measured


class BundleWriter:
    """One bundle at a time; a write that failed is raised as UserError by whatever is called next."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pool = ThreadPoolExecutor(1, "bundle writer")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def write(self, run: RunRecord, measured: Measured | None, log: Path | None, written: Callable[[], None]) -> None:
        """Begin to write; the log is copied as it is by then. `written` is called once the bundle is on disk."""
        self.wait()
        requests, telemetry = (measured.requests, measured.telemetry) if measured else ((), ())
        there = log if log is not None and log.exists() else None

        def write() -> None:
            write_bundle(self._root, run, requests, telemetry, there)
            written()

        self._last = self._pool.submit(write)

    def wait(self) -> None:
        """Until the last bundle is on disk. Raises UserError."""
        if (last := self._last) is not None:
            self._last = None
            try:
                last.result()
            except OSError as error:
                raise UserError(disk_sentence(self._root, error)) from error

    async def settled(self) -> None:
        """The same, for the event loop."""
        await asyncio.to_thread(self.wait)


def disk_sentence(folder: Path, error: OSError) -> str:
    """What the user can do about a disk that did not take what we wrote."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder.absolute()} is full: free some space, then retry the job"
    return f"{error.filename or folder.absolute()} cannot be written ({error.strerror}): mend that, then retry the job"


@dataclass
class Recorder:
    """The runs of one job on disk; counts them in the job's status."""

    settings: Settings
    job: Job
    bundles: BundleWriter
    status: JobStatus
    contents: Contents
    first_error: str | None = None

    def is_done(self, run: PlannedRun) -> bool:
        """Whether the run has a bundle of this try, or a completed one of an earlier try that counts; counted if so."""
        for number in range(self.job.attempt, self.job.reuse_from_attempt - 1, -1):
            folder = bundle_folder(self.settings.bundles, self.job.job_id, self._run_id(run, number))
            if not folder.exists():
                continue
            failed = _has_failed(folder)
            if number == self.job.attempt or not failed:
                self.status.finished(run, failed=failed)
                return True
        return False

    def measured(
        self, launch: Launch, run: PlannedRun, engine: RunningEngine, seen: Measured, idle_before_s: float | None
    ) -> None:
        """Record a run that was measured, perhaps not to its end. Raises UserError when the last write failed."""
        record = self._record(launch, run, engine, seen.error, seen).model_copy(
            update={
                "duration_s": seen.duration_s,
                "warmup_requests": seen.warmup_requests,
                "warmup_s": seen.warmup_s,
                "idle_before_s": idle_before_s,
                "counters_before": seen.counters_before,
                "counters_after": seen.counters_after,
                "client": seen.client,
                "log_begin_bytes": seen.log_begin_bytes,
                "log_end_bytes": seen.log_end_bytes,
            }
        )
        self._write(record, run, seen)

    def unmeasured(self, launch: Launch, run: PlannedRun, engine: Command | RunningEngine | None, error: str) -> None:
        """Record a run that could not begin. Raises UserError when the last write failed."""
        self._write(self._record(launch, run, engine, error, None), run, None)

    def _write(self, record: RunRecord, run: PlannedRun, seen: Measured | None) -> None:
        counted = functools.partial(self.status.finished, run, failed=record.status == "failed")
        self.bundles.write(record, seen, engine_log(self.settings, self.job.job_id), counted)
        self.first_error = self.first_error or record.error

    def _record(
        self,
        launch: Launch,
        run: PlannedRun,
        engine: Command | RunningEngine | None,
        error: str | None,
        seen: Measured | None,
    ) -> RunRecord:
        job, study = self.job, self.job.study
        return RunRecord(
            run_id=self._run_id(run, job.attempt),
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
            repeat=run.repeat,
            launch_index=launch.index,
            attempt=job.attempt,
            status="completed" if error is None else "failed",
            error=error,
            started_at=seen.started_at if seen else datetime.now(UTC).isoformat(),
            prompts_seed=study.seed,
            identity=identity(study, run.arm, run.workload, run.load, self.contents),
            circumstances=circumstances(
                self.settings,
                study,
                run.arm,
                contents=self.contents,
                engine=engine,
                gpus=seen.gpus if seen else NO_GPUS,
            ),
        )

    def _run_id(self, run: PlannedRun, tries: int) -> str:
        return f"{run.key(self.job.job_id)}-{tries}"


def _has_failed(folder: Path) -> bool:
    """A bundle damaged later counts as failed: this try's name is taken, so only another try can replace it."""
    try:
        return read_run(folder).status == "failed"
    except BundleError:
        return True
