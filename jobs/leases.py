"""The workers' side of the job table: claim, heartbeat, finish, and requeueing the jobs of dead workers.

A worker owns a job while its lease lasts. A worker that lost the lease may write nothing more for the job: every
statement here names the worker, and so cannot change a row that belongs to another one.
"""

from __future__ import annotations

import json
import logging
import traceback
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from jobs.table import SET_ASIDE, Job, Progress, State, UnreadableJobError, add_event, get_job, job_from_row
from jobs.turns import in_turn
from lab.errors import DrafthouseError
from warehouse.app_db.clock import database_now_s
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import job_blocks, job_events, jobs

logger = logging.getLogger(__name__)
#: After this many deaths of workers at the same point the job itself is to blame (its memory, say) and fails.
MAX_DEATHS_AT_ONE_POINT = 8
#: An arbitrary constant: PostgreSQL's lock on the claims of a host is this plus a checksum of the host's name.
_CLAIMS_OF_A_HOST = 7_205_759_403_792_793_600
#: How many studies a claim reads at once: few at first, because most claims take the first job of the queue.
_AT_ONCE, _MOST_AT_ONCE = 20, 1000


class EnginesHere:
    """The engines of a worker's host, and a cache of the jobs' needs: a study never changes, and is read once."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = names
        self._needed: dict[str, frozenset[str]] = {}

    def runnable(self, connection: sa.Connection, queued: Sequence[str]) -> Iterator[str]:
        """Yield the queued jobs whose engines are all here, in the same order."""
        if len(self._needed) > 2 * len(queued):  # forget jobs that no longer wait
            self._needed = {job_id: self._needed[job_id] for job_id in queued if job_id in self._needed}
        first, at_once = 0, _AT_ONCE
        while some := queued[first : first + at_once]:
            first, at_once = first + at_once, min(2 * at_once, _MOST_AT_ONCE)
            if unknown := [job_id for job_id in some if job_id not in self._needed]:
                rows = connection.execute(sa.select(jobs.c.job_id, jobs.c.study_json).where(jobs.c.job_id.in_(unknown)))
                self._needed |= {row.job_id: _needed_engines(row.study_json) for row in rows}
            yield from (job_id for job_id in some if self._needed.get(job_id, frozenset()).issubset(self.names))


def _needed_engines(study_json: str) -> frozenset[str]:
    """Return the engines a study needs; none if this Drafthouse cannot read it: whoever claims it sets it aside."""
    try:
        return frozenset(str(arm["engine"]) for arm in json.loads(study_json)["arms"])
    except (ValueError, LookupError, TypeError):
        return frozenset()


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
    engines: EnginesHere | None = None,
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
        beside, shared = _running_beside(connection, worker), _shared_beside(connection, worker)
        if any(_is_alone(row["study_json"], has_gpus=has_gpus) for row in beside):
            return None
        for job_id in _queued(connection, hardware, passed_over | set(except_jobs), engines):
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
            if (beside or shared - {job_id}) and _is_alone(row["study_json"], has_gpus=has_gpus):
                return None
            values = {"state": "running", "worker": worker, "lease_expires_at": database_now_s() + lease_s}
            started_at = sa.func.coalesce(jobs.c.started_at, datetime.now(UTC))
            connection.execute(jobs.update().where(jobs.c.job_id == job_id).values(values | {"started_at": started_at}))
            add_event(connection, job_id, "claimed", worker)
            return get_job(connection, job_id)
    return None


def _running_beside(connection: sa.Connection, worker: str) -> list[sa.RowMapping]:
    """Return the running jobs of the worker's host, whose name is the first part of its own.

    Until the transaction ends nobody else claims for this host: on SQLite the transaction is the only writer anyway.
    """
    host = worker.partition("/")[0]
    if connection.dialect.name == "postgresql":
        number = zlib.crc32(host.encode())
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CLAIMS_OF_A_HOST + number)))
    running = sa.select(jobs.c.worker, jobs.c.study_json).where(jobs.c.state == "running")
    rows = connection.execute(running).mappings().all()
    return [row for row in rows if (row["worker"] or "").partition("/")[0] == host]


def _is_alone(study_json: str, *, has_gpus: bool) -> bool:
    """Return whether the study is measured alone; the default if it cannot be read."""
    try:
        alone = json.loads(study_json).get("alone")
    except (ValueError, AttributeError):
        alone = None
    return _alone_or_default(alone, has_gpus=has_gpus)


def _alone_or_default(alone: object, *, has_gpus: bool) -> bool:
    return not has_gpus if alone is None else bool(alone)


def _shared_beside(connection: sa.Connection, worker: str) -> set[str]:
    """Return the jobs whose blocks workers of this host hold, including jobs that wait for a worker of their own."""
    held = sa.select(job_blocks.c.job_id, job_blocks.c.worker).join(jobs, jobs.c.job_id == job_blocks.c.job_id)
    held = held.where(jobs.c.state == "queued", jobs.c.tries == job_blocks.c.attempt, ~job_blocks.c.is_done)
    rows = connection.execute(held.where(job_blocks.c.lease_expires_at > database_now_s())).all()
    host = worker.partition("/")[0]
    return {row.job_id for row in rows if row.worker.partition("/")[0] == host}


def _queued(
    connection: sa.Connection, hardware: str, passed_over: Collection[str], engines: EnginesHere | None
) -> Iterable[str]:
    """Return the ids of the queued jobs that this hardware may run with these engines, in turn."""
    running = connection.scalars(sa.select(jobs.c.submitted_by).where(jobs.c.state == "running")).all()
    columns = (jobs.c.job_id, jobs.c.priority, jobs.c.submitted_at, jobs.c.submitted_by, _fits(hardware).label("fits"))
    waiting = connection.execute(sa.select(*columns).where(jobs.c.state == "queued")).all()
    fitting = [row.job_id for row in in_turn(waiting, running) if row.fits and row.job_id not in passed_over]
    return fitting if engines is None else engines.runnable(connection, fitting)


def _locked(connection: sa.Connection, job_id: str) -> sa.RowMapping | None:
    """Return the job's row if it is still queued. On SQLite the transaction is the only writer anyway."""
    query = sa.select(jobs).where(jobs.c.job_id == job_id, jobs.c.state == "queued")
    return connection.execute(query.with_for_update(skip_locked=True)).mappings().one_or_none()


def _fits(hardware: str) -> sa.ColumnElement[bool]:
    """Match substrings by REPLACE, which both databases have, and not by LIKE: names of hardware may contain % or _."""
    mine = sa.literal(hardware.lower())
    return jobs.c.hardware.is_(None) | (sa.func.replace(mine, jobs.c.hardware, "") != mine)


def heartbeat(engine: sa.Engine, job_id: str, worker: str, lease_s: float, progress: Progress | None) -> bool:
    """Renew the lease and store the progress. Return False if the user asked to cancel. Raises LeaseLost."""
    values: dict[str, object] = {"lease_expires_at": database_now_s() + lease_s}
    if progress is not None:
        values["progress_json"] = progress.model_dump_json()
    with engine.begin() as connection:
        _update_own(connection, job_id, worker, values)
        cancel_requested = connection.execute(
            sa.select(jobs.c.cancel_requested).where(jobs.c.job_id == job_id)
        ).scalar_one()
    return not cancel_requested


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
    values: dict[str, object] = {"state": state, "error": error, "finished_at": datetime.now(UTC)}
    if progress is not None:
        values["progress_json"] = progress.model_dump_json()
    with engine.begin() as connection:
        _update_own(connection, job_id, worker, values | _unowned())
        add_event(connection, job_id, state, error or "")


def release(engine: sa.Engine, job_id: str, worker: str, why: str = "stopped") -> None:
    """Requeue the job because this worker is stopping, or because of `why`; completed runs stay valid.

    A job that the user has asked to cancel is cancelled. Raises LeaseLost.
    """
    with engine.begin() as connection:
        _update_own(connection, job_id, worker, {"state": "queued"} | _unowned())
        add_event(connection, job_id, "released", f"{worker} {why}")
        unwanted = jobs.update().where(jobs.c.job_id == job_id, jobs.c.cancel_requested)
        if connection.execute(unwanted.values(state="cancelled", finished_at=datetime.now(UTC))).rowcount:
            add_event(connection, job_id, "cancelled", "")


def another_waits(
    engine: sa.Engine,
    job: Job,
    hardware: str,
    set_aside: Collection[str] = (),
    *,
    has_gpus: bool,
    engines: EnginesHere | None = None,
) -> bool:
    """Return whether a queued job could take the slot of this running, spread job, which has just ended a block.

    It must have at least the same priority and fit the hardware and the engines. A job measured alone waits until the
    host is quiet, and all jobs after it wait, too; a running job that is measured alone makes room for nobody.
    """
    if _alone_or_default(job.study.alone, has_gpus=has_gpus):
        return False
    with reading(engine).connect() as connection:
        first = next(iter(_queued(connection, hardware, set_aside, engines)), None)
        if first is None:
            return False
        row = connection.execute(sa.select(jobs.c.priority, jobs.c.study_json).where(jobs.c.job_id == first)).one()
    return bool(row.priority >= job.priority) and not _is_alone(row.study_json, has_gpus=has_gpus)


def requeue_expired(engine: sa.Engine, is_dead: Callable[[str], bool] = lambda _worker: False) -> list[str]:
    """Requeue jobs whose lease has expired or whose worker `is_dead`. Return their ids.

    A job that was being cancelled is cancelled; one whose workers keep dying at the same point fails.
    """
    is_expired = jobs.c.lease_expires_at.is_(None) | (jobs.c.lease_expires_at <= database_now_s())
    running = sa.select(jobs, is_expired.label("is_expired")).where(jobs.c.state == "running")
    with engine.begin() as connection:
        rows = connection.execute(running.with_for_update(skip_locked=True)).mappings().all()
        lost = [row for row in rows if row["is_expired"] or is_dead(row["worker"] or "")]
        for row in lost:
            _requeue(connection, row)
    return [row["job_id"] for row in lost]


def _requeue(connection: sa.Connection, row: sa.RowMapping) -> None:
    job_id, point = row["job_id"], _point(row["progress_json"])
    state, kind, error = "queued", "requeued", None
    if row["cancel_requested"]:
        state = kind = "cancelled"
    elif _deaths(connection, job_id, point) >= MAX_DEATHS_AT_ONE_POINT:
        state = kind = "failed"
        error = f"its worker died {MAX_DEATHS_AT_ONE_POINT + 1} times {point}: see the worker's log, then retry"
    finished_at = None if state == "queued" else datetime.now(UTC)
    values = {"state": state, "error": error, "finished_at": finished_at} | _unowned()
    connection.execute(jobs.update().where(jobs.c.job_id == job_id).values(values))
    add_event(connection, job_id, kind, error or f"its worker fell silent {point}")


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


def _update_own(connection: sa.Connection, job_id: str, worker: str, values: dict[str, object]) -> None:
    mine = (jobs.c.job_id == job_id) & (jobs.c.worker == worker) & (jobs.c.state == "running")
    if connection.execute(jobs.update().where(mine).values(values)).rowcount != 1:
        raise LeaseLost(f"job {job_id} is no longer {worker}'s")


def _unowned() -> dict[str, object]:
    return {"worker": None, "lease_expires_at": None}
