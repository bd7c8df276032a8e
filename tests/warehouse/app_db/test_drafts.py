"""Drafts of pages: one row each, overwritten, and gone after a month."""

from __future__ import annotations

import sqlalchemy as sa

from tests.actors import ADMIN, VIEWER
from warehouse.app_db import drafts, saved_views
from warehouse.app_db.saved_views import MAX_STATE_LENGTH
from warehouse.app_db.schema import saved_views as table


def test_a_draft_is_overwritten_refused_if_too_long_and_deleted_when_old(engine: sa.Engine) -> None:
    view_id = saved_views.save(engine, "submit", {"a": "view"}, actor=ADMIN)
    first, second = drafts.new_id(), drafts.new_id()
    assert drafts.save(engine, "submit", first, {"name": "half"}, actor=ADMIN)
    assert drafts.save(engine, "submit", first, {"name": "whole"}, actor=ADMIN)
    assert not drafts.save(engine, "submit", first, {"name": "x" * MAX_STATE_LENGTH}, actor=ADMIN)
    assert drafts.load(engine, "submit", first) == {"name": "whole"}
    assert drafts.load(engine, "submit", view_id) is None
    with engine.begin() as connection:
        for row in connection.execute(sa.select(table)).mappings().all():
            older = row["kept_at"] - drafts.KEPT_FOR
            connection.execute(sa.update(table).where(table.c.view_id == row["view_id"]).values(kept_at=older))
    assert drafts.save(engine, "submit", second, {"name": "new"}, actor=ADMIN)
    assert drafts.load(engine, "submit", first) is None
    assert drafts.load(engine, "submit", second) == {"name": "new"}
    assert saved_views.load(engine, "submit", view_id) == {"a": "view"}


def test_one_user_has_so_many_drafts_the_last_ones(engine: sa.Engine) -> None:
    others = drafts.new_id()
    drafts.save(engine, "submit", others, {}, actor=VIEWER)
    ids = [drafts.new_id() for _ in range(drafts.MOST_DRAFTS + 1)]
    for draft_id in ids:
        drafts.save(engine, "submit", draft_id, {}, actor=ADMIN)
    there = [draft_id for draft_id in (*ids, others) if drafts.load(engine, "submit", draft_id) is not None]
    assert there == [*ids[1:], others]
