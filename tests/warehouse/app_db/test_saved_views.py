"""Page states saved under short ids: what is stored of them, how much of it, and for how long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from lab.errors import AccessError
from tests.actors import SUBMITTER, VIEWER
from warehouse.app_db import dashboards, pins, saved_views
from warehouse.app_db.pins import PinnedFigure
from warehouse.app_db.saved_views import KEPT_FOR, MAX_STATE_LENGTH, MOST_BYTES_PER_DAY
from warehouse.app_db.schema import saved_views as table

STATE = {"sql": "select '; drop table jobs'", "drawn": None}
VISITORS = 8


def save(engine: sa.Engine, sql: str) -> str:
    return saved_views.save(engine, "sql", {"sql": sql}, actor=VIEWER)


def age(engine: sa.Engine, by: timedelta) -> None:
    """Let everything be saved so much earlier."""
    with engine.begin() as connection:
        for row in connection.execute(sa.select(table)).mappings().all():
            this = sa.update(table).where(table.c.view_id == row["view_id"])
            connection.execute(this.values(kept_at=row["kept_at"] - by))


def test_visitors_who_save_equal_states_at_once_get_the_same_id(engine: sa.Engine) -> None:
    with ThreadPoolExecutor(VISITORS) as visitors:
        saved = visitors.map(lambda _: saved_views.save(engine, "sql", STATE, actor=VIEWER), range(VISITORS))
        (view_id,) = set(saved)
    assert saved_views.load(engine, "sql", view_id) == STATE
    assert saved_views.load(engine, "another page", view_id) is None


def test_one_user_saves_so_many_bytes_a_day(engine: sa.Engine) -> None:
    text = "x" * (MAX_STATE_LENGTH - 100)
    for number in range(MOST_BYTES_PER_DAY // MAX_STATE_LENGTH):
        save(engine, f"{number} {text}")
    with pytest.raises(AccessError, match="you have saved 4 MiB of queries within 24 hours"):
        save(engine, f"one more {text}")
    first = save(engine, f"0 {text}")  # it is there already
    assert saved_views.load(engine, "sql", first) is not None
    assert saved_views.save(engine, "sql", {"sql": "select 1"}, actor=SUBMITTER)
    age(engine, timedelta(days=1))
    assert save(engine, "select 1 -- tomorrow")


def test_many_small_queries_count_as_a_kilobyte_each(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        now = datetime.now(UTC)
        rows = MOST_BYTES_PER_DAY // 1024
        same = {"page": "sql", "state_json": "{}", "kept_at": now, "owner": VIEWER.name}
        connection.execute(table.insert(), [{"view_id": str(number), **same} for number in range(rows)])
    with pytest.raises(AccessError, match="within 24 hours"):
        save(engine, "select 1")


def test_what_nobody_opens_names_or_pins_is_forgotten(engine: sa.Engine) -> None:
    opened, named, pinned, other = (save(engine, f"select {number}") for number in range(4))
    saved_views.name_view(engine, "sql", "mine", named, actor=VIEWER)
    board = dashboards.create(engine, "board", actor=VIEWER)
    pins.add(engine, board, PinnedFigure("sql", {"query": (pinned,)}, "table"), "", actor=VIEWER)
    age(engine, KEPT_FOR)
    saved_views.note_opened(engine, opened)
    save(engine, "select 'new'")
    there = [saved_views.load(engine, "sql", view_id) is not None for view_id in (opened, named, pinned, other)]
    assert there == [True, True, True, False]
