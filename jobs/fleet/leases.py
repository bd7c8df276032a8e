"""The workers' side of the job table: claim, heartbeat, finish, and requeueing the jobs of dead workers.

A worker owns a job while its lease lasts. A worker that lost the lease may write nothing more for the job: every
statement here names the worker, and so cannot change a row that belongs to another one.
"""

from __future__ import annotations

import json
import logging
import threading
import traceback
import zlib
from collections.abc import Callable, Collection, Sequence

import sqlalchemy as sa

from jobs.fleet.needs import Versions, with_versions, without_versions
from jobs.table import ACTIVE, SET_ASIDE, Job, Progress, State, UnreadableJobError, add_event, job_from_row
from jobs.turns import queued_in_turn
from lab.errors import DrafthouseError, UserError
from warehouse.app_db.clock import database_now, database_now_s, now_and_behind_s
from warehouse.app_db.engine import DATABASE_ERRORS, app_engine, reading
from warehouse.app_db.schema import job_blocks, job_events, jobs, workers

logger = logging.getLogger(__name__)
#: After this many deaths of workers at the same point the job itself is to blame (its memory, say) and fails.
MAX_DEATHS_AT_ONE_POINT = 8
#: An arbitrary constant: PostgreSQL's lock on the claims of a host is this plus a checksum of the host's name.
_CLAIMS_OF_A_HOST = 7_205_759_403_792_793_600
#: Another one: whoever holds it puts back what has expired. PostgreSQL's other processes do without.
_REQUEUEING = 7_205_759_403_792_793_599
_REQUEUE_EVERY_S = 2.0


class LeaseLost(DrafthouseError):  # noqa: N818 - an event like CancelledError, not a failure
    """This worker was silent for too long, and another worker owns the job: stop at once and write nothing more."""


def claim(
    engine: sa.Engine,
    worker: str,
    lease_s: float,
    hardware: str = "",
    set_aside: set[str] | None = None,
    *,
    has_gpus: bool = True,
    starts_engines: bool = True,
    except_jobs: Collection[str] = (),
    engines: Versions | None = None,
) -> Job | None:
    """Take the first queued job (`jobs.turns`) that may run on `hardware` with these engines, or return None.

    No two workers get the same job. A worker that does not name its hardware gets no job that requires some. A job that
    this Drafthouse cannot read stays queued for another version, with the traceback in its events; its id is added to
    `set_aside`, whose jobs are skipped. A worker without `starts_engines` gets only studies of running servers. It gets
    none of `except_jobs`.

    A study that is measured alone (`alone`, by default on a host without GPUs) waits until its host is quiet: from when
    it is first in the queue until it ends, no other worker of the host starts anything.
    """
    passed_over = set() if set_aside is None else set_aside
    with engine.begin() as connection:
        beside = _at_work_on_host(connection, worker)
        alone = {job_id for job_id, study_json in beside.items() if _is_alone(study_json, has_gpus=has_gpus)}
        for job_id in queued_in_turn(connection, hardware, passed_over | set(except_jobs), engines):
            if alone - {job_id}:
                return None
            if (row := _locked(connection, job_id)) is None:
                continue  # another worker has just taken it
            try:
                job = job_from_row(row)
            except UnreadableJobError as error:
                logger.exception("job %s is set aside", job_id)
                add_event(connection, job_id, SET_ASIDE, f"by {worker}: {error}\n{traceback.format_exc()}")
                passed_over.add(job_id)
                continue
            if job.study.starts_engines and not starts_engines:
                continue
            if beside.keys() - {job_id} and _is_alone(row["study_json"], has_gpus=has_gpus):
                return None
            return _taken(connection, job, worker, lease_s, {} if engines is None else engines)
    return None


def _taken(connection: sa.Connection, job: Job, worker: str, lease_s: float, engines: Versions) -> Job:
    """Give the job to the worker, under a lease with a number of its own. Return the claimed job."""
    now, behind_s = now_and_behind_s(connection)
    values: dict[str, object] = {"state": "running", "worker": worker, "lease": jobs.c.lease + 1}
    values["host"] = host_of(worker)
    values |= {"lease_expires_at": database_now_s() + lease_s, "clock_behind_s": behind_s}
    values["needs"] = with_versions(job.needs, engines)
    values["started_at"] = sa.func.coalesce(jobs.c.started_at, now)
    taking = jobs.update().where(jobs.c.job_id == job.job_id).values(values).returning(*jobs.c)
    row = connection.execute(taking).mappings().one()
    connection.execute(workers.update().where(workers.c.worker == worker).values(clock_behind_s=behind_s))
    add_event(connection, job.job_id, "claimed", worker, at=now)
    return job_from_row(row)


def host_of(worker: str) -> str:
    """Return the host of a worker: the first part of its name."""
    return worker.partition("/")[0]


def has_room(connection: sa.Connection, worker: str, job: Job, *, has_gpus: bool) -> bool:
    """Return whether the worker's host may measure a part of the job: neither it nor anything there is to be alone."""
    beside = _at_work_on_host(connection, worker)
    others = [study_json for job_id, study_json in beside.items() if job_id != job.job_id]
    is_lone = _alone_or_default(job.study.alone, has_gpus=has_gpus)
    return not others or not (is_lone or any(_is_alone(other, has_gpus=has_gpus) for other in others))


def _at_work_on_host(connection: sa.Connection, worker: str) -> dict[str, str]:
    """Return the studies that are measured on the worker's host by their jobs: those that its workers have, and those
    of which they hold blocks, also while such a job waits for a worker of its own.

    Until the transaction ends nobody else claims for this host: on SQLite the transaction is the only writer anyway.
    """
    host = host_of(worker)
    if connection.dialect.name == "postgresql":
        number = zlib.crc32(host.encode())
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CLAIMS_OF_A_HOST + number)))

    def is_here(column: sa.Column[str]) -> sa.ColumnElement[bool]:
        return (column == host) | column.startswith(f"{host}/", autoescape=True)

    studies = sa.select(jobs.c.job_id, jobs.c.study_json)
    own = connection.execute(studies.where(jobs.c.state == "running", is_here(jobs.c.worker)))
    held = studies.join(job_blocks, jobs.c.job_id == job_blocks.c.job_id).where(is_here(job_blocks.c.worker))
    held = held.where(jobs.c.state.in_(ACTIVE), jobs.c.tries == job_blocks.c.attempt, ~job_blocks.c.is_done)
    helped = connection.execute(held.where(job_blocks.c.lease_expires_at > database_now_s()))
    return {row.job_id: row.study_json for row in (*own, *helped)}


def _is_alone(study_json: str, *, has_gpus: bool) -> bool:
    """Return whether the study is measured alone; the default if it cannot be read."""
    try:
        alone = json.loads(study_json).get("alone")
    except (ValueError, AttributeError):
        alone = None
    return _alone_or_default(alone, has_gpus=has_gpus)


def _alone_or_default(alone: object, *, has_gpus: bool) -> bool:
    return not has_gpus if alone is None else bool(alone)


def _locked(connection: sa.Connection, job_id: str) -> sa.RowMapping | None:
    """Return the job's row if it is still queued. On SQLite the transaction is the only writer anyway."""
    query = sa.select(jobs).where(jobs.c.job_id == job_id, jobs.c.state == "queued")
    return connection.execute(query.with_for_update(skip_locked=True)).mappings().one_or_none()


def heartbeat(engine: sa.Engine, job_id: str, worker: str, lease_s: float, progress: Progress | None) -> bool:
    """Renew the lease and store the progress. Return False if the user asked to cancel. Raises LeaseLost."""
    values: dict[str, object] = {"lease_expires_at": database_now_s() + lease_s}
    if progress is not None:
        values["progress_json"] = progress.model_dump_json()
    with engine.begin() as connection:
        return not _update_own(connection, job_id, worker, values)


def finish(
    engine: sa.Engine,
    job_id: str,
    worker: str,
    state: State,
    *,
    error: str | None = None,
    progress: Progress | None = None,
) -> None:
    """End the job as done, failed or cancelled. Raises LeaseLost."""
    values: dict[str, object] = {"state": state, "error": error}
    if progress is not None:
        values["progress_json"] = progress.model_dump_json()
    with engine.begin() as connection:
        values["finished_at"] = database_now(connection)
        _update_own(connection, job_id, worker, values | _unowned())
        add_event(connection, job_id, state, error or "")


def release(engine: sa.Engine, job_id: str, worker: str, why: str = "stopped") -> None:
    """Requeue the job because this worker is stopping, or because of `why`; completed runs stay valid.

    A job that the user has asked to cancel is cancelled. Raises LeaseLost.
    """
    with engine.begin() as connection:
        _update_own(connection, job_id, worker, {"state": "queued"} | _unowned())
        _unpin(connection, job_id)
        add_event(connection, job_id, "released", f"{worker} {why}")
        unwanted = jobs.update().where(jobs.c.job_id == job_id, jobs.c.cancel_requested)
        if connection.execute(unwanted.values(state="cancelled", finished_at=database_now(connection))).rowcount:
            add_event(connection, job_id, "cancelled", "")


def another_waits(
    engine: sa.Engine,
    job: Job,
    hardware: str,
    set_aside: Collection[str] = (),
    *,
    has_gpus: bool,
    engines: Versions | None = None,
) -> bool:
    """Return whether a queued job could take the slot of this running, spread job, which has just ended a block.

    It must have at least the same priority and fit the hardware and the engines. A job measured alone waits until the
    host is quiet, and all jobs after it wait, too; a running job that is measured alone makes room for nobody.
    """
    if _alone_or_default(job.study.alone, has_gpus=has_gpus):
        return False
    with reading(engine).connect() as connection:
        first = next(iter(queued_in_turn(connection, hardware, set_aside, engines)), None)
        if first is None:
            return False
        row = connection.execute(sa.select(jobs.c.priority, jobs.c.study_json).where(jobs.c.job_id == first)).one()
    return bool(row.priority >= job.priority) and not _is_alone(row.study_json, has_gpus=has_gpus)


def requeue_expired(engine: sa.Engine, is_dead: Callable[[str], bool] = lambda _worker: False) -> list[str]:
    """Requeue jobs whose lease has expired or whose worker `is_dead`. Return their ids.

    A job that was being cancelled is cancelled; one whose workers keep dying at the same point fails.
    """
    is_expired = jobs.c.lease_expires_at.is_(None) | (jobs.c.lease_expires_at <= database_now_s())
    running = sa.select(jobs.c.job_id, jobs.c.worker, is_expired.label("is_expired")).where(jobs.c.state == "running")
    with reading(engine).connect() as connection:
        rows = connection.execute(running).mappings().all()
    lost = [row["job_id"] for row in rows if row["is_expired"] or is_dead(row["worker"] or "")]
    return [] if not lost else _requeue_lost(engine, lost, is_expired, is_dead)


def requeue_until(stop: threading.Event, url: str) -> None:
    """Requeue what has expired until `stop` is set: a host with keys of its own sees only its own jobs."""
    engine: sa.Engine | None = None
    while not stop.wait(_REQUEUE_EVERY_S):
        try:
            engine = engine or app_engine(url, connections=(1, 0))
            for job_id in requeue_expired(engine):
                logger.warning("job %s: its worker fell silent; it was queued again", job_id)
        except (UserError, *DATABASE_ERRORS) as error:
            logger.warning("expired leases wait for the app database: %s", error)
    if engine is not None:
        engine.dispose()


def _requeue_lost(
    engine: sa.Engine, job_ids: Sequence[str], is_expired: sa.ColumnElement[bool], is_dead: Callable[[str], bool]
) -> list[str]:
    """Requeue those of the jobs that are still lost. Locks no other job, and does nothing beside another process that
    does the same.
    """
    lost = sa.select(jobs, is_expired.label("is_expired")).where(jobs.c.state == "running", jobs.c.job_id.in_(job_ids))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql" and not connection.scalar(
            sa.select(sa.func.pg_try_advisory_xact_lock(_REQUEUEING))
        ):
            return []
        rows = connection.execute(lost.with_for_update(skip_locked=True)).mappings().all()
        rows = [row for row in rows if row["is_expired"] or is_dead(row["worker"] or "")]
        for row in rows:
            _requeue(connection, row)
    return [row["job_id"] for row in rows]


def _requeue(connection: sa.Connection, row: sa.RowMapping) -> None:
    job_id, point = row["job_id"], _point(row["progress_json"])
    state, kind, error = "queued", "requeued", None
    if row["cancel_requested"]:
        state = kind = "cancelled"
    elif _deaths(connection, job_id, point) >= MAX_DEATHS_AT_ONE_POINT:
        state = kind = "failed"
        error = f"its worker died {MAX_DEATHS_AT_ONE_POINT + 1} times {point}: see the worker's log, then retry"
    finished_at = None if state == "queued" else database_now(connection)
    values = {"state": state, "error": error, "finished_at": finished_at} | _unowned()
    connection.execute(jobs.update().where(jobs.c.job_id == job_id).values(values))
    _unpin(connection, job_id)
    add_event(connection, job_id, kind, error or f"its worker fell silent {point}")


def _unpin(connection: sa.Connection, job_id: str) -> None:
    """Let hosts with any version of the engines take a job without a measured run."""
    row = connection.execute(sa.select(jobs.c.needs, jobs.c.progress_json).where(jobs.c.job_id == job_id)).one()
    if not _has_runs(row.progress_json):
        connection.execute(jobs.update().where(jobs.c.job_id == job_id).values(needs=without_versions(row.needs)))


def _has_runs(progress_json: str | None) -> bool:
    """Return whether anything was measured, as far as that can be read."""
    try:
        return progress_json is not None and Progress.model_validate_json(progress_json).runs_done > 0
    except ValueError:
        return True


def _point(progress_json: str | None) -> str:
    """Describe how far a job had got. Its study and its progress may be unreadable here."""
    if progress_json is None:
        return "before its first run"
    try:
        progress = Progress.model_validate_json(progress_json)
    except ValueError:
        return "at a point that only another version of Drafthouse can read"
    return f"after {progress.runs_done} of {progress.runs_total} runs"


def _deaths(connection: sa.Connection, job_id: str, point: str) -> int:
    """Count how often the job was requeued at this point since a user last retried it."""
    retried = sa.select(sa.func.coalesce(sa.func.max(job_events.c.id), 0)).where(
        job_events.c.job_id == job_id, job_events.c.kind == "retried"
    )
    count = sa.select(sa.func.count()).where(
        job_events.c.job_id == job_id,
        job_events.c.kind == "requeued",
        job_events.c.detail.endswith(point, autoescape=True),
        job_events.c.id > retried.scalar_subquery(),
    )
    return connection.execute(count).scalar_one()


def _update_own(connection: sa.Connection, job_id: str, worker: str, values: dict[str, object]) -> bool:
    """Return whether the user asked to cancel the job."""
    mine = (jobs.c.job_id == job_id) & (jobs.c.worker == worker) & (jobs.c.state == "running")
    update = jobs.update().where(mine).values(values).returning(jobs.c.cancel_requested)
    cancel_requested: bool | None = connection.execute(update).scalar_one_or_none()
    if cancel_requested is None:
        raise LeaseLost(f"job {job_id} is no longer {worker}'s")
    return cancel_requested


def _unowned() -> dict[str, object]:
    return {"worker": None, "lease_expires_at": None}
