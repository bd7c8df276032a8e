"""What a link stands for where it would be too long: a page's state under a short id, and names for some of them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from lab.errors import UserError
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import kept_views, named_views

_ID_LETTERS = 12
MOST_LETTERS = 100_000
MOST_NAME_LETTERS = 80


@dataclass(frozen=True)
class Named:
    name: str
    view_id: str
    named_at: datetime


def keep(engine: sa.Engine, page: str, state: Mapping[str, Any]) -> str:
    """The id of this state of a page; the same state has the same one. Raises UserError for one that is too long."""
    text = json.dumps(state, sort_keys=True)
    if len(text) > MOST_LETTERS:
        raise UserError(f"this is {len(text):,} letters long, and a link stands for {MOST_LETTERS:,} at most")
    view_id = hashlib.sha256(f"{page}\n{text}".encode()).hexdigest()[:_ID_LETTERS]
    row = {"view_id": view_id, "page": page, "state_json": text, "kept_at": datetime.now(UTC)}
    if recall(engine, page, view_id) is None:
        with contextlib.suppress(sa.exc.IntegrityError), engine.begin() as connection:  # another visitor was first
            connection.execute(kept_views.insert().values(**row))
    return view_id


def recall(engine: sa.Engine, page: str, view_id: str) -> dict[str, Any] | None:
    """The state of a page that has this id; None where there is none."""
    query = sa.select(kept_views.c.state_json).where(kept_views.c.view_id == view_id, kept_views.c.page == page)
    with reading(engine).connect() as connection:
        text = connection.scalar(query)
    return None if text is None else dict(json.loads(text))


def give_name(engine: sa.Engine, page: str, name: str, view_id: str) -> None:
    """A name that is taken goes to this one. Raises UserError for a name that is none."""
    if not 0 < len(name) <= MOST_NAME_LETTERS or name != name.strip():
        raise UserError(f"a name has 1 to {MOST_NAME_LETTERS} letters, and no space at its ends")
    with engine.begin() as connection:
        connection.execute(named_views.delete().where(*_is(page, name)))
        row = {"page": page, "name": name, "view_id": view_id, "named_at": datetime.now(UTC)}
        connection.execute(named_views.insert().values(**row))


def take_name(engine: sa.Engine, page: str, name: str) -> None:
    """The link goes on to work."""
    with engine.begin() as connection:
        connection.execute(named_views.delete().where(*_is(page, name)))


def names(engine: sa.Engine, page: str) -> list[Named]:
    query = sa.select(named_views).where(named_views.c.page == page).order_by(sa.func.lower(named_views.c.name))
    with reading(engine).connect() as connection:
        rows = connection.execute(query).mappings().all()
    return [Named(row["name"], row["view_id"], row["named_at"]) for row in rows]


def _is(page: str, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return named_views.c.page == page, named_views.c.name == name
