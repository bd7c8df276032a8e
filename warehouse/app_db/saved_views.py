"""Page states saved under a short id, for links that would be too long, and names that users give to some of them.

Each user may save a limited number of bytes a day. A state that was not opened for a while, has no name and is pinned
nowhere is forgotten: a link to it says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from lab import roles
from lab.errors import AccessError, UserError
from lab.roles import Actor, Change
from warehouse.app_db import audit, schema
from warehouse.app_db.engine import reading

_ID_LENGTH = 12
MAX_STATE_LENGTH = 100_000
MAX_NAME_LENGTH = 80
#: Names that one user may give: the page lists everybody's.
MOST_NAMED = 500
#: What one user may save within a day; a state counts as a kilobyte at least.
MOST_BYTES_PER_DAY, _LEAST_COUNTED = 4 * 2**20, 1024
#: After this time without being opened a state is forgotten.
KEPT_FOR = timedelta(days=90)
_USED_EVERY = timedelta(days=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class NamedView:
    """A saved view with the name that a user gave it."""

    name: str
    view_id: str
    named_at: datetime
    owner: str | None  # None: nobody that is known


def save(engine: sa.Engine, page: str, state: Mapping[str, Any], *, actor: Actor) -> str:
    """Save the state of a page and return its id; equal states share one.

    Raises UserError if it is too long, and AccessError if the actor has saved too much within a day.
    """
    text = json.dumps(state, sort_keys=True)
    if len(text) > MAX_STATE_LENGTH:
        raise UserError(f"this is {len(text):,} characters long; a link can hold {MAX_STATE_LENGTH:,} at most")
    view_id = hashlib.sha256(f"{page}\n{text}".encode()).hexdigest()[:_ID_LENGTH]
    row = {"view_id": view_id, "page": page, "state_json": text, "kept_at": datetime.now(UTC), "owner": actor.name}
    if load(engine, page, view_id) is None:
        with contextlib.suppress(sa.exc.IntegrityError), engine.begin() as connection:  # another visitor was first
            _forget_old(connection, page)
            _refuse_too_much(connection, page, len(text), actor)
            connection.execute(schema.saved_views.insert().values(**row))
    return view_id


def _forget_old(connection: sa.Connection, page: str) -> None:
    """Delete states that nobody opened for a long time, unless they have a name or are pinned."""
    views, before = schema.saved_views, datetime.now(UTC) - KEPT_FOR
    old = (views.c.page == page, views.c.kept_at < before, sa.func.coalesce(views.c.used_at, views.c.kept_at) < before)
    named = sa.exists().where(schema.named_views.c.view_id == views.c.view_id)
    pinned = sa.exists().where(
        schema.pins.c.page == page,
        schema.pins.c.removed_at.is_(None),
        schema.pins.c.parameters_json.contains(views.c.view_id),
    )
    connection.execute(views.delete().where(*old, ~named, ~pinned))


def _refuse_too_much(connection: sa.Connection, page: str, length: int, actor: Actor) -> None:
    views = schema.saved_views
    length_of = sa.func.length(views.c.state_json)
    counted = sa.case((length_of < _LEAST_COUNTED, _LEAST_COUNTED), else_=length_of)
    today = (views.c.owner == actor.name, views.c.kept_at > datetime.now(UTC) - _DAY, views.c.page == page)
    saved = connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(counted), 0)).where(*today)) or 0
    if saved + max(length, _LEAST_COUNTED) > MOST_BYTES_PER_DAY:
        raise AccessError(
            f"you have saved {MOST_BYTES_PER_DAY // 2**20} MiB of queries within 24 hours, which is the limit: what "
            "was saved before still works"
        )


def load(engine: sa.Engine, page: str, view_id: str) -> dict[str, Any] | None:
    """Return the saved state of a page, or None if there is none with this id."""
    views = schema.saved_views
    query = sa.select(views.c.state_json).where(views.c.view_id == view_id, views.c.page == page)
    with reading(engine).connect() as connection:
        text = connection.scalar(query)
    return None if text is None else dict(json.loads(text))


def note_opened(engine: sa.Engine, view_id: str) -> None:
    """Record, once a day, that somebody opened a link to the state."""
    views, now = schema.saved_views, datetime.now(UTC)
    with reading(engine).connect() as connection:
        query = sa.select(sa.func.coalesce(views.c.used_at, views.c.kept_at)).where(views.c.view_id == view_id)
        used_at = connection.scalar(query)
    if used_at is not None and now - used_at > _USED_EVERY:
        with engine.begin() as connection:
            connection.execute(views.update().where(views.c.view_id == view_id).values(used_at=now))


def name_view(engine: sa.Engine, page: str, name: str, view_id: str, *, actor: Actor) -> None:
    """Give a saved view a name, which may have belonged to another. Raises UserError for an invalid name, and
    AccessError for a name that somebody else has given.
    """
    if not 0 < len(name) <= MAX_NAME_LENGTH or name != name.strip():
        raise UserError(f"a name has 1 to {MAX_NAME_LENGTH} characters and no space at its ends")
    with engine.begin() as connection:
        _refuse_unowned(connection, page, name, actor)
        connection.execute(schema.named_views.delete().where(*_is(page, name)))
        own = sa.select(sa.func.count()).select_from(schema.named_views).where(schema.named_views.c.owner == actor.name)
        if (connection.scalar(own) or 0) >= MOST_NAMED:
            raise AccessError(f"you have named {MOST_NAMED} queries: remove some of the names first")
        row = {"page": page, "name": name, "view_id": view_id, "named_at": datetime.now(UTC), "owner": actor.name}
        connection.execute(schema.named_views.insert().values(**row))
        audit.record(connection, actor, Change.NAMED_VIEW, name, page=page, view_id=view_id)


def remove_name(engine: sa.Engine, page: str, name: str, *, actor: Actor) -> None:
    """Remove a name. The view stays saved and its link keeps working. Raises AccessError for somebody else's."""
    with engine.begin() as connection:
        _refuse_unowned(connection, page, name, actor)
        if connection.execute(schema.named_views.delete().where(*_is(page, name))).rowcount:
            audit.record(connection, actor, Change.NAMED_VIEW, name, page=page, removed=True)


def named_views(engine: sa.Engine, page: str) -> list[NamedView]:
    """Return the named views of a page in alphabetical order."""
    named = schema.named_views
    query = sa.select(named).where(named.c.page == page).order_by(sa.func.lower(named.c.name))
    with reading(engine).connect() as connection:
        rows = connection.execute(query).mappings().all()
    return [NamedView(row["name"], row["view_id"], row["named_at"], row["owner"]) for row in rows]


def _refuse_unowned(connection: sa.Connection, page: str, name: str, actor: Actor) -> None:
    named = connection.execute(sa.select(schema.named_views.c.owner).where(*_is(page, name))).one_or_none()
    roles.require(actor, Change.NAMED_VIEW, None if named is None else named.owner, is_new=named is None)


def _is(page: str, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return schema.named_views.c.page == page, schema.named_views.c.name == name
