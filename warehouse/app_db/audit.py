"""The audit table: who changed what, when and how they came in. Rows are only added, in the change's transaction.

Because every change is a row, the number of rows also limits how much one user may change within a day.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from lab.errors import AccessError
from lab.roles import Actor, Change, Role
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import audit

#: An administrator's SQL sees this many of the newest rows: some ten megabytes.
MOST_IN_SQL = 50_000
#: The most changes of one user within 24 hours, except by the command or an administrator: dashboards, pins, tokens
#: and links that are made and removed again leave something behind.
MOST_CHANGES_PER_DAY = 5_000
#: Changes that are allowed beyond the limit: stopping what runs, and sign-ins that give another role.
_NOT_COUNTED = (Change.CANCEL, Change.USERS)
#: Longer texts of visitors are cut.
MOST_SUBJECT, MOST_DETAIL = 300, 4_000
_IN_SQL = {
    "audit_id": "BIGINT",
    "changed_at": "TIMESTAMPTZ",
    **dict.fromkeys(("actor", "role", "via", "action", "subject", "detail"), "VARCHAR"),
}


@dataclass(frozen=True)
class Entry:
    """A change, or an attempt to sign in. `subject` is what was changed; `detail` says how."""

    at: datetime
    actor: str
    role: str
    via: str
    action: str
    subject: str
    detail: dict[str, Any]


def record(connection: sa.Connection, actor: Actor, action: str, subject: str, **detail: object) -> None:
    """Add a row in the caller's transaction: without the change there is no row, and without the row no change.

    Raises AccessError if the actor has changed too much within a day.
    """
    if isinstance(action, Change) and action not in _NOT_COUNTED:
        _refuse_too_many(connection, actor)
    _add(connection, actor, action, subject, detail)


def _add(connection: sa.Connection, actor: Actor, action: str, subject: str, detail: dict[str, object]) -> None:
    text = json.dumps(detail, default=str)
    text = text if len(text) <= MOST_DETAIL else json.dumps({"cut": text[: MOST_DETAIL // 2]})
    row = {"actor": actor.name, "role": actor.role.value, "via": actor.via, "action": action}
    row |= {"subject": subject[:MOST_SUBJECT], "detail_json": text}
    connection.execute(audit.insert().values(**row, at=datetime.now(UTC)))


def _refuse_too_many(connection: sa.Connection, actor: Actor) -> None:
    if actor.role is Role.ADMINISTRATOR or actor.via == "command":
        return
    today = (audit.c.actor == actor.name, audit.c.at > datetime.now(UTC) - timedelta(days=1))
    if (connection.scalar(sa.select(sa.func.count()).select_from(audit).where(*today)) or 0) >= MOST_CHANGES_PER_DAY:
        raise AccessError(
            f"you have made {MOST_CHANGES_PER_DAY:,} changes within 24 hours: wait, or ask an administrator"
        )


def record_alone(engine: sa.Engine, actor: Actor, action: str, subject: str, **detail: object) -> None:
    """Add a row for a change of files that is already made: no transaction can hold both."""
    with engine.begin() as connection:
        _add(connection, actor, action, subject, detail)


def newest(engine: sa.Engine, limit: int) -> list[Entry]:
    """Return the last changes, the newest first."""
    query = sa.select(audit).order_by(audit.c.audit_id.desc()).limit(limit)
    with reading(engine).connect() as connection:
        return [_entry(row) for row in connection.execute(query).mappings()]


def of_last_day(engine: sa.Engine, actor: Actor, action: str) -> list[Entry]:
    """Return the actor's changes of a kind within 24 hours, the newest first."""
    since = datetime.now(UTC) - timedelta(days=1)
    query = sa.select(audit).where(audit.c.at > since, audit.c.actor == actor.name, audit.c.action == action)
    with reading(engine).connect() as connection:
        return [_entry(row) for row in connection.execute(query.order_by(audit.c.audit_id.desc())).mappings()]


def as_duckdb_table(engine: sa.Engine) -> str:
    """Return the statement that makes the newest rows a temporary table `audit` of a DuckDB connection.

    It is never published: everybody may read the published warehouse, and only administrators this.
    """
    query = sa.select(audit).order_by(audit.c.audit_id.desc()).limit(MOST_IN_SQL)
    with reading(engine).connect() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
    for row in rows:
        row["changed_at"], row["detail"] = row.pop("at").isoformat(), row.pop("detail_json")
        row["subject"] = row["subject"].replace("\0", "?")  # which DuckDB's texts cannot hold
    text = json.dumps(rows).replace("'", "''")
    columns = ", ".join(f"{name} {kind}" for name, kind in _IN_SQL.items())
    kinds = json.dumps([_IN_SQL]).replace("'", "''")
    made = f"CREATE TEMP TABLE audit ({columns})"
    return f"{made}; INSERT INTO audit SELECT unnest(from_json('{text}', '{kinds}'), recursive := true)"


def _entry(row: sa.RowMapping) -> Entry:
    names = ("at", "actor", "role", "via", "action", "subject")
    return Entry(**{name: row[name] for name in names}, detail=json.loads(row["detail_json"]))
