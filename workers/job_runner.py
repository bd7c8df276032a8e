"""One job from claim to end: every launch of its study that has runs left to measure."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator

import sqlalchemy as sa

from host.os_errors import named_os_errors
from host.settings import Settings
from jobs import open_files
from jobs.datasets.loader import load_prompts
from jobs.engine_logs import engine_logs, lines_to_send
from jobs.fleet.blocks import IsDead, UnlikeHost, finish_block, release_blocks
from jobs.fleet.leases import LeaseLost, finish, release
from jobs.table import Job, Progress, State
from lab.errors import CancelledError, HostError, UserError
from lab.schedule import End, Step, schedule_of
from lab.study.plan import plan
from warehouse.app_db.engine import DATABASE_ERRORS, database_words
from warehouse.bundles.store import StoreAway
from warehouse.bundles.uploads import announce_pending, fetch_job
from workers.engine_runtime.kept import KeptEngines
from workers.heartbeat import HandsBack, Heartbeat, WorkerStops
from workers.job_progress import JobStatus
from workers.launch_runner import LaunchRunner
from workers.outcomes import Outcomes
from workers.run_environment import study_contents
from workers.run_recorder import BundleWriter, Recorder, bundle_of
from workers.shared_blocks import Claimed, SharedBlocks

logger = logging.getLogger(__name__)
_RETRY_EVERY_S = 1.0
#: Between two polls for a block of the job that another worker has finished or given back.
_POLL_BLOCKS_EVERY_S = 0.5


def _never() -> bool:
    return False


def _measure_shared(
    shared: SharedBlocks,
    finish_own: Callable[[int], None],
    needed_for: Callable[[Job], str | None],
    launches: LaunchRunner,
    recorder: Recorder,
) -> End:
    """Measure unclaimed blocks until the study ends. Raises HandsBack after a block."""
    counted, has_measured, query = set[int](), False, launches.heartbeat.query
    while True:
        view = query(shared.view)
        elsewhere = sorted(set(view.done) - counted)
        for block in elsewhere:
            for run in (run for launch in shared.launches(view)[block] for run in launch.runs):
                recorder.is_done(run, view.blocks[block].host)
        counted.update(view.done)
        if isinstance(view.next_block, End):
            return view.next_block
        if has_measured and (why := query(functools.partial(needed_for, shared.job))) is not None:
            raise HandsBack(why)
        claimed = query(functools.partial(shared.claim, view))
        if claimed is None:
            launches.heartbeat.run(asyncio.sleep(_POLL_BLOCKS_EVERY_S))
            continue
        for step in claimed.steps:
            _measure_step(step, launches, recorder)
        query(functools.partial(finish_own, claimed.number))
        counted.add(claimed.number)
        has_measured = True


def _measure_step(step: Step, launches: LaunchRunner, recorder: Recorder) -> None:
    """Measure the runs of a step that have no bundle."""
    recorder.status.step(step)
    launches.measure(step.launch, [run for run in step.launch.runs if not recorder.is_done(run)])
    recorder.bundles.wait()


def help_job(settings: Settings, job: Job, heartbeat: Heartbeat, *, kept: KeptEngines, block: Claimed) -> bool:
    """Measure a claimed block of another worker's job. Return False if it failed here; the job's worker then tries."""
    number = block.number
    back = functools.partial(release_blocks, heartbeat.database, job, heartbeat.worker)
    try:
        status = JobStatus([step.launch for step in block.steps])
        with _recording(settings, job, heartbeat, status, kept=kept) as (launches, recorder):
            for step in block.steps:
                _measure_step(step, launches, recorder)
        heartbeat.query(functools.partial(_finish_block, settings, job, heartbeat, number))
    except (CancelledError, LeaseLost) as reason:
        logger.warning("block %d of job %s: %s", number + 1, job.job_id, reason)
    except WorkerStops:
        _retry_until(back, 0.0)
    except Exception:  # the job's own worker will fail in the same way, and its message is the job's
        logger.exception("block %d of job %s failed here", number + 1, job.job_id)
        _retry_until(back, settings.lease_s)
        return False
    return True


def run_job(
    settings: Settings,
    job: Job,
    heartbeat: Heartbeat,
    *,
    kept: KeptEngines,
    is_dead: IsDead = lambda _worker: False,
    needed_for: Callable[[Job], str | None] = lambda _job: None,
    drains: Callable[[], bool] = _never,
) -> UserError | None:
    """Work on a claimed job until it has ended, was cancelled, or must be given back; none of these is raised. Returns
    the reason if the job was given back because of this host (`UserError.is_of_host`), because it is not like the hosts
    that measured the job so far (UnlikeHost), or because runs of other hosts cannot be had now (StoreAway).

    Runs that have a bundle are not repeated, so it may be interrupted anywhere, even by kill -9. A job is also given
    back after the block during which this worker began to drain, and a spread one after a block for which `needed_for`
    returns a reason.
    """
    status: JobStatus | None = None
    database, worker = heartbeat.database, heartbeat.worker
    back = functools.partial(give_back, settings, database, job, worker)
    try:
        status = JobStatus(plan(job.study))
        heartbeat.watch(functools.partial(_progress, settings, job, status))
        measure = _measure_steps
        if job.study.spread:
            shared = SharedBlocks(settings, database, job, worker, is_dead=is_dead, is_own=True, check=heartbeat.check)
            finish_own = functools.partial(_finish_block, settings, job, heartbeat)
            measure = functools.partial(_measure_shared, shared, finish_own, needed_for)
            drains = _never  # `needed_for` says so: a worker holds a block to its end
        _fetch_runs(settings, job, heartbeat)
        state, error = _measure_study(settings, job, heartbeat, status, measure, kept=kept, drains=drains)
    except CancelledError:
        state, error = "cancelled", None
    except LeaseLost as lost:
        logger.warning("%s: stopped and nothing more written", lost)
        return None
    except WorkerStops:
        _retry_until(functools.partial(back, "stopped"), 0.0)
        return None
    except HandsBack as why:
        _retry_until(functools.partial(back, str(why)), settings.lease_s)
        return None
    except DATABASE_ERRORS as away:
        logger.warning("job %s is put back into the queue: %s", job.job_id, database_words(away))
        _retry_until(functools.partial(back, "lost the database"), settings.lease_s)
        return None
    except UserError as refused:
        if refused.is_of_host or isinstance(refused, (StoreAway, UnlikeHost)):
            logger.warning("job %s is put back into the queue: %s", job.job_id, refused, exc_info=refused)
            _retry_until(functools.partial(back, f"cannot measure it: {refused}"), settings.lease_s)
            return refused
        trace = refused if refused.__cause__ is not None else None  # an error of the operating system, say
        logger.warning("job %s failed: %s", job.job_id, refused, exc_info=trace)
        state, error = "failed", str(refused)
    except Exception as bug:  # the worker continues with the next job; the traceback is in its log
        logger.exception("job %s failed", job.job_id)
        state, error = "failed", f"an error inside Drafthouse ({type(bug).__name__}: {bug}): see the worker's log"
    progress = None if status is None else status.snapshot()
    end = functools.partial(_finish, settings, job, heartbeat, state, error=error, progress=progress)
    _retry_until(end, settings.lease_s)
    return None


def _fetch_runs(settings: Settings, job: Job, heartbeat: Heartbeat) -> None:
    """Fetch runs of other hosts before going on; of a job over hosts its blocks are fetched when they are needed."""
    if job.over_hosts:
        return
    with named_os_errors("fetching runs of other hosts"):
        heartbeat.query(functools.partial(fetch_job, settings, heartbeat.database, job.job_id))


def _progress(settings: Settings, job: Job, status: JobStatus) -> Progress:
    """Return what a heartbeat stores: while an engine starts, which may take minutes, with the end of its log."""
    progress = status.snapshot()
    if progress.phase != "starting engine":
        return progress
    return progress.model_copy(update={"engine_log": lines_to_send(settings.logs_dir, job.job_id)})


def _finish(
    settings: Settings, job: Job, heartbeat: Heartbeat, state: State, *, error: str | None, progress: Progress | None
) -> None:
    announce_pending(settings, heartbeat.database, job.job_id)
    finish(heartbeat.database, job.job_id, heartbeat.worker, state, error=error, progress=progress)


def _finish_block(settings: Settings, job: Job, heartbeat: Heartbeat, number: int) -> None:
    announce_pending(settings, heartbeat.database, job.job_id)
    finish_block(heartbeat.database, job, number, heartbeat.worker)


def give_back(settings: Settings, database: sa.Engine, job: Job, worker: str, why: str) -> None:
    """Put a job and its blocks back into the queue; the next worker waits for what this host has yet to upload.

    Raises LeaseLost.
    """
    announce_pending(settings, database, job.job_id)
    release_blocks(database, job, worker)
    release(database, job.job_id, worker, why)


def _measure_study(
    settings: Settings,
    job: Job,
    heartbeat: Heartbeat,
    status: JobStatus,
    measure: Callable[[LaunchRunner, Recorder], End],
    *,
    kept: KeptEngines,
    drains: Callable[[], bool],
) -> tuple[State, str | None]:
    reading = named_os_errors("looking at the bundles")
    with reading, _recording(settings, job, heartbeat, status, kept=kept, drains=drains) as (launches, recorder):
        status.finishing(measure(launches, recorder))
    with named_os_errors("removing the engine's log"):
        for log in engine_logs(settings.logs_dir, job.job_id):
            log.unlink(missing_ok=True)  # every bundle has its copy
    return _state(status, recorder.first_error)


@contextlib.contextmanager
def _recording(
    settings: Settings,
    job: Job,
    heartbeat: Heartbeat,
    status: JobStatus,
    *,
    kept: KeptEngines,
    drains: Callable[[], bool] = _never,
) -> Iterator[tuple[LaunchRunner, Recorder]]:
    study = job.study
    if problems := open_files.problems(study.loads):  # the limit may differ where the study was submitted
        raise HostError("; ".join(sentence for _, sentence in problems))
    most = max(load.num_prompts for load in study.loads)
    with named_os_errors("reading the prompts"):
        prompts = {
            workload.name: load_prompts(settings, workload, most, study.seed, target=study.target)
            for workload in study.workloads
        }
    with named_os_errors("computing the digests of models and datasets"):
        contents = study_contents(settings, study, heartbeat.check)
    with BundleWriter(settings, heartbeat.check, heartbeat.holds_lease) as bundles:
        recorder = Recorder(settings, job, bundles, status, contents)
        with LaunchRunner(heartbeat, recorder, prompts, drains, kept) as launches:
            yield launches, recorder
        bundles.wait()


def _measure_steps(launches: LaunchRunner, recorder: Recorder) -> End:
    """Measure the steps of the study's schedule until it ends."""
    schedule = schedule_of(recorder.job.study)
    outcomes = Outcomes(functools.partial(bundle_of, recorder.settings.bundles, recorder.job))
    while isinstance(step := schedule.next(outcomes), Step):
        _measure_step(step, launches, recorder)
        outcomes.add(step.launch.runs, step.launch.index)
    return step


def _state(status: JobStatus, first_error: str | None) -> tuple[State, str | None]:
    """Return the final state. Failed runs are results, too: a job fails only if all its runs failed."""
    if not status.runs_failed:
        return "done", None
    error = f"{status.runs_failed} of {status.runs_done} runs failed"
    if first_error is not None:
        error += f"; the first: {first_error}"
    return ("failed" if status.runs_failed == status.runs_done else "done"), error


def _retry_until(write_end: Callable[[], None], give_up_after_s: float) -> None:
    """Retry while a database cannot be written (a full disk, say), for one lease period, or not at all if this worker
    stops. After that the job is requeued by another worker or this one, which continues from its bundles.
    """
    give_up_s = time.monotonic() + give_up_after_s
    while True:
        try:
            return write_end()
        except LeaseLost as lost:
            return logger.warning("%s: its end was not written", lost)
        except DATABASE_ERRORS as away:
            logger.warning("the end of a job cannot be written: %s", database_words(away))
            if time.monotonic() > give_up_s:
                return None
            time.sleep(_RETRY_EVERY_S)
