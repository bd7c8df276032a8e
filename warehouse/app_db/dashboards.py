"""Dashboards in the app database. Their pins are in `warehouse.app_db.pins`.

Nothing is deleted: a removed dashboard can be restored. Repeating a change has no further effect. Every change raises
AccessError for a dashboard that is not the actor's to change.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import sqlalchemy as sa

from lab import roles
from lab.errors import AccessError, UserError
from lab.roles import Actor, Change
from warehouse.app_db import audit
from warehouse.app_db.engine import excluding, reading
from warehouse.app_db.schema import dashboards, pins

MAX_NAME_LENGTH = 80
#: The most dashboards of one user, removed ones included: the page lists everybody's.
MOST_OWN = 500
#: An arbitrary constant: everyone who changes dashboards of one PostgreSQL database takes the same lock.
_LOCK = 4_026_531_842
#: Begins a transaction that excludes other changes of dashboards.
changing = partial(excluding, lock=_LOCK)


@dataclass(frozen=True)
class Dashboard:
    """A dashboard; `pins` is their number, `removed_at` is None unless it was removed."""

    dashboard_id: str
    name: str
    created_at: datetime
    changed_at: datetime
    removed_at: datetime | None
    owner: str | None  # None: nobody that is known
    pins: int


def all_dashboards(engine: sa.Engine) -> list[Dashboard]:
    """Return the dashboards that were not removed, the last changed first."""
    query = _counted().where(dashboards.c.removed_at.is_(None)).order_by(dashboards.c.changed_at.desc())
    with reading(engine).connect() as connection:
        return [Dashboard(**row) for row in connection.execute(query).mappings()]


def find(engine: sa.Engine, dashboard_id: str) -> Dashboard | None:
    """Return the dashboard, removed or not; None if the id is unknown."""
    query = _counted().where(dashboards.c.dashboard_id == dashboard_id)
    with reading(engine).connect() as connection:
        row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Dashboard(**row)


def create(engine: sa.Engine, name: str, *, actor: Actor) -> str:
    """Create a dashboard unless one has this name, and return its id. Raises UserError for an invalid name."""
    roles.require(actor, Change.DASHBOARD, is_new=True)
    _refuse_bad_name(name)
    with changing(engine) as connection:
        return _id_of(connection, name) or _insert(connection, name, actor)


def rename(engine: sa.Engine, dashboard_id: str, name: str, *, actor: Actor) -> None:
    """Rename the dashboard; its links keep working. Raises UserError for an invalid or taken name."""
    _refuse_bad_name(name)
    with changing(engine) as connection:
        refuse_absent(connection, dashboard_id)
        note_change(connection, dashboard_id, actor, name=name)
        if _id_of(connection, name) not in (None, dashboard_id):
            raise UserError(f"a dashboard named {name!r} exists already: choose another name")
        _set(connection, dashboard_id, name=name)


def remove(engine: sa.Engine, dashboard_id: str, *, actor: Actor) -> None:
    with changing(engine) as connection:
        is_shown = (dashboards.c.dashboard_id == dashboard_id, dashboards.c.removed_at.is_(None))
        if connection.execute(dashboards.update().where(*is_shown).values(removed_at=datetime.now(UTC))).rowcount:
            note_change(connection, dashboard_id, actor, removed=True)


def restore(engine: sa.Engine, dashboard_id: str, *, actor: Actor) -> None:
    """Restore a removed dashboard with its pins; if its name was taken meanwhile, a number is appended to it."""
    with changing(engine) as connection:
        row = connection.execute(sa.select(dashboards).where(dashboards.c.dashboard_id == dashboard_id)).one_or_none()
        if row is None:
            raise UserError("this dashboard does not exist")
        if row.removed_at is not None:
            _set(connection, dashboard_id, removed_at=None, name=_free_name(connection, row.name))
            note_change(connection, dashboard_id, actor, restored=True)


def duplicate(engine: sa.Engine, dashboard_id: str, name: str, *, actor: Actor) -> str:
    """Create a dashboard of this name with the same pins and return its id. Raises UserError if the name is taken."""
    roles.require(actor, Change.DASHBOARD, is_new=True)
    _refuse_bad_name(name)
    with changing(engine) as connection:
        refuse_absent(connection, dashboard_id)
        if _id_of(connection, name) is not None:
            raise UserError(f"a dashboard named {name!r} exists already: choose another name")
        copy = _insert(connection, name, actor)
        query = sa.select(pins).where(pins.c.dashboard_id == dashboard_id, pins.c.removed_at.is_(None))
        rows = [{**row, "pin_id": new_id(), "dashboard_id": copy} for row in connection.execute(query).mappings().all()]
        if rows:
            connection.execute(pins.insert(), rows)
        return copy


def new_id() -> str:
    return secrets.token_hex(6)


def refuse_absent(connection: sa.Connection, dashboard_id: str) -> None:
    """Raise UserError for a dashboard that does not exist or was removed."""
    query = sa.select(dashboards.c.removed_at).where(dashboards.c.dashboard_id == dashboard_id)
    row = connection.execute(query).one_or_none()
    if row is None or row.removed_at is not None:
        raise UserError("this dashboard does not exist, or was removed")


def note_change(connection: sa.Connection, dashboard_id: str, actor: Actor, **detail: object) -> None:
    """Record a change of the dashboard or its pins. Raises AccessError, which ends the transaction, if the actor may
    not change it.
    """
    owned = connection.execute(sa.select(dashboards.c.owner).where(dashboards.c.dashboard_id == dashboard_id))
    roles.require(actor, Change.DASHBOARD, owned.scalar_one_or_none())
    audit.record(connection, actor, Change.DASHBOARD, dashboard_id, **detail)


def touch(connection: sa.Connection, dashboard_id: str) -> None:
    """Record that the dashboard was changed now."""
    _set(connection, dashboard_id)


def _set(connection: sa.Connection, dashboard_id: str, **values: str | None) -> None:
    this = dashboards.update().where(dashboards.c.dashboard_id == dashboard_id)
    connection.execute(this.values(changed_at=datetime.now(UTC), **values))


def _insert(connection: sa.Connection, name: str, actor: Actor) -> str:
    dashboard_id, now = new_id(), datetime.now(UTC)
    own = sa.select(sa.func.count()).select_from(dashboards).where(dashboards.c.owner == actor.name)
    if (connection.scalar(own) or 0) >= MOST_OWN:
        raise AccessError(f"you have made {MOST_OWN} dashboards, which is the limit: use one of them again")
    row = {"dashboard_id": dashboard_id, "name": name, "created_at": now, "changed_at": now, "owner": actor.name}
    connection.execute(dashboards.insert().values(**row))
    audit.record(connection, actor, Change.DASHBOARD, dashboard_id, created=name)
    return dashboard_id


def _id_of(connection: sa.Connection, name: str) -> str | None:
    is_shown = (dashboards.c.name == name, dashboards.c.removed_at.is_(None))
    dashboard_id: str | None = connection.scalar(sa.select(dashboards.c.dashboard_id).where(*is_shown))
    return dashboard_id


def _free_name(connection: sa.Connection, name: str) -> str:
    number, free = 1, name
    while _id_of(connection, free) is not None:
        number += 1
        free = f"{name[: MAX_NAME_LENGTH - 6]} ({number})"
    return free


def _counted() -> sa.Select[tuple[str, str, datetime, datetime, datetime | None, str | None, int]]:
    of_it = (pins.c.dashboard_id == dashboards.c.dashboard_id, pins.c.removed_at.is_(None))
    amount = sa.select(sa.func.count()).select_from(pins).where(*of_it).scalar_subquery().label("pins")
    return sa.select(*dashboards.c, amount)


def _refuse_bad_name(name: str) -> None:
    if not 0 < len(name) <= MAX_NAME_LENGTH or name != name.strip() or not name.isprintable():
        raise UserError(f"a name has 1 to {MAX_NAME_LENGTH} characters and no space at its ends")
