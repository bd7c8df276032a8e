"""The audit table in SQL: for administrators, fresh, and out of everybody else's reach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from host.settings import Settings
from lab.errors import QueryError
from lab.roles import Actor
from tests.actors import ADMIN, SUBMITTER, VIEWER
from tests.migrated import copy_migrated
from warehouse.app_db import audit
from warehouse.app_db.engine import open_engine
from warehouse.queries.point_in_time import as_of
from warehouse.sandbox.runner import run_sql

SUBJECT = "it's \"quoted\" \\u0041 \x00 é 漢 😀'); DROP TABLE runs; --"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """With two rows in the audit table, one of them hostile."""
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    with open_engine(settings.app_database_url) as engine:
        audit.record_alone(engine, ADMIN, "price.change", "1", withdrawn=True)
        audit.record_alone(engine, VIEWER, "view.name", SUBJECT, page="sql")
    return settings


def test_an_administrator_asks_it_like_any_table(settings: Settings) -> None:
    answer = run_sql(settings, "SELECT actor, role, action, subject, detail FROM Audit ORDER BY audit_id", actor=ADMIN)
    assert answer.rows() == [
        ["ada", "administrator", "price.change", "1", '{"withdrawn": true}'],
        ["vera", "viewer", "view.name", SUBJECT.replace("\x00", "?"), '{"page": "sql"}'],
    ]
    newest = run_sql(settings, "SELECT max(changed_at) > now() - INTERVAL 1 MINUTE FROM audit", actor=ADMIN)
    assert newest.rows() == [[True]]
    joined = "SELECT count(*) FROM audit LEFT JOIN jobs ON subject = job_id"
    assert run_sql(settings, joined, actor=ADMIN).rows() == [[2]]
    with as_of(datetime.now(UTC) - timedelta(days=1)):
        assert run_sql(settings, joined, actor=ADMIN).rows() == [[2]]


@pytest.mark.parametrize("actor", [SUBMITTER, VIEWER, None])
def test_nobody_else_finds_it(settings: Settings, actor: Actor | None) -> None:
    for name in ("audit", "temp.audit", "memory.main.audit", "warehouse.main.audit"):
        with pytest.raises(QueryError, match="audit does not exist"):
            run_sql(settings, f"SELECT * FROM {name}", actor=actor)


def test_it_is_not_in_the_published_file(settings: Settings) -> None:
    assert b"DROP TABLE runs" not in settings.warehouse_file.read_bytes()
