from __future__ import annotations

from contextlib import closing

import duckdb
import pytest
import sqlalchemy as sa

from host.settings import Settings
from jobs.table import add_event
from tests.warehouse.app_jobs import NOW, add_job
from warehouse.app_db.schema import jobs, studies
from warehouse.ingest.app_tables import AppReader, read_app_tables, replicate_app_tables
from warehouse.ingest.master import connect_master


def add_study(database: sa.Engine, study_id: str) -> None:
    with database.begin() as connection:
        connection.execute(studies.insert().values(study_id=study_id, name="x", toml="", json="{}", created_at=NOW))


def set_job(database: sa.Engine, **values: object) -> None:
    """Change all jobs, and record it as an event of each unless it is a heartbeat."""
    with database.begin() as connection:
        connection.execute(jobs.update().values(**values))
        for job_id in connection.scalars(sa.select(jobs.c.job_id)).all() if "progress_json" not in values else ():
            add_event(connection, job_id, "changed")


def read(reader: AppReader) -> dict[str, list[object]]:
    """The keys of the rows that may have changed, by table."""
    return {name: replica.rows[0].to_pylist() for name, replica in reader.changed().items()}


def test_only_tables_that_changed_are_returned_and_a_heartbeat_changes_none(database: sa.Engine) -> None:
    with database.begin() as connection:
        add_job(connection, "job-1")
    with closing(AppReader(database)) as reader:
        first = read(reader)
        assert (first["jobs"], first["studies"]) == (["job-1"], ["s"])
        assert reader.changed() == {}
        set_job(database, lease_expires_at=1.0, progress_json="{}")
        assert reader.changed() == {}
        assert reader.running_jobs() == []
        set_job(database, state="running")
        assert read(reader) == {"jobs": ["job-1"]}
        assert reader.running_jobs() == ["job-1"]
        with database.begin() as connection:
            add_job(connection, "job-2")
            add_event(connection, "job-2", "submitted")
        assert read(reader)["jobs"][-1] == "job-2"


def test_without_a_transaction_of_another_nothing_is_read(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(AppReader(database)) as reader:
        reader.changed()
        monkeypatch.setattr(AppReader, "_read_jobs", lambda *_: pytest.fail("read"))
        assert reader.changed() == {}


def test_a_study_is_read_once_and_not_if_it_is_stored(database: sa.Engine) -> None:
    for study_id in ("s", "a"):
        add_study(database, study_id)
    with closing(AppReader(database, ["s"])) as reader:
        assert read(reader)["studies"] == ["a"]
        for study_id in ("a", "b"):
            with database.begin() as connection:
                if study_id == "b":
                    connection.execute(
                        studies.insert().values(study_id="b", name="x", toml="", json="{}", created_at=NOW)
                    )
                add_job(connection, f"job-{study_id}")
                connection.execute(jobs.update().values(study_id=study_id))
                add_event(connection, f"job-{study_id}", "submitted")
            changed = read(reader)
            assert changed["jobs"][-1] == f"job-{study_id}"
            assert changed.get("studies", []) == (["b"] if study_id == "b" else [])


def stored(master: duckdb.DuckDBPyConnection, table: str, column: str) -> list[str]:
    return [value for (value,) in master.execute(f'SELECT "{column}" FROM "{table}" ORDER BY rowid').fetchall()]


def test_new_studies_are_appended_and_any_other_change_replaces_the_rows(
    settings: Settings, database: sa.Engine
) -> None:
    with connect_master(settings.master_file) as master:
        for study_id in ("b", "a", "c"):
            add_study(database, study_id)
            assert replicate_app_tables(master, read_app_tables(database))
        assert stored(master, "studies", "study_id") == ["b", "a", "c"]
        assert not replicate_app_tables(master, read_app_tables(database))
        with database.begin() as connection:
            connection.execute(studies.update().where(studies.c.study_id == "a").values(name="y"))
            connection.execute(studies.delete().where(studies.c.study_id == "b"))
        assert replicate_app_tables(master, read_app_tables(database))
        assert dict(zip(stored(master, "studies", "study_id"), stored(master, "studies", "name"), strict=True)) == {
            "a": "y",
            "c": "x",
        }
