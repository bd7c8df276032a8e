"""Drafts: unsaved input to a page, each under an id of its own and overwritten with each change.

Drafts are stored with the saved views, and deleted after a month without change. A user's number is limited: one more
replaces the draft that was changed longest ago.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from lab.roles import Actor
from warehouse.app_db import saved_views, schema
from warehouse.app_db.saved_views import MAX_STATE_LENGTH

KEPT_FOR = timedelta(days=30)
MOST_DRAFTS = 50
_VIEWS = schema.saved_views


def new_id() -> str:
    """Return an id that nobody can guess."""
    return secrets.token_urlsafe(12)


def save(engine: sa.Engine, page: str, draft_id: str, state: Mapping[str, Any], *, actor: Actor) -> bool:
    """Save the draft in place of its former state, and delete old drafts of the page. Return False if the draft is too
    long to be saved.
    """
    text, now = json.dumps(state), datetime.now(UTC)
    if len(text) > MAX_STATE_LENGTH:
        return False
    row = {"page": _name(page), "state_json": text, "kept_at": now}
    mine = (_VIEWS.c.view_id == draft_id) & (_VIEWS.c.page == _name(page))
    with engine.begin() as connection:
        if not connection.execute(_VIEWS.update().where(mine).values(row)).rowcount:
            old = (_VIEWS.c.page == _name(page)) & (_VIEWS.c.kept_at < now - KEPT_FOR)
            connection.execute(_VIEWS.delete().where(old))
            own = (_VIEWS.c.page == _name(page)) & (_VIEWS.c.owner == actor.name)
            newest = sa.select(_VIEWS.c.view_id).where(own).order_by(_VIEWS.c.kept_at.desc())
            too_many = list(connection.scalars(newest.offset(MOST_DRAFTS - 1)))
            connection.execute(_VIEWS.delete().where(_VIEWS.c.view_id.in_(too_many)))
            connection.execute(_VIEWS.insert().values(view_id=draft_id, owner=actor.name, **row))
    return True


def load(engine: sa.Engine, page: str, draft_id: str) -> dict[str, Any] | None:
    """Return the draft's last state, or None if there is none."""
    return saved_views.load(engine, _name(page), draft_id)


def _name(page: str) -> str:
    return f"{page} draft"
