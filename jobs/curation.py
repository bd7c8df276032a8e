"""What people do with studies beside measuring them: name, note, tag, hide, delete, restore and purge. Pages, the API
and the command call the same functions; a study is its job, own or imported, and `study_of` resolves names.

A hidden study leaves the lists, and everything that rests on it stays: verdicts, the noise of others, links, SQL. A
deleted one leaves everything that shows results, until it is restored; the row of its deletion alone decides that, so
nothing is half deleted after a kill. Its bundles stay until it is purged. The files of an imported study are moved
aside, so that they can be imported anew with other labels; importing them restores the study.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from access.shared_links import Kind
from host.settings import Settings
from interchange.store import move_aside, move_back
from jobs import queue
from jobs.table import FINISHED, add_event, find_row
from lab import roles
from lab.errors import AccessError, UnknownNameError, UserError
from lab.metrics.number_format import counted
from lab.roles import Actor, Change, Role
from lab.study import Study
from warehouse.app_db import audit, curated, stored_objects
from warehouse.app_db.curated import Curated
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import dashboards, nights, pins, shared_links
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.bundles.removed import purge_job
from warehouse.bundles.store import open_store
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.connect import open_warehouse
from warehouse.queries.rows import dicts

#: A deleted study can be restored at least for this long: `purge` leaves it alone until then unless it is named.
KEPT_FOR = timedelta(days=30)
MOST_NAME, MOST_NOTE, MOST_TAGS, MOST_TAG = 200, 4_000, 20, 40
_TAG = re.compile(rf"[^\W_][\w.+/-]{{0,{MOST_TAG - 1}}}")
_NAME_OF = "SELECT any_value(study_name) AS name FROM results WHERE job_id = ?"
_RUNS = "SELECT run_id FROM runs WHERE job_id = ?"
_INFORMED = """
    SELECT count(DISTINCT job_id) AS studies FROM judgements JOIN judged_metrics USING (judgement_id)
    WHERE list_contains(history_jobs, ?) AND job_id <> ?
"""


def study_of(settings: Settings, database: sa.Engine, name: str) -> str:
    """Return the job of a study by its id, its digest or its name. Raises UnknownNameError, which says how a deleted
    one comes back.
    """
    try:
        return queue.job_id_of(database, name)
    except UnknownNameError as unknown:
        if settings.warehouse_file.exists():
            with open_warehouse(settings.warehouse_file) as con:
                try:
                    return jobs_of(con, name)[-1]
                except UnknownNameError:
                    pass
        raise unknown from None


def change(
    database: sa.Engine,
    job_id: str,
    *,
    actor: Actor,
    name: str | None = None,
    note: str | None = None,
    tags: Iterable[str] | None = None,
    hidden: bool | None = None,
) -> Curated:
    """Change what is not None, and return all of it. An empty name gives the study its first one back.

    Raises UserError for a name, note or tag that cannot be, and AccessError if the study is not the actor's to change.
    """
    with curated.changing(database) as connection:
        known = _of(connection, job_id, actor)
        changed = known
        if name is not None:
            changed = replace(changed, name=_checked_name(name) or None)
            _rename_job(connection, job_id, changed.name, actor)
        if note is not None:
            changed = replace(changed, note=_checked_note(note))
        if tags is not None:
            changed = replace(changed, tags=checked_tags(tags))
        if hidden is not None and hidden != (known.hidden_at is not None):
            changed = replace(changed, hidden_at=datetime.now(UTC) if hidden else None)
        if changed != known:
            curated.store(connection, changed)
            audit.record(connection, actor, Change.CURATE, job_id, **_differences(known, changed))
    return changed


def delete(settings: Settings, database: sa.Engine, job_id: str, *, actor: Actor) -> None:
    """Delete a study that has ended; repeating it changes nothing. Raises UserError if it is queued or running."""
    called = _called(settings, database, job_id)
    with curated.changing(database) as connection:
        known = _of(connection, job_id, actor, may_be_deleted=True)
        job = find_row(connection, job_id, lock=True)
        if job is not None and job["state"] not in FINISHED:
            raise UserError(f"{job_id} is {job['state']}: cancel it before it is deleted")
        if job is None and called is None and known.deleted_at is None:
            raise UnknownNameError(f"there is no study {job_id}")
        if known.deleted_at is None:
            deleted = replace(known, called=called, deleted_at=datetime.now(UTC), deleted_by=actor.name)
            curated.store(connection, deleted)
            audit.record(connection, actor, Change.CURATE, job_id, deleted=True)
    if job is None:
        move_aside(settings, job_id)


def restore(settings: Settings, database: sa.Engine, name: str, *, actor: Actor) -> str:
    """Restore a deleted study, by its job or its name, and return its job. Raises UserError if there is none."""
    found = deleted_of(database, name)
    _refuse_purged(found)
    with reading(database).connect() as connection:
        roles.require(actor, Change.CURATE, curated.owner_of(connection, found.job_id))
        is_own = find_row(connection, found.job_id) is not None
    if not is_own and found.deleted_at is not None:
        move_back(settings, found.job_id, found.deleted_at)
    with curated.changing(database) as connection:
        known = _of(connection, found.job_id, actor, may_be_deleted=True)
        _refuse_purged(known)  # a purge may have ended meanwhile
        if known.deleted_at is not None:
            curated.store(connection, replace(known, deleted_at=None, deleted_by=None, called=None))
            audit.record(connection, actor, Change.CURATE, found.job_id, restored=True)
    return found.job_id


def _refuse_purged(known: Curated) -> None:
    if known.purged_at is not None:
        raise UserError(f"{known.job_id} was purged on {known.purged_at:%Y-%m-%d}: its bundles are gone")


def deleted(database: sa.Engine) -> list[Curated]:
    """Return the studies that were deleted and can be restored, the last first."""
    return [one for one in curated.all_curated(database) if one.deleted_at is not None and one.purged_at is None]


def deleted_of(database: sa.Engine, name: str) -> Curated:
    """Return the last deleted study of this job or name. Raises UnknownNameError without one."""
    every = [one for one in curated.all_curated(database) if one.deleted_at is not None]
    found = [one for one in every if one.job_id == name] or [one for one in every if one.called == name]
    if not found:
        raise UnknownNameError(f"no deleted study is called {name!r}: `drafthouse study list --deleted` lists them")
    return next((one for one in found if one.purged_at is None), found[0])


def due_for_purging(database: sa.Engine, now: datetime) -> list[Curated]:
    return [one for one in deleted(database) if one.deleted_at is not None and now - one.deleted_at >= KEPT_FOR]


def purge(settings: Settings, database: sa.Engine, job_id: str, *, actor: Actor) -> None:
    """Remove the bundles and verdicts of a deleted study for good. After a kill it resumes where it stopped.

    Raises UnknownNameError if the study is not deleted, and AccessError unless the actor is an administrator there.
    """
    if actor.role is not Role.ADMINISTRATOR or actor.via != "command":
        raise AccessError("only an administrator of the lab's own host can purge studies")
    known = deleted_of(database, job_id)
    if (store := open_store(settings)) is not None:
        store.purge(known.job_id)
        rows = stored_objects.of_job(database, known.job_id)
        stored_objects.record_change(database, {row.path: None for row in rows if row.serial is not None})
    purge_job(settings.bundles, known.job_id)
    with curated.changing(database) as connection:
        if known.purged_at is None:
            curated.store(connection, replace(known, purged_at=datetime.now(UTC)))
            audit.record(connection, actor, Change.CURATE, known.job_id, purged=True)


def dependents(settings: Settings, database: sa.Engine, job_id: str) -> list[str]:
    """Name what shows or rests on a study: `2 pins on the dashboard Weekly`, ...; none if nothing does."""
    found: list[str] = []
    run_ids: list[str] = []
    informed = 0
    if settings.warehouse_file.exists():
        with open_warehouse(settings.warehouse_file) as con:
            run_ids = [row["run_id"] for row in dicts(con, _RUNS, [job_id])]
            informed = dicts(con, _INFORMED, [job_id, job_id])[0]["studies"]
    with reading(database).connect() as connection:
        shown = pins.c.parameters_json.contains(job_id, autoescape=True)
        present = (shown, pins.c.removed_at.is_(None), dashboards.c.removed_at.is_(None))
        boards = sa.select(dashboards.c.name, sa.func.count()).join(pins).where(*present).group_by(dashboards.c.name)
        for board, count in connection.execute(boards.order_by(dashboards.c.name)):
            found.append(f"{counted(count, 'pin')} on the dashboard {board}")
        of_study = sa.and_(shared_links.c.kind == Kind.STUDY, shared_links.c.subject == job_id)
        of_runs = sa.and_(shared_links.c.kind == Kind.RUN, shared_links.c.subject.in_(run_ids))
        works = (shared_links.c.revoked_at.is_(None), shared_links.c.ends_at > datetime.now(UTC))
        links = sa.select(sa.func.count()).select_from(shared_links).where(sa.or_(of_study, of_runs), *works)
        if links_count := connection.scalar(links) or 0:
            found.append(f"{counted(links_count, 'shared link')} to it or its runs")
        series = sa.select(nights.c.series).where(nights.c.job_id == job_id).distinct().order_by(nights.c.series)
        found += [f"a night of the series {name}, whose value stays" for name in connection.scalars(series)]
    if informed:
        found.append(f"the noise of {counted(informed, 'other study', 'other studies')}, whose stored verdicts stay")
    return found


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags without repetitions, sorted. Raises UserError for one that cannot be."""
    found = sorted({tag.strip() for tag in tags} - {""})
    if wrong := [tag for tag in found if not _TAG.fullmatch(tag)]:
        raise UserError(
            f"{wrong[0]!r} cannot be a tag: a tag begins with a letter or digit and has up to {MOST_TAG} letters, "
            "digits and . + / _ -"
        )
    if len(found) > MOST_TAGS:
        raise UserError(f"a study has {MOST_TAGS} tags at most: these are {len(found)}")
    return tuple(found)


def _of(connection: sa.Connection, job_id: str, actor: Actor, *, may_be_deleted: bool = False) -> Curated:
    """Return what is known of a study that the actor may change."""
    roles.require(actor, Change.CURATE, curated.owner_of(connection, job_id))
    known = curated.read(connection, job_id)
    if known.deleted_at is not None and not may_be_deleted:
        raise UserError(queue.deleted_sentence(known))
    return known


def _called(settings: Settings, database: sa.Engine, job_id: str) -> str | None:
    """Return the name by which lists show a study; None if there is no such study."""
    with reading(database).connect() as connection:
        name: str | None = connection.scalar(sa.select(jobs_table.c.name).where(jobs_table.c.job_id == job_id))
    if name is not None or not settings.warehouse_file.exists():
        return name
    with open_warehouse(settings.warehouse_file) as con:
        found: str | None = dicts(con, _NAME_OF, [job_id])[0]["name"]
        return found


def _rename_job(connection: sa.Connection, job_id: str, name: str | None, actor: Actor) -> None:
    """Rename the job too, which is found and listed by its name."""
    job = find_row(connection, job_id, lock=True)
    if job is not None:
        first = Study.model_validate_json(job["study_json"]).name if name is None else name
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(name=first))
        add_event(connection, job_id, "renamed", first, actor.name)


def _checked_name(name: str) -> str:
    name = name.strip()
    if len(name) > MOST_NAME or not name.isprintable():
        raise UserError(f"a study's name has one line of at most {MOST_NAME} characters")
    return name


def _checked_note(note: str) -> str:
    note = note.strip()
    if len(note) > MOST_NOTE or "\0" in note:
        raise UserError(f"a note has at most {MOST_NOTE:,} characters, and no NUL: this one has {len(note):,}")
    return note


def _differences(before: Curated, after: Curated) -> dict[str, object]:
    return {name: value for name, value in vars(after).items() if value != getattr(before, name)}
