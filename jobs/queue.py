"""The queue for users: submit, list, look up, cancel and retry jobs. The workers' side is `jobs.fleet.leases`."""

from __future__ import annotations

import json
import secrets
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from host.settings import Settings
from jobs.fleet.broker import wake
from jobs.fleet.needs import needs_of, without_versions
from jobs.table import (
    ACTIVE,
    FINISHED,
    SET_ASIDE,
    Event,
    Job,
    State,
    add_event,
    check_priority,
    find_row,
    get_job,
    get_row,
    readable,
)
from jobs.turns import all_in_turn
from lab import roles
from lab.errors import AccessError, StudyError, UnknownNameError, UserError
from lab.roles import Actor, Change
from lab.study import Study
from lab.study.parsing import study_to_toml
from warehouse.app_db import audit, curated
from warehouse.app_db.clock import database_now
from warehouse.app_db.curated import Curated, listed
from warehouse.app_db.engine import open_engine, reading
from warehouse.app_db.schema import job_events, studies
from warehouse.app_db.schema import jobs as jobs_table

#: The most waiting jobs of one user: every page with the queue shows all of it. An administrator may have more.
MOST_WAITING = 200
#: The most bytes of a study as JSON, and of a user's studies in a day: each is stored three times, and pages with the
#: queue read the waiting ones. An administrator may submit more in a day.
MOST_STUDY_LENGTH, MOST_BYTES_PER_DAY = 200_000, 20 * 2**20
_SUBMITTED = (jobs_table.c.submitted_at, jobs_table.c.job_id)
_NEWEST = sa.select(jobs_table).order_by(*(column.desc() for column in _SUBMITTED))


#: Stores something else in the transaction that queues a job, of which it gets the id.
Within = Callable[[sa.Connection, str], None]


def submit(settings: Settings, study: Study, priority: int = 0, *, actor: Actor, within: Within | None = None) -> str:
    """Check the study against this host, queue it as a job and wake a worker. Return the job's id.

    If `within` raises, nothing is queued.

    Raises AccessError if the actor may not submit studies, at this priority, or no more of them, and StudyError for an
    engine, a model or hardware that is not available. An unreachable broker is not an error: workers also poll for
    queued jobs.
    """
    roles.require(actor, Change.SUBMIT, is_new=True)
    if priority > 0:
        roles.require(actor, Change.ORDER)
    check_priority(priority)
    from jobs.submission import check_study  # noqa: PLC0415 - loads every engine and dataset; a list of jobs needs none

    with open_engine(settings.app_database_url) as engine:
        from jobs.fleet.worker_registry import queues_for  # noqa: PLC0415 - likewise

        job_id = _insert(engine, check_study(settings, study, actor.role, engine), priority, actor, within)
        queues = queues_for(engine, study)
    wake(settings, queues)
    return job_id


def _insert(engine: sa.Engine, study: Study, priority: int, actor: Actor, within: Within | None = None) -> str:
    study_json = json.dumps(study.model_dump(mode="json"))
    if len(study_json) > MOST_STUDY_LENGTH:
        raise StudyError(
            [("", f"this is {len(study_json):,} characters long; a study has {MOST_STUDY_LENGTH:,} at most")]
        )
    with engine.begin() as connection:
        _refuse_one_more(connection, actor)
        _refuse_too_much(connection, len(study_json), actor)
        now = database_now(connection)
        _store_study(connection, study, study_json, now)
        job_id = _new_id(connection, now)
        row: dict[str, object] = {
            "job_id": job_id,
            "study_id": study.digest(),
            "name": study.name,
            "study_json": study_json,
        }
        hardware = None if study.hardware is None else study.hardware.lower()
        row |= {"needs": needs_of([arm.engine for arm in study.arms]), "over_hosts": study.over_hosts}
        queued = {"state": "queued", "priority": priority, "submitted_at": now, "hardware": hardware}
        connection.execute(jobs_table.insert().values(row | queued | {"submitted_by": actor.name}))
        add_event(connection, job_id, "submitted", actor=actor.name)
        audit.record(connection, actor, Change.SUBMIT, job_id, study=study.name, priority=priority)
        if within is not None:
            within(connection, job_id)
    return job_id


def _store_study(connection: sa.Connection, study: Study, study_json: str, now: datetime) -> None:
    """Store the same study once, even if several people submit it at the same moment."""
    row = {"study_id": study.digest(), "name": study.name, "toml": study_to_toml(study), "json": study_json}
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(studies).values(row | {"created_at": now}).on_conflict_do_nothing())


def _refuse_one_more(connection: sa.Connection, actor: Actor) -> None:
    own = (jobs_table.c.state == "queued", jobs_table.c.submitted_by == actor.name)
    waiting = connection.scalar(sa.select(sa.func.count()).select_from(jobs_table).where(*own)) or 0
    if waiting >= MOST_WAITING and not roles.may(actor, Change.ORDER):
        raise AccessError(f"you already have {waiting} waiting jobs: let some of them run, or cancel some")


def _refuse_too_much(connection: sa.Connection, length: int, actor: Actor) -> None:
    if roles.may(actor, Change.ORDER):
        return
    since = database_now(connection) - timedelta(days=1)
    today = (jobs_table.c.submitted_at > since, jobs_table.c.submitted_by == actor.name)
    query = sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(jobs_table.c.study_json)), 0)).where(*today)
    if (connection.scalar(query) or 0) + length > MOST_BYTES_PER_DAY:
        raise AccessError(f"you have submitted {MOST_BYTES_PER_DAY // 2**20} MiB of studies within 24 hours: wait")


def _new_id(connection: sa.Connection, now: datetime) -> str:
    """Return a readable id that sorts by time, like `20261121-041233-3fa9` (UTC)."""
    while True:
        job_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        if find_row(connection, job_id) is None:
            return job_id


@dataclass(frozen=True)
class Page:
    """Some jobs, newest first. The next page is that with `before=older`; None if this is the last page."""

    jobs: tuple[Job, ...]
    older: str | None


def page(
    engine: sa.Engine, limit: int = 200, before: str | None = None, *, hidden: bool = False, tag: str | None = None
) -> Page:
    """Return the newest jobs and, however old, all queued and running ones; or the jobs submitted before one.

    Leaves out the jobs of `set_aside`, deleted studies, hidden ones unless requested, and those without the
    requested `tag`. Raises UserError if there is no job `before`.
    """
    every = _NEWEST.where(listed(hidden=hidden, tag=tag))
    newest = every.limit(limit + 1)
    with reading(engine).connect() as connection:
        if before is not None:
            newest = newest.where(after_page(connection, before))
        rows = connection.execute(newest).mappings().all()
    shown = readable(rows[:limit])[0]
    if len(rows) <= limit:
        return Page(tuple(shown), None)
    shown_ids = {job.job_id for job in shown}
    actives = [] if before is not None else _readable(engine, every.where(jobs_table.c.state.in_(ACTIVE)))
    more = (job for job in actives if job.job_id not in shown_ids)
    return Page((*shown, *more), rows[limit - 1]["job_id"])


def after_page(connection: sa.Connection, before: str) -> sa.ColumnElement[bool]:
    """Return the condition of jobs submitted before this one. Raises UserError if there is no such job."""
    last = get_row(connection, before)
    submitted_at = sa.literal(last["submitted_at"], jobs_table.c.submitted_at.type)
    return sa.tuple_(*_SUBMITTED) < sa.tuple_(submitted_at, sa.literal(last["job_id"]))


def jobs(engine: sa.Engine, limit: int = 200) -> list[Job]:
    """Return the newest jobs, newest first, without hidden and deleted ones, and the unreadable ones of `set_aside`."""
    return _readable(engine, _NEWEST.where(listed()).limit(limit))


def active(engine: sa.Engine) -> list[Job]:
    """Return every queued and running job, newest first, without the unreadable ones of `set_aside`."""
    return _readable(engine, _NEWEST.where(jobs_table.c.state.in_(ACTIVE)))


def ended(engine: sa.Engine, limit: int) -> list[Job]:
    """Return the jobs that ended last, the latest first, without hidden and deleted ones and the unreadable ones of
    `set_aside`.
    """
    last = (jobs_table.c.finished_at.desc(), jobs_table.c.job_id.desc())
    query = sa.select(jobs_table).where(jobs_table.c.state.in_(FINISHED), listed())
    return _readable(engine, query.order_by(*last).limit(limit))


def newest_of_study(engine: sa.Engine, digest: str) -> Job | None:
    """Return the newest job of the study whose digest has this prefix, or None."""
    same = _NEWEST.where(jobs_table.c.study_id.startswith(digest, autoescape=True), listed(hidden=True))
    return next(iter(_readable(engine, same.limit(1))), None)


def _readable(engine: sa.Engine, query: sa.Select[Any]) -> list[Job]:
    with reading(engine).connect() as connection:
        return readable(connection.execute(query).mappings())[0]


@dataclass(frozen=True)
class SetAside:
    """A job that this Drafthouse, or a worker, cannot read. It stays unchanged; the queue skips it."""

    job_id: str
    name: str
    state: State
    reason: str
    traceback: str


def set_aside(engine: sa.Engine, limit: int = 200) -> list[SetAside]:
    """Return those of the newest, the running and the next queued jobs that cannot be read here, and the queued jobs
    that a worker could not read.
    """
    by_worker = (
        sa.select(jobs_table.c.job_id, jobs_table.c.name, jobs_table.c.state, job_events.c.detail)
        .join(job_events, job_events.c.job_id == jobs_table.c.job_id)
        .where(jobs_table.c.state == "queued", job_events.c.kind == sa.literal_column(f"'{SET_ASIDE}'"))
        .order_by(job_events.c.id)
    )
    by_id: dict[str, SetAside] = {}
    with reading(engine).connect() as connection:
        for job_id, name, state, detail in connection.execute(by_worker):
            reason, _, trace = detail.partition("\n")
            by_id[job_id] = SetAside(job_id, name, state, reason, trace)
        following = jobs_table.c.job_id.in_(connection.scalars(all_in_turn().limit(limit)).all())
        for query in (_NEWEST.limit(limit), _NEWEST.where((jobs_table.c.state == "running") | following)):
            for error in readable(connection.execute(query).mappings())[1]:
                trace = "".join(traceback.format_exception(error))
                by_id[error.job_id] = SetAside(error.job_id, error.name, error.state, str(error), trace)
    return [by_id[job_id] for job_id in sorted(by_id, reverse=True)]


def job(engine: sa.Engine, job_id: str) -> Job:
    """Return one job. Raises UserError if there is no job with this id, if it cannot be read, or if it was deleted."""
    with reading(engine).connect() as connection:
        found = get_job(connection, job_id)
        _refuse_deleted(curated.read(connection, job_id))
        return found


def deleted_sentence(known: Curated) -> str:
    """Say who deleted a study, when, and how it comes back."""
    when, by = known.deleted_at, known.deleted_by
    rest = "its bundles are gone" if known.purged_at else f"`drafthouse study restore {known.job_id}` brings it back"
    return f"{known.job_id} was deleted by {by} on {when:%Y-%m-%d}: {rest}"


def _refuse_deleted(known: Curated) -> None:
    if known.deleted_at is not None:
        raise UnknownNameError(deleted_sentence(known))


def job_id_of(engine: sa.Engine, name: str, states: Sequence[State] | None = None) -> str:
    """Resolve a job's id, or a study's name to its newest job, if possible one in one of these states.

    Raises UserError if there is no such job.
    """
    newest = jobs_table.c.submitted_at.desc(), jobs_table.c.job_id.desc()
    fits = sa.true() if states is None else jobs_table.c.state.in_(states)
    query = (
        sa.select(jobs_table.c.job_id)
        .where(sa.or_(jobs_table.c.job_id == name, jobs_table.c.name == name), listed(hidden=True))
        .order_by((jobs_table.c.job_id == name).desc(), sa.case((fits, 0), else_=1), *newest)
        .limit(1)
    )
    with reading(engine).connect() as connection:
        job_id = connection.execute(query).scalar()
        if job_id is None:
            _refuse_deleted(curated.read(connection, name))
    if job_id is None:
        raise UnknownNameError(
            f"there is no job {name!r}, and no job of a study of that name: `drafthouse jobs` lists all jobs"
        )
    return str(job_id)


def events(engine: sa.Engine, job_id: str) -> list[Event]:
    """Return the events of the job, oldest first. Raises UserError if there is no job with this id."""
    columns = (job_events.c.at, job_events.c.kind, job_events.c.detail, job_events.c.actor)
    of_job = sa.select(*columns).where(job_events.c.job_id == job_id).order_by(job_events.c.id)
    with reading(engine).connect() as connection:
        get_row(connection, job_id)
        return [Event(*row) for row in connection.execute(of_job)]


def cancel(engine: sa.Engine, job_id: str, *, actor: Actor) -> None:
    """Cancel a queued job at once, or ask the worker of a running one to stop; cancelling twice is not an error.

    Raises UserError if the job has ended otherwise or does not exist, and AccessError if the actor may not
    cancel it.
    """
    with engine.begin() as connection:
        row = get_row(connection, job_id, lock=True)
        roles.require(actor, Change.CANCEL, row["submitted_by"])
        state = row["state"]
        if state in ("done", "failed"):
            raise UserError(f"job {job_id} is already {state}: there is nothing to cancel")
        if state == "queued":
            _update(connection, job_id, state="cancelled", finished_at=database_now(connection))
            add_event(connection, job_id, "cancelled", "before it was started", actor.name)
            audit.record(connection, actor, Change.CANCEL, job_id, was=state)
        elif state == "running" and not row["cancel_requested"]:
            _update(connection, job_id, cancel_requested=True)
            add_event(connection, job_id, "cancel requested", actor=actor.name)
            audit.record(connection, actor, Change.CANCEL, job_id, was=state)


def retry(engine: sa.Engine, job_id: str, *, actor: Actor, everything: bool = False) -> None:
    """Queue an ended job again. Completed runs are reused unless `everything` is measured again.

    Raises UserError if the job has not ended, or has no missing or failed run, and AccessError if the actor may not
    retry it. Workers find the job within seconds by polling.
    """
    with engine.begin() as connection:
        job = get_job(connection, job_id, lock=True)
        roles.require(actor, Change.RETRY, job.submitted_by)
        _refuse_deleted(curated.read(connection, job_id))
        if job.state not in FINISHED:
            raise UserError(f"job {job_id} is {job.state}: only a job that has ended can be run again")
        if not everything and job.state == "done" and not (job.progress and job.progress.runs_failed):
            raise UserError(f"every run of job {job_id} completed: ask for all runs to measure them again")
        attempt = job.attempt + 1
        _refuse_one_more(connection, actor)
        again = {"state": "queued", "tries": attempt, "error": None, "finished_at": None, "progress_json": None}
        reuse_from = attempt if everything else job.reuse_from_attempt
        needs = without_versions(job.needs)
        _update(connection, job_id, **again, cancel_requested=False, reuse_from_try=reuse_from, needs=needs)
        add_event(connection, job_id, "retried", "all runs" if everything else "", actor.name)
        audit.record(connection, actor, Change.RETRY, job_id, everything=everything)


def _update(connection: sa.Connection, job_id: str, **values: object) -> None:
    connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(values))
