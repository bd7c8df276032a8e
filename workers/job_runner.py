"""One job from claim to end: every launch of its study that has runs left to measure."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable

import sqlalchemy as sa

from jobs.datasets.loader import load_prompts
from jobs.engine_logs import engine_logs
from jobs.leases import LeaseLost, finish, release
from jobs.table import Job, State
from lab.errors import CancelledError, UserError
from lab.schedule import End, Schedule, Step, schedule_of
from lab.study.plan import plan
from warehouse.settings import Settings
from workers.file_digests import study_contents
from workers.heartbeat import Heartbeat, WorkerStops
from workers.job_progress import JobStatus
from workers.launch_runner import LaunchRunner
from workers.os_errors import named_os_errors
from workers.outcomes import Outcomes
from workers.run_recorder import BundleWriter, Recorder

logger = logging.getLogger(__name__)
_RETRY_EVERY_S = 1.0


def run_job(settings: Settings, database: sa.Engine, job: Job, worker: str, heartbeat: Heartbeat) -> None:
    """Work on a claimed job until it has ended, was cancelled, or must be given back. Raises none of these.

    Runs that have a bundle are not repeated, so it may be interrupted anywhere, even by kill -9.
    """
    status: JobStatus | None = None
    try:
        status = JobStatus(plan(job.study))
        heartbeat.watch(status.snapshot)
        state, error = _measure_study(settings, job, heartbeat, status)
    except CancelledError:
        state, error = "cancelled", None
    except LeaseLost as lost:
        logger.warning("%s: stopped and nothing more written", lost)
        return
    except WorkerStops:
        release(database, job.job_id, worker)
        return
    except UserError as refused:
        trace = refused if refused.__cause__ is not None else None  # an error of the operating system, say
        logger.warning("job %s failed: %s", job.job_id, refused, exc_info=trace)
        state, error = "failed", str(refused)
    except Exception as bug:  # the worker goes on with the next job; the traceback is in its log
        logger.exception("job %s failed", job.job_id)
        state, error = "failed", f"an error inside Drafthouse ({type(bug).__name__}: {bug}): see the worker's log"
    progress = None if status is None else status.snapshot()
    end = functools.partial(finish, database, job.job_id, worker, state, error=error, progress=progress)
    _retry_until(end, settings.lease_s)


def _measure_study(settings: Settings, job: Job, heartbeat: Heartbeat, status: JobStatus) -> tuple[State, str | None]:
    study = job.study
    most = max(load.num_prompts for load in study.loads)
    with named_os_errors("reading the prompts"):
        prompts = {
            workload.name: load_prompts(settings, workload, most, study.seed, target=study.target)
            for workload in study.workloads
        }
    with named_os_errors("computing the digests of models and datasets"):
        contents = study_contents(settings, study, heartbeat.check)
    with BundleWriter(settings) as bundles:
        recorder = Recorder(settings, job, bundles, status, contents)
        with LaunchRunner(heartbeat, recorder, prompts) as launches:
            end = _measure_steps(schedule_of(study), launches, recorder)
        status.finishing(end)
        bundles.wait()
    with named_os_errors("removing the engine's log"):
        for log in engine_logs(settings.logs_dir, job.job_id):
            log.unlink(missing_ok=True)  # every bundle has its copy
    return _state(status, recorder.first_error)


def _measure_steps(schedule: Schedule, launches: LaunchRunner, recorder: Recorder) -> End:
    """Measure what the schedule asks for, and no run that has a bundle, until it ends."""
    outcomes = Outcomes(recorder.bundle_of)
    while isinstance(step := schedule.next(outcomes), Step):
        recorder.status.step(step)
        launches.measure(step.launch, [run for run in step.launch.runs if not recorder.is_done(run)])
        recorder.bundles.wait()
        outcomes.add(step.launch.runs, step.launch.index)
    return step


def _state(status: JobStatus, first_error: str | None) -> tuple[State, str | None]:
    """Failed runs are results of a study too; a job fails only if all its runs failed."""
    if not status.runs_failed:
        return "done", None
    error = f"{status.runs_failed} of {status.runs_done} runs failed"
    if first_error is not None:
        error += f"; the first: {first_error}"
    return ("failed" if status.runs_failed == status.runs_done else "done"), error


def _retry_until(write_end: Callable[[], None], give_up_after_s: float) -> None:
    """Tolerate a database that cannot be written (a full disk, say) for one lease period.

    After that the job is requeued by another worker or this one, which goes on from its bundles.
    """
    give_up_s = time.monotonic() + give_up_after_s
    while True:
        try:
            return write_end()
        except LeaseLost as lost:
            return logger.warning("%s: its end was not written", lost)
        except sa.exc.DBAPIError as away:
            logger.warning("the end of a job cannot be written: %s", away.orig)
            if time.monotonic() > give_up_s:
                return None
            time.sleep(_RETRY_EVERY_S)
