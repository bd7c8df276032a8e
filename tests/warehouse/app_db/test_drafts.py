"""Drafts of pages: one row each, overwritten, and gone after a month."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from tests.migrated import copy_migrated
from warehouse.app_db import drafts, saved_views
from warehouse.app_db.engine import app_engine
from warehouse.app_db.saved_views import MAX_STATE_LENGTH
from warehouse.app_db.schema import saved_views as table
from warehouse.settings import Settings


def test_a_draft_is_overwritten_refused_if_too_long_and_deleted_when_old(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    engine = app_engine(settings.app_database_url)
    view_id = saved_views.save(engine, "submit", {"a": "view"})
    first, second = drafts.new_id(), drafts.new_id()
    assert drafts.save(engine, "submit", first, {"name": "half"})
    assert drafts.save(engine, "submit", first, {"name": "whole"})
    assert not drafts.save(engine, "submit", first, {"name": "x" * MAX_STATE_LENGTH})
    assert drafts.load(engine, "submit", first) == {"name": "whole"}
    assert drafts.load(engine, "submit", view_id) is None
    with engine.begin() as connection:
        for row in connection.execute(sa.select(table)).mappings().all():
            older = row["kept_at"] - drafts.KEPT_FOR
            connection.execute(sa.update(table).where(table.c.view_id == row["view_id"]).values(kept_at=older))
    assert drafts.save(engine, "submit", second, {"name": "new"})
    assert drafts.load(engine, "submit", first) is None
    assert drafts.load(engine, "submit", second) == {"name": "new"}
    assert saved_views.load(engine, "submit", view_id) == {"a": "view"}
    engine.dispose()
