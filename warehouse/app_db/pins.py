"""Pins of dashboards: the page, link parameters and key of a figure, from which it is redrawn each time.

Nothing is deleted: a removed pin can be restored. Repeating a change has no further effect. Every change raises
AccessError if the actor may not change the dashboard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import sqlalchemy as sa

from lab.errors import UserError
from lab.roles import Actor
from warehouse.app_db.dashboards import changing, new_id, note_change, refuse_absent, touch
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import pins

MAX_CAPTION_LENGTH = 2_000
#: The most bytes of a link's parameters as JSON, from which the figure is redrawn each time.
MAX_PARAMETERS_LENGTH = 20_000
#: A page with more figures than this is neither fast nor readable. As many removed ones can be restored, the last ones.
MAX_PINS = 60
#: The page of cards that have no figure.
TEXT = "text"
_TITLE = "# "


@dataclass(frozen=True)
class PinnedFigure:
    """One figure of a page. `as_of` is the point in time of its data; None is now."""

    page: str
    parameters: Mapping[str, Sequence[str]]
    figure: str
    as_of: datetime | None = None

    @property
    def parameters_json(self) -> str:
        return json.dumps({name: list(values) for name, values in self.parameters.items()}, sort_keys=True)


@dataclass(frozen=True)
class Pin:
    """A figure on a dashboard. A first line of `caption` that begins with `# ` is the card's title."""

    pin_id: str
    dashboard_id: str
    shown: PinnedFigure
    caption: str
    pinned_at: datetime
    is_wide: bool | None = None  # True: the whole width; False: half of it; None: as its figure needs

    @property
    def title(self) -> str:
        """Return the card's own title; empty if it has its figure's."""
        first = self.caption.partition("\n")[0]
        return first.removeprefix(_TITLE).strip() if first.startswith(_TITLE) else ""

    @property
    def text(self) -> str:
        """Return the caption without the title."""
        return self.caption.partition("\n")[2].strip() if self.title else self.caption


def caption_of(title: str, text: str) -> str:
    """Return the caption of a card with this title, which may be empty, and this text."""
    title, text = " ".join(title.split()), text.strip()
    return f"{_TITLE}{title}\n{text}".strip() if title else text


def text_card() -> PinnedFigure:
    """Return a card without a figure: its caption is all that it shows."""
    return PinnedFigure(TEXT, {}, new_id())


def pins_on(engine: sa.Engine, dashboard_id: str) -> list[Pin]:
    """Return the pins of a dashboard in their order."""
    query = sa.select(pins).where(*_on(dashboard_id)).order_by(pins.c.place, pins.c.pinned_at)
    with reading(engine).connect() as connection:
        return [_pin(row) for row in connection.execute(query).all()]


def add(engine: sa.Engine, dashboard_id: str, shown: PinnedFigure, caption: str, *, actor: Actor) -> str:
    """Append a pin and return its id. A figure that is already pinned stays unchanged, with its caption.

    Raises UserError for a dashboard that does not exist or is full, and for a caption or parameters that are too long.
    """
    _refuse_long(caption)
    if (length := len(shown.parameters_json) + len(shown.page) + len(shown.figure)) > MAX_PARAMETERS_LENGTH:
        raise UserError(
            f"this figure's link has {length:,} characters; a pin can hold {MAX_PARAMETERS_LENGTH:,} at most"
        )
    with changing(engine) as connection:
        refuse_absent(connection, dashboard_id)
        on_dashboard = connection.execute(sa.select(pins).where(*_on(dashboard_id))).all()
        as_stored = replace(shown, parameters=json.loads(shown.parameters_json))
        same = [row.pin_id for row in on_dashboard if _pin(row).shown == as_stored]
        if same:
            return str(same[0])
        if len(on_dashboard) >= MAX_PINS:
            raise UserError(f"this dashboard is full: it has {MAX_PINS} pins")
        row = {
            "pin_id": new_id(),
            "dashboard_id": dashboard_id,
            "place": max((row.place for row in on_dashboard), default=-1) + 1,
            "page": shown.page,
            "parameters_json": shown.parameters_json,
            "figure": shown.figure,
            "caption": caption,
            "as_of": shown.as_of,
            "pinned_at": datetime.now(UTC),
        }
        connection.execute(pins.insert().values(**row))
        _note_change(connection, dashboard_id, actor, "pinned", str(row["pin_id"]))
        return str(row["pin_id"])


def change(engine: sa.Engine, pin_id: str, caption: str, as_of: datetime | None, *, actor: Actor) -> None:
    """Change caption and point in time. Raises UserError for a caption that is too long and a pin that was removed."""
    _refuse_long(caption)
    if not _update(engine, pin_id, "pin_changed", actor, {"caption": caption, "as_of": as_of}):
        raise UserError("this pin was removed meanwhile")


def remove(engine: sa.Engine, pin_id: str, *, actor: Actor) -> None:
    _update(engine, pin_id, "pin_removed", actor, {"removed_at": datetime.now(UTC)})


def restore(engine: sa.Engine, pin_id: str, *, actor: Actor) -> None:
    """Restore a removed pin to its former position."""
    _update(engine, pin_id, "pin_restored", actor, {"removed_at": None}, removed=True)


def resize(engine: sa.Engine, pin_id: str, *, is_wide: bool, actor: Actor) -> None:
    """Give a pin the whole width of its dashboard, or half of it."""
    _update(engine, pin_id, "pin_resized", actor, {"is_wide": is_wide})


def _update(
    engine: sa.Engine, pin_id: str, action: str, actor: Actor, values: Mapping[str, object], *, removed: bool = False
) -> bool:
    """Set columns of a pin that was `removed`, or was not, and record it as `action`. Return False if there is none."""
    with changing(engine) as connection:
        if (dashboard_id := _dashboard_of(connection, pin_id, removed=removed)) is None:
            return False
        connection.execute(pins.update().where(pins.c.pin_id == pin_id).values(**values))
        _forget_removed(connection, dashboard_id)
        _note_change(connection, dashboard_id, actor, action, pin_id)
        return True


def _forget_removed(connection: sa.Connection, dashboard_id: str) -> None:
    """Delete the removed pins of a dashboard, except for the last ones."""
    removed = sa.select(pins.c.pin_id).where(pins.c.dashboard_id == dashboard_id, pins.c.removed_at.is_not(None))
    too_many = list(connection.scalars(removed.order_by(pins.c.removed_at.desc()).offset(MAX_PINS)))
    connection.execute(pins.delete().where(pins.c.pin_id.in_(too_many)))


def move(engine: sa.Engine, pin_id: str, before: str | None, *, actor: Actor) -> None:
    """Move a pin in front of another one of its dashboard; to the end if `before` is None or was removed."""
    with changing(engine) as connection:
        dashboard_id = _dashboard_of(connection, pin_id, removed=False)
        if dashboard_id is None or pin_id == before:
            return
        query = sa.select(pins.c.pin_id).where(pins.c.dashboard_id == dashboard_id).order_by(pins.c.place)
        order = [other_id for other_id in connection.scalars(query.order_by(pins.c.pinned_at)) if other_id != pin_id]
        order.insert(order.index(before) if before in order else len(order), pin_id)
        for position, other_id in enumerate(order):
            connection.execute(pins.update().where(pins.c.pin_id == other_id).values(place=position))
        _note_change(connection, dashboard_id, actor, "pin_moved", pin_id)


def _note_change(connection: sa.Connection, dashboard_id: str, actor: Actor, action: str, pin_id: str) -> None:
    note_change(connection, dashboard_id, actor, **{action: pin_id})
    touch(connection, dashboard_id)


def _dashboard_of(connection: sa.Connection, pin_id: str, *, removed: bool) -> str | None:
    is_removed = pins.c.removed_at.is_not(None) if removed else pins.c.removed_at.is_(None)
    query = sa.select(pins.c.dashboard_id).where(pins.c.pin_id == pin_id, is_removed)
    dashboard_id: str | None = connection.scalar(query)
    return dashboard_id


def _on(dashboard_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return pins.c.dashboard_id == dashboard_id, pins.c.removed_at.is_(None)


def _pin(row: sa.Row[tuple[object, ...]]) -> Pin:
    shown = PinnedFigure(row.page, json.loads(row.parameters_json), row.figure, row.as_of)
    return Pin(row.pin_id, row.dashboard_id, shown, row.caption, row.pinned_at, row.is_wide)


def _refuse_long(caption: str) -> None:
    if len(caption) > MAX_CAPTION_LENGTH:
        raise UserError(f"a caption has {MAX_CAPTION_LENGTH:,} characters at most; this one has {len(caption):,}")
