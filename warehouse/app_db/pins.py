"""What is pinned to a dashboard: a figure by its page, the parameters of its link and its key, drawn anew each time.

Nothing is deleted: what was removed can be brought back. Every change may be made again without another effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from lab.errors import UserError
from warehouse.app_db.dashboards import changing, new_id, refuse_absent, touch
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import pins

MOST_CAPTION_LETTERS = 2_000
#: A page that draws more than this is of no use to anybody.
MOST_PINS = 60


@dataclass(frozen=True)
class Pinned:
    """One figure of a page. `as_of`: the moment of the data; null is now."""

    page: str
    parameters: Mapping[str, Sequence[str]]
    figure: str
    as_of: datetime | None = None

    @property
    def parameters_json(self) -> str:
        return json.dumps({name: list(values) for name, values in self.parameters.items()}, sort_keys=True)


@dataclass(frozen=True)
class Pin:
    pin_id: str
    dashboard_id: str
    shown: Pinned
    caption: str
    pinned_at: datetime


def listed(engine: sa.Engine, dashboard_id: str) -> list[Pin]:
    """In their order."""
    query = sa.select(pins).where(*_on(dashboard_id)).order_by(pins.c.place, pins.c.pinned_at)
    with reading(engine).connect() as connection:
        return [_pin(row) for row in connection.execute(query).all()]


def add(engine: sa.Engine, dashboard_id: str, shown: Pinned, caption: str) -> str:
    """The pin's id; it stands last. What is pinned there already is not pinned again, and keeps its caption.

    Raises UserError for a dashboard that is not there, one that is full, and for a caption that is too long.
    """
    _refuse_long(caption)
    with changing(engine) as connection:
        refuse_absent(connection, dashboard_id)
        there = connection.execute(sa.select(pins).where(*_on(dashboard_id))).all()
        same = [row.pin_id for row in there if _pin(row).shown == _as_kept(shown)]
        if same:
            return str(same[0])
        if len(there) >= MOST_PINS:
            raise UserError(f"this dashboard is full: it has {MOST_PINS} pins")
        row = {
            "pin_id": new_id(),
            "dashboard_id": dashboard_id,
            "place": max((row.place for row in there), default=-1) + 1,
            "page": shown.page,
            "parameters_json": shown.parameters_json,
            "figure": shown.figure,
            "caption": caption,
            "as_of": shown.as_of,
            "pinned_at": datetime.now(UTC),
        }
        connection.execute(pins.insert().values(**row))
        touch(connection, dashboard_id)
        return str(row["pin_id"])


def change(engine: sa.Engine, pin_id: str, caption: str, as_of: datetime | None) -> None:
    """Raises UserError for a caption that is too long, and for a pin that is not there (any more)."""
    _refuse_long(caption)
    with changing(engine) as connection:
        if (dashboard_id := _dashboard_of(connection, pin_id, removed=False)) is None:
            raise UserError("this pin was removed meanwhile")
        changed = pins.update().where(pins.c.pin_id == pin_id).values(caption=caption, as_of=as_of)
        connection.execute(changed)
        touch(connection, dashboard_id)


def remove(engine: sa.Engine, pin_id: str) -> None:
    with changing(engine) as connection:
        if (dashboard_id := _dashboard_of(connection, pin_id, removed=False)) is not None:
            connection.execute(pins.update().where(pins.c.pin_id == pin_id).values(removed_at=datetime.now(UTC)))
            touch(connection, dashboard_id)


def bring_back(engine: sa.Engine, pin_id: str) -> None:
    """Where it stood."""
    with changing(engine) as connection:
        if (dashboard_id := _dashboard_of(connection, pin_id, removed=True)) is not None:
            connection.execute(pins.update().where(pins.c.pin_id == pin_id).values(removed_at=None))
            touch(connection, dashboard_id)


def move(engine: sa.Engine, pin_id: str, before: str | None) -> None:
    """Put it just before another one of its dashboard; None, or one that has gone, is the end."""
    with changing(engine) as connection:
        dashboard_id = _dashboard_of(connection, pin_id, removed=False)
        if dashboard_id is None or pin_id == before:
            return
        query = sa.select(pins.c.pin_id).where(pins.c.dashboard_id == dashboard_id).order_by(pins.c.place)
        order = [each for each in connection.scalars(query.order_by(pins.c.pinned_at)) if each != pin_id]
        order.insert(order.index(before) if before in order else len(order), pin_id)
        for place, each in enumerate(order):
            connection.execute(pins.update().where(pins.c.pin_id == each).values(place=place))
        touch(connection, dashboard_id)


def _dashboard_of(connection: sa.Connection, pin_id: str, *, removed: bool) -> str | None:
    is_removed = pins.c.removed_at.is_not(None) if removed else pins.c.removed_at.is_(None)
    found: str | None = connection.scalar(sa.select(pins.c.dashboard_id).where(pins.c.pin_id == pin_id, is_removed))
    return found


def _on(dashboard_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return pins.c.dashboard_id == dashboard_id, pins.c.removed_at.is_(None)


def _pin(row: sa.Row[tuple[object, ...]]) -> Pin:
    shown = Pinned(row.page, json.loads(row.parameters_json), row.figure, row.as_of)
    return Pin(row.pin_id, row.dashboard_id, shown, row.caption, row.pinned_at)


def _as_kept(shown: Pinned) -> Pinned:
    return Pinned(shown.page, json.loads(shown.parameters_json), shown.figure, shown.as_of)


def _refuse_long(caption: str) -> None:
    if len(caption) > MOST_CAPTION_LETTERS:
        raise UserError(f"a caption has {MOST_CAPTION_LETTERS:,} letters at most: this has {len(caption):,}")
