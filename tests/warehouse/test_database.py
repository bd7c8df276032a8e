"""Both databases are made by their migrations, and one of another revision is refused with the command to run."""

from __future__ import annotations

import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from lab.errors import RevisionError, SettingsError, UserError
from warehouse import database
from warehouse.app_db.schema import APP, job_events, jobs, studies
from warehouse.schema import revisions
from warehouse.schema.tables import WAREHOUSE
from warehouse.settings import Settings

NOW = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)


def add_job(connection: sa.Connection, job_id: str) -> None:
    if connection.execute(sa.select(studies.c.study_id)).first() is None:
        connection.execute(studies.insert().values(study_id="s", name="small", toml="", json="{}", created_at=NOW))
    row = {"job_id": job_id, "study_id": "s", "name": "small", "study_json": "{}", "state": "queued"}
    connection.execute(jobs.insert().values(**row, submitted_at=NOW))


def test_migrating_twice_changes_nothing(settings: Settings) -> None:
    database.migrate(settings)
    with database.open_warehouse(settings) as connection:
        assert connection.execute("select count(*) from results where origin = 'measured'").fetchone() == (0,)


def test_the_app_database_is_what_its_tables_declare(settings: Settings) -> None:
    with database.app_engine(settings).connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), APP) == []


def test_the_master_is_what_its_tables_declare(settings: Settings) -> None:
    engine = sa.create_engine(sa.URL.create("duckdb", database=str(settings.master_file)))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, WAREHOUSE) == []
    engine.dispose()


@pytest.mark.parametrize("name", ["app", "warehouse"])
def test_the_revisions_written_down_are_those_of_the_migrations(name: str) -> None:
    scripts = list(ScriptDirectory.from_config(revisions.alembic_config(name)).walk_revisions("base", "heads"))
    assert tuple(script.revision for script in reversed(scripts)) == revisions.REVISIONS[name]


@pytest.mark.parametrize(("name", "metadata"), [("app", APP), ("warehouse", WAREHOUSE)])
def test_the_migrations_go_down_and_up_again(tmp_path: Path, name: str, metadata: sa.MetaData) -> None:
    dialect = {"app": "sqlite", "warehouse": "duckdb"}[name]
    engine = sa.create_engine(sa.URL.create(dialect, database=str(tmp_path / "database")))
    for revision in ("head", "base", "head"):
        with engine.begin() as connection:
            config = revisions.alembic_config(name, connection, metadata)
            (command.downgrade if revision == "base" else command.upgrade)(config, revision)
            tables = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
        assert tables == (set() if revision == "base" else set(metadata.tables))
    engine.dispose()


def test_a_master_of_before_the_probes_keeps_its_runs_and_still_takes_each_only_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    database.make_home(settings)
    at_revision(sa.URL.create("duckdb", database=str(settings.master_file)), "warehouse", "warehouse_0002")
    with duckdb.connect(settings.master_file) as connection:
        types = dict(connection.execute("select column_name, column_type from (describe runs)").fetchall())
        names = [f'"{name}"' for name in types]
        filled = ", ".join(
            "'x'" if kind == "VARCHAR" else "now()" if "TIME" in kind else "1" for kind in types.values()
        )
        connection.execute(f"insert into runs ({', '.join(names)}) values ({filled})")
        connection.execute("insert into telemetry values ('x', 1.0, 0.5, 1, 1, 4)")
    database.migrate(settings)
    with duckdb.connect(settings.master_file) as connection:
        assert connection.execute("select run_id, cell_id, gpus from runs").fetchall() == [("x", None, None)]
        assert connection.execute("select t_s, gpu_power_w from telemetry").fetchall() == [(1.0, None)]
        with pytest.raises(duckdb.ConstraintException):
            connection.execute("insert into runs by name select * from runs")


def test_a_master_of_before_exact_windows_keeps_its_rows_and_still_takes_each_run_only_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    database.make_home(settings)
    at_revision(sa.URL.create("duckdb", database=str(settings.master_file)), "warehouse", "warehouse_0004")
    with duckdb.connect(settings.master_file) as connection:
        for table in ("runs", "request_records", "telemetry", "run_metrics"):
            _fill(connection, table)
    database.migrate(settings)
    added = {
        "runs": ("run_id", "log_begin_bytes", "log_end_bytes"),
        "request_records": ("run_id", "sent_prompt_tokens"),
        "telemetry": ("run_id", "gpu_other_processes"),
        "run_metrics": ("run_id", "steady_window_s", "steady_output_tok_per_s"),
    }
    with duckdb.connect(settings.master_file) as connection:
        for table, columns in added.items():
            rows = connection.execute(f"select {', '.join(columns)} from {table}").fetchall()
            assert rows == [("x", *[None] * (len(columns) - 1))]
        with pytest.raises(duckdb.ConstraintException):
            connection.execute("insert into runs by name select * from runs")


def test_a_master_of_before_imports_keeps_its_runs_as_measured_and_still_takes_each_only_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    database.make_home(settings)
    at_revision(sa.URL.create("duckdb", database=str(settings.master_file)), "warehouse", "warehouse_0005")
    with duckdb.connect(settings.master_file) as connection:
        for table in ("runs", "request_records"):
            _fill(connection, table)
    database.migrate(settings)
    with duckdb.connect(settings.master_file) as connection:
        assert connection.execute("select run_id, origin, tool from runs").fetchall() == [("x", "measured", None)]
        assert connection.execute("select run_id, prompt from request_records").fetchall() == [("x", "x")]
        with pytest.raises(duckdb.ConstraintException):
            connection.execute("insert into runs by name select * from runs")


def _fill(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """One row of anything, with the run `x`."""
    types = connection.execute(f"select column_name, column_type from (describe {table})").fetchall()
    values = [
        "[]" if "[]" in kind else "'x'" if kind == "VARCHAR" else "now()" if "TIME" in kind else "1"
        for _, kind in types
    ]
    names = ", ".join(f'"{name}"' for name, _ in types)
    connection.execute(f"insert into {table} ({names}) values ({', '.join(values)})")


def test_jobs_of_before_there_were_workers_ask_for_no_hardware_and_reuse_every_run(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    database.make_home(settings)
    at_revision(sa.make_url(settings.app_database_url), "app", "app_0001")
    with sqlite3.connect(settings.home / "app.sqlite") as connection:
        connection.execute("insert into studies values ('s', 'small', '', '{}', '2026-11-21')")
        connection.execute(
            "insert into jobs (job_id, study_id, name, study_json, state, submitted_at)"
            " values ('j', 's', 'small', '{}', 'queued', '2026-11-21')"
        )
    connection.close()
    database.migrate(settings)
    with database.app_engine(settings).connect() as app:
        assert app.execute(sa.select(jobs.c.hardware, jobs.c.reuse_from_try)).one() == (None, 0)


def at_revision(url: sa.URL, name: str, revision: str) -> None:
    """Make the database as an earlier Drafthouse left it."""
    engine = sa.create_engine(url)
    metadata = {"app": APP, "warehouse": WAREHOUSE}[name]
    with engine.begin() as connection:
        command.upgrade(revisions.alembic_config(name, connection, metadata), revision)
    engine.dispose()


def test_an_app_database_never_set_up_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(RevisionError, match="never set up: run `drafthouse migrate`"):
        database.app_engine(Settings(home=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_older_app_database_names_the_command(settings: Settings) -> None:
    with database.app_engine(settings).begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
    with pytest.raises(RevisionError, match="run `drafthouse migrate`"):
        database.app_engine(settings)


def test_a_newer_app_database_asks_for_a_newer_drafthouse(settings: Settings) -> None:
    with database.app_engine(settings).begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'app_9999'"))
    with pytest.raises(RevisionError, match=r"newer Drafthouse .*app_9999.*: upgrade Drafthouse"):
        database.app_engine(settings)
    with pytest.raises(RevisionError, match="upgrade Drafthouse"):
        database.migrate(settings)


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [("warehouse_9999", "upgrade Drafthouse"), ("warehouse_0001", "older than .* run `drafthouse migrate`")],
)
def test_a_warehouse_of_another_revision_is_refused(settings: Settings, revision: str, sentence: str) -> None:
    with duckdb.connect(settings.warehouse_file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
    with pytest.raises(RevisionError, match=sentence):
        database.open_warehouse(settings)


def test_a_home_without_a_warehouse_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no warehouse in .* yet: run `drafthouse migrate`"):
        database.open_warehouse(Settings(home=tmp_path))


def test_a_home_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written .*: make it writable, or set DRAFTHOUSE_HOME"):
        database.migrate(Settings(home=tmp_path / "file" / "home"))


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x/y"])
def test_an_address_that_is_none_is_a_settings_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="DRAFTHOUSE_DATABASE_URL"):
        database.app_engine(Settings(home=tmp_path, database_url=url))


def test_a_database_server_that_is_away_is_a_sentence_without_the_password(tmp_path: Path) -> None:
    url = "postgresql+pg8000://someone:secret@127.0.0.1:1/x"
    with pytest.raises(UserError, match="cannot be opened") as caught:
        database.app_engine(Settings(home=tmp_path, database_url=url))
    assert "secret" not in str(caught.value)


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "it's 100% a home; drop table x")
    database.migrate(settings)
    database.app_engine(settings).dispose()
    database.open_warehouse(settings).close()


def test_moments_come_back_in_utc_and_naive_ones_are_refused(settings: Settings) -> None:
    engine = database.app_engine(settings)
    with engine.begin() as connection:
        add_job(connection, "j")
        assert connection.execute(sa.select(jobs.c.submitted_at)).scalar() == NOW
        with pytest.raises(sa.exc.StatementError, match="has no time zone"):
            connection.execute(jobs.update().values(started_at=datetime(2026, 1, 1)))  # noqa: DTZ001 - on purpose


def test_writers_that_read_first_wait_for_each_other_and_lose_nothing(settings: Settings) -> None:
    engine = database.app_engine(settings)
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
    engine = database.app_engine(settings)
    with engine.begin() as writer:
        add_job(writer, "j")
        with database.reading(engine).connect() as reader:
            assert reader.execute(sa.select(sa.func.count()).select_from(jobs)).scalar() == 0


def test_an_event_of_a_job_that_does_not_exist_is_refused(settings: Settings) -> None:
    with database.app_engine(settings).begin() as connection, pytest.raises(sa.exc.IntegrityError):
        connection.execute(job_events.insert().values(job_id="none", at=NOW, kind="x", detail=""))
