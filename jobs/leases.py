"""The workers' side of the job table: claim, heartbeat, finish, and requeueing the jobs of dead workers.

A worker owns a job while its lease runs. A worker that lost the lease may write nothing more for the job: every
statement here names the worker, and so cannot change a row that belongs to another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa

from jobs.table import Job, Progress, State, add_event, find, job_from_row
from lab.errors import DrafthouseError
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import job_events, jobs

#: After this many deaths of workers at the same point the job itself is to blame (its memory, say) and fails.
MAX_DEATHS_AT_ONE_POINT = 8


class LeaseLost(DrafthouseError):  # noqa: N818 - an event like CancelledError, not a failure
    """This worker was silent for too long, and another one owns the job: stop at once and write nothing more."""


def claim(engine: sa.Engine, worker: str, lease_s: float, hardware: str = "") -> Job | None:
    """Take the first queued job (highest priority, then oldest) that may run on `hardware`, or return None.

    No two workers get the same job. A worker that does not name its hardware gets no job that requires some.
    """
    with engine.begin() as connection:
        job_id = connection.execute(_first_queued(hardware)).scalar_one_or_none()
        if job_id is None:
            return None
        started_at = sa.func.coalesce(jobs.c.started_at, datetime.now(UTC))
        connection.execute(
            jobs.update()
            .where(jobs.c.job_id == job_id)
            .values(state="running", worker=worker, lease_expires_at=time.time() + lease_s, started_at=started_at)
        )
        add_event(connection, job_id, "claimed", worker)
        return find(connection, job_id)


def _first_queued(hardware: str) -> sa.Select[str]:
    """On PostgreSQL the row is locked; on SQLite the transaction is the only writer anyway."""
    return (
        sa.select(jobs.c.job_id)
        .where(jobs.c.state == "queued", _fits(hardware))
        .order_by(jobs.c.priority.desc(), jobs.c.submitted_at, jobs.c.job_id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )


def _fits(hardware: str) -> sa.ColumnElement[bool]:
    """Match substrings by REPLACE, which both databases have, and not by LIKE: names of hardware may contain % or _."""
    mine = sa.literal(hardware.lower())
    return jobs.c.hardware.is_(None) | (sa.func.replace(mine, jobs.c.hardware, "") != mine)


def has_queued(engine: sa.Engine, hardware: str = "") -> bool:
    """Return whether any job waits for a worker with this hardware."""
    with reading(engine).connect() as connection:
        waits = sa.exists().where(jobs.c.state == "queued", _fits(hardware))
        return connection.execute(sa.select(waits)).scalar_one()


def heartbeat(engine: sa.Engine, job_id: str, worker: str, lease_s: float, progress: Progress | None) -> bool:
    """Renew the lease and store the progress. Return False if the user asked to cancel. Raises LeaseLost."""
    values: dict[str, object] = {"lease_expires_at": time.time() + lease_s}
    if progress is not None:
        values["progress_json"] = progress.model_dump_json()
    with engine.begin() as connection:
        _update_own(connection, job_id, worker, values)
        asked = connection.execute(sa.select(jobs.c.cancel_requested).where(jobs.c.job_id == job_id)).scalar_one()
    return not asked


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


def release(engine: sa.Engine, job_id: str, worker: str) -> None:
    """Put the job back because this worker is stopping; completed runs stay valid. Raises LeaseLost."""
    with engine.begin() as connection:
        _update_own(connection, job_id, worker, {"state": "queued"} | _unowned())
        add_event(connection, job_id, "released", f"{worker} stopped")


def requeue_expired(engine: sa.Engine, is_dead: Callable[[str], bool] = lambda _worker: False) -> list[str]:
    """Requeue jobs whose lease has expired or whose worker `is_dead`. Return their ids.

    A job that was being cancelled is cancelled; one whose workers keep dying at the same point fails.
    """
    with engine.begin() as connection:
        running = sa.select(jobs).where(jobs.c.state == "running").with_for_update(skip_locked=True)
        now_s = time.time()
        lost = [
            job
            for job in map(job_from_row, connection.execute(running).mappings())
            if job.lease_expires_at is None or job.lease_expires_at < now_s or is_dead(job.worker or "")
        ]
        for job in lost:
            _requeue(connection, job)
    return [job.job_id for job in lost]


def _requeue(connection: sa.Connection, job: Job) -> None:
    point = "before its first run"
    if job.progress is not None:
        point = f"after {job.progress.runs_done} of {job.progress.runs_total} runs"
    state, kind, error = "queued", "requeued", None
    if job.cancel_requested:
        state = kind = "cancelled"
    elif _deaths(connection, job.job_id, point) >= MAX_DEATHS_AT_ONE_POINT:
        state = kind = "failed"
        error = f"its worker died {MAX_DEATHS_AT_ONE_POINT + 1} times {point}: see the worker's log, then retry"
    finished_at = None if state == "queued" else datetime.now(UTC)
    values = {"state": state, "error": error, "finished_at": finished_at} | _unowned()
    connection.execute(jobs.update().where(jobs.c.job_id == job.job_id).values(values))
    add_event(connection, job.job_id, kind, error or f"its worker fell silent {point}")


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
