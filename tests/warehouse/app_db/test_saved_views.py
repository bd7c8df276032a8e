"""Page states saved under short ids."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.migrated import copy_migrated
from warehouse.app_db import saved_views
from warehouse.app_db.engine import app_engine
from warehouse.settings import Settings

STATE = {"sql": "select '; drop table jobs'", "drawn": None}
VISITORS = 8


def test_visitors_who_save_equal_states_at_once_get_the_same_id(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    engine = app_engine(settings.app_database_url)
    with ThreadPoolExecutor(VISITORS) as visitors:
        ids = set(visitors.map(lambda _: saved_views.save(engine, "sql", STATE), range(VISITORS)))
    (view_id,) = ids
    assert saved_views.load(engine, "sql", view_id) == STATE
    assert saved_views.load(engine, "another page", view_id) is None
    engine.dispose()
