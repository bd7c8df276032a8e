"""The app database: transactions that wait for each other, and a refusal of other revisions that names the remedy."""

from __future__ import annotations

import socket
import threading
from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from host.settings import Settings
from lab.errors import RevisionError, SettingsError, UserError
from tests.warehouse.app_jobs import NOW, add_job
from warehouse.app_db.engine import app_engine, reading, refuse_newer_database
from warehouse.app_db.schema import job_events, jobs
from warehouse.migrate import migrate


def test_an_app_database_never_set_up_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(RevisionError, match="never set up: run `drafthouse migrate`"):
        app_engine(Settings(home=tmp_path).app_database_url)
    assert list(tmp_path.iterdir()) == []


def test_an_older_app_database_names_the_command(settings: Settings) -> None:
    with app_engine(settings.app_database_url).begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
    with pytest.raises(RevisionError, match="run `drafthouse migrate`"):
        app_engine(settings.app_database_url)


def test_a_newer_app_database_asks_for_a_newer_drafthouse(settings: Settings) -> None:
    with app_engine(settings.app_database_url).begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'app_9999'"))
    with pytest.raises(RevisionError, match=r"newer Drafthouse .*app_9999.*: upgrade Drafthouse"):
        app_engine(settings.app_database_url)
    with pytest.raises(RevisionError, match="upgrade Drafthouse"):
        migrate(settings)


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x/y", "mysql://x/y"])
def test_an_invalid_database_url_is_a_settings_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="DRAFTHOUSE_DATABASE_URL"):
        app_engine(Settings(home=tmp_path, database_url=url).app_database_url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql+pg8000://someone:secret@127.0.0.1:1/x", "refused"),
        ("postgresql://someone:secret@127.0.0.1:1/x", "refused"),
        ("postgresql+psycopg://someone:secret@nowhere.invalid/x", "nowhere.invalid"),
        ("postgresql+psycopg://someone:secret@127.0.0.1:1/x?sslmode=require&connect_timeout=3", "refused"),
        ("postgresql+psycopg://someone:secret@127.0.0.1:1/x?sslmode=perhaps", 'invalid sslmode value: "perhaps"'),
        ("postgresql+psycopg://someone:secret@127.0.0.1:1/x?timeout=5", 'invalid connection option "timeout"'),
    ],
)
def test_a_url_of_postgresql_takes_libpqs_parameters_and_any_drivers_name(url: str, words: str) -> None:
    with pytest.raises(UserError, match="cannot be opened") as caught:
        app_engine(url)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(UserError, match="timeout"):
            app_engine(f"postgresql+psycopg://x@127.0.0.1:{port}/x?connect_timeout=2")


def test_a_database_that_a_newer_drafthouse_migrates_later_is_refused(settings: Settings) -> None:
    engine = app_engine(settings.app_database_url)
    refuse_newer_database(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'app_9999'"))
    with pytest.raises(RevisionError, match=r"the app database was written by a newer Drafthouse .*app_9999"):
        refuse_newer_database(engine)


def test_times_are_returned_in_utc_and_naive_ones_are_refused(settings: Settings) -> None:
    engine = app_engine(settings.app_database_url)
    with engine.begin() as connection:
        add_job(connection, "j")
        assert connection.execute(sa.select(jobs.c.submitted_at)).scalar() == NOW
        with pytest.raises(sa.exc.StatementError, match="has no time zone"):
            connection.execute(jobs.update().values(started_at=datetime(2026, 1, 1)))  # noqa: DTZ001 - on purpose


def test_transactions_that_read_and_then_write_wait_for_each_other(settings: Settings) -> None:
    engine = app_engine(settings.app_database_url)
    with engine.begin() as connection:
        add_job(connection, "j")

    def count_up() -> None:
        for _ in range(25):
            with engine.begin() as connection:
                tries = connection.execute(sa.select(jobs.c.tries)).scalar_one()
                connection.execute(jobs.update().values(tries=tries + 1))

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with engine.connect() as connection:
        assert connection.execute(sa.select(jobs.c.tries)).scalar() == 100


def test_a_reader_does_not_wait_for_a_writer(settings: Settings) -> None:
    engine = app_engine(settings.app_database_url)
    with engine.begin() as writer:
        add_job(writer, "j")
        with reading(engine).connect() as reader:
            assert reader.execute(sa.select(sa.func.count()).select_from(jobs)).scalar() == 0


def test_an_event_of_a_job_that_does_not_exist_is_refused(settings: Settings) -> None:
    with app_engine(settings.app_database_url).begin() as connection, pytest.raises(sa.exc.IntegrityError):
        connection.execute(job_events.insert().values(job_id="none", at=NOW, kind="x", detail=""))
