"""What an enrolled worker host may read and write in PostgreSQL: columns by grants, rows by policies.

This is the only place that says so. Each host has a role, `DATABASE_worker_HOST`, that is a member of the group
`DATABASE_workers`, which has all rights; the policies take the host from the name of the role that signed in. The owner
of the tables (page, ingester, workers without a role of their own) is bound by none of this.

A column that workers read or write, or a new table of theirs, is added to RIGHTS. `drafthouse migrate` and each
enrolment apply it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from warehouse.app_db.schema import (
    hosts,
    job_blocks,
    job_events,
    jobs,
    last_stored,
    running_of_submitters,
    stored_objects,
    users,
    workers,
)

#: The host of who signed in, as SQL; empty, which is no host, for the group itself. `SET ROLE` does not change it.
_HOST = "(SELECT substr(session_user::text, length(current_database()::text) + 9))"
_IS_MINE = f"host = {_HOST}"
_IS_MINE_OR_A_SLOT = f"regexp_replace(host, '^slot [0-9]+ of ', '') = {_HOST}"
_MY_WORKER = f"starts_with(worker, {_HOST} || '/')"
_OF_MY_JOB = f"EXISTS (SELECT FROM jobs j WHERE j.job_id = {{0}}.job_id AND j.host = {_HOST})"
_OF_A_JOB_I_SEE = "EXISTS (SELECT FROM jobs j WHERE j.job_id = {0}.job_id)"
#: A study that any host may help with. Who helps may take its free blocks; the job stays with the host that claimed it.
_IS_SHARED = "state = 'running' AND over_hosts"
_OF_A_SHARED_JOB = f"EXISTS (SELECT FROM jobs j WHERE j.job_id = {{0}}.job_id AND {_IS_SHARED})"
_IS_A_FREE_BLOCK = f"NOT is_done AND lease_expires_at <= extract(epoch FROM clock_timestamp()) AND {_OF_A_SHARED_JOB}"
#: Also of jobs that another host has by now: what was measured before may still be uploaded.
_OF_A_JOB_I_HAD = (
    "EXISTS (SELECT FROM job_events e WHERE e.job_id = {0}.job_id AND e.kind IN ('claimed', 'helps')"
    f" AND starts_with(e.detail, {_HOST} || '/'))"
)
_MY_BUNDLE = f"{_IS_MINE} AND starts_with(path, job_id || '/') AND {_OF_A_JOB_I_HAD}"


@dataclass(frozen=True)
class Rights:
    """A table or view, the columns that may be read, inserted and updated, and SQL conditions of the rows.

    `sees`: rows that may be read; None: all. `adds`: how inserted rows must be. `changes`: rows that may be updated or
    deleted, by what they were, and `leaves`: how they must be afterwards.
    """

    table: sa.FromClause
    reads: Sequence[str]
    inserts: Sequence[str] = ()
    updates: Sequence[str] = ()
    deletes: bool = False
    sees: str | None = None
    adds: str = "false"
    changes: str = "false"
    leaves: str = "false"


#: In the order in which our transactions lock the tables.
RIGHTS = (
    Rights(
        jobs,
        reads=jobs.c.keys(),
        updates=(
            *("state", "worker", "host", "lease", "lease_expires_at", "clock_behind_s", "needs", "progress_json"),
            *("error", "started_at", "finished_at"),
        ),
        sees=f"state = 'queued' OR {_IS_MINE} OR ({_IS_SHARED})",
        changes=f"state = 'queued' OR (state = 'running' AND {_IS_MINE})",
        leaves=f"{_IS_MINE} AND (worker IS NULL OR {_MY_WORKER})",
    ),
    Rights(
        job_blocks,
        reads=job_blocks.c.keys(),
        inserts=job_blocks.c.keys(),
        updates=("worker", "lease_expires_at", "is_done", "likeness"),
        sees=f"{_MY_WORKER} OR {_OF_MY_JOB} OR {_OF_A_SHARED_JOB}",
        adds=f"{_MY_WORKER} AND ({_OF_MY_JOB} OR {_OF_A_SHARED_JOB})",
        changes=f"{_MY_WORKER} OR {_OF_MY_JOB} OR ({_IS_A_FREE_BLOCK})",
        leaves=_MY_WORKER,
    ),
    Rights(
        workers,
        reads=workers.c.keys(),
        inserts=("worker", "host", "hardware", "gpus", "started_at", "last_seen", "slot"),
        updates=("last_seen", "job_id", "engines_json", "waits_for", "keeps", "queue", "clock_behind_s"),
        deletes=True,
        sees=_IS_MINE,
        adds=f"{_IS_MINE} AND {_MY_WORKER}",
        changes=_IS_MINE,
        leaves=_IS_MINE,
    ),
    Rights(
        job_events,
        reads=job_events.c.keys(),
        inserts=("job_id", "at", "kind", "detail", "actor"),
        sees=f"starts_with(detail, {_HOST} || '/') OR {_OF_A_JOB_I_SEE}",
        adds=f"actor IS NULL AND ({_OF_MY_JOB} OR (kind = 'set aside' AND {_OF_A_JOB_I_SEE})"
        f" OR (kind = 'helps' AND starts_with(detail, {_HOST} || '/') AND {_OF_A_SHARED_JOB}))",
    ),
    Rights(
        hosts,
        reads=hosts.c.keys(),
        inserts=hosts.c.keys(),
        updates=("failures", "reason", "set_aside_at"),
        deletes=True,
        sees=_IS_MINE_OR_A_SLOT,
        adds=_IS_MINE_OR_A_SLOT,
        changes=_IS_MINE_OR_A_SLOT,
        leaves=_IS_MINE_OR_A_SLOT,
    ),
    Rights(
        stored_objects,
        reads=stored_objects.c.keys(),
        inserts=stored_objects.c.keys(),
        updates=("serial", "manifest_sha256", "host", "at"),
        sees=f"{_OF_A_JOB_I_HAD} OR {_OF_A_SHARED_JOB}",
        adds=_MY_BUNDLE,
        changes=f"serial IS NULL AND {_OF_A_JOB_I_HAD}",
        leaves=_MY_BUNDLE,
    ),
    Rights(users, reads=("name", "role", "disabled_at")),
    Rights(sa.table("alembic_version"), reads=("version_num",)),
    Rights(running_of_submitters, reads=running_of_submitters.c.keys()),
    Rights(last_stored, reads=last_stored.c.keys()),
)
_SEQUENCES = ("job_events_id_seq",)


def group_role(connection: sa.Connection) -> str:
    """Return the role of all worker hosts of this database."""
    return f"{connection.engine.url.database}_workers"


def role_of(database: str | None, host: str) -> str:
    """Return the role of a host."""
    return f"{database}_worker_{host}"


def host_of(url: str | sa.URL) -> str | None:
    """Return the host whose role a database URL names; None for another role, such as the owner's."""
    parsed = sa.make_url(url)
    of_database, prefix, host = (parsed.username or "").partition(role_of(parsed.database, ""))
    return host if prefix and not of_database else None


def renew(connection: sa.Connection) -> None:
    """Give the group exactly these rights, if there is one."""
    group = group_role(connection)
    if connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :group"), {"group": group}):
        for statement in _statements(connection.dialect.identifier_preparer.quote_identifier(group)):
            connection.exec_driver_sql(statement)


def _statements(group: str) -> Iterator[str]:
    for rights in RIGHTS:
        yield f"REVOKE ALL ON {rights.table} FROM {group}"
        columns = {"SELECT": rights.reads, "INSERT": rights.inserts, "UPDATE": rights.updates}
        grants = [f"{verb} ({', '.join(names)})" for verb, names in columns.items() if names]
        grants += ["DELETE"] if rights.deletes else []
        yield f"GRANT {', '.join(grants)} ON {rights.table} TO {group}"
        if rights.sees is not None:
            yield f"ALTER TABLE {rights.table} ENABLE ROW LEVEL SECURITY"
            for verb, condition in _policies(rights):
                name = f"workers_{verb.lower()}"
                yield f"DROP POLICY IF EXISTS {name} ON {rights.table}"
                yield f"CREATE POLICY {name} ON {rights.table} FOR {verb} TO {group} {condition}"
    for sequence in _SEQUENCES:
        yield f"GRANT USAGE ON SEQUENCE {sequence} TO {group}"


def _policies(rights: Rights) -> Iterator[tuple[str, str]]:
    """Return what may be done under which condition."""
    for verb, condition in (
        ("SELECT", f"USING ({rights.sees})"),
        ("INSERT", f"WITH CHECK ({rights.adds})"),
        ("UPDATE", f"USING ({rights.changes}) WITH CHECK ({rights.leaves})"),
        ("DELETE", f"USING ({rights.changes})"),
    ):
        yield verb, condition.replace("{0}", str(rights.table))
