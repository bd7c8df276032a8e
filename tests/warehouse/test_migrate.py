"""Both databases are made by their migrations, and the home is set up on first use."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from host.settings import Settings
from lab.errors import UserError
from tests import processes
from warehouse.app_db.engine import app_engine
from warehouse.app_db.schema import APP, jobs
from warehouse.migrate import ensure_migrated, make_home, migrate
from warehouse.queries.connect import open_warehouse
from warehouse.schema import revisions
from warehouse.schema.tables import WAREHOUSE

_REQUESTS = 10_000  # their upgrade takes as long as the rest of the command


def test_migrating_twice_changes_nothing(settings: Settings) -> None:
    migrate(settings)
    with open_warehouse(settings.warehouse_file) as connection:
        assert connection.execute("select count(*) from results where origin = 'measured'").fetchone() == (0,)


#: Sets up the home as a first command would, and says whether Alembic was imported for it.
_FIRST_USE = """
import sys
from pathlib import Path
from warehouse.migrate import ensure_migrated
from host.settings import Settings
ensure_migrated(Settings(home=Path(sys.argv[1])))
print("alembic" in sys.modules, "duckdb" in sys.modules)
"""


def test_the_first_use_of_a_home_sets_it_up(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "new" / "home")
    ensure_migrated(settings)
    app_engine(settings.app_database_url).dispose()
    open_warehouse(settings.warehouse_file).close()


def test_a_home_that_is_set_up_costs_no_import_of_alembic_or_duckdb(settings: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_USE, str(settings.home)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"


def test_processes_and_threads_that_use_a_new_home_at_once_set_it_up_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    child = subprocess.Popen([sys.executable, "-c", _FIRST_USE, str(settings.home)], stdout=subprocess.DEVNULL)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ensure_migrated, [settings] * 2))
    assert child.wait() == 0
    open_warehouse(settings.warehouse_file).close()


def test_the_first_use_of_a_home_whose_warehouse_is_missing_publishes_it_again(settings: Settings) -> None:
    settings.warehouse_file.unlink()
    ensure_migrated(settings)
    open_warehouse(settings.warehouse_file).close()


def test_a_database_server_is_never_migrated_implicitly(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", database_url="postgresql+psycopg://someone:secret@127.0.0.1:1/x")
    ensure_migrated(settings)
    assert not settings.home.exists()


def test_the_app_database_is_what_its_tables_declare(settings: Settings) -> None:
    with app_engine(settings.app_database_url).connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), APP) == []


def test_the_master_is_what_its_tables_declare(settings: Settings) -> None:
    engine = sa.create_engine(sa.URL.create("duckdb", database=str(settings.master_file)))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, WAREHOUSE) == []
    engine.dispose()


@pytest.mark.parametrize("name", ["app", "warehouse"])
def test_the_listed_revisions_are_those_of_the_migrations(name: str) -> None:
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


def test_upgrading_a_master_without_probes_keeps_its_runs(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    make_home(settings)
    at_revision(sa.URL.create("duckdb", database=str(settings.master_file)), "warehouse", "warehouse_0002")
    with duckdb.connect(settings.master_file) as connection:
        types = dict(connection.execute("select column_name, column_type from (describe runs)").fetchall())
        names = [f'"{name}"' for name in types]
        filled = ", ".join(
            "'x'" if kind == "VARCHAR" else "now()" if "TIME" in kind else "1" for kind in types.values()
        )
        connection.execute(f"insert into runs ({', '.join(names)}) values ({filled})")
        connection.execute("insert into telemetry values ('x', 1.0, 0.5, 1, 1, 4)")
    migrate(settings)
    with duckdb.connect(settings.master_file) as connection:
        assert connection.execute("select run_id, cell_id, gpus from runs").fetchall() == [("x", None, None)]
        assert connection.execute("select t_s, gpu_power_w from telemetry").fetchall() == [(1.0, None)]


def test_upgrading_a_master_without_exact_windows_keeps_its_rows(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    make_home(settings)
    at_revision(sa.URL.create("duckdb", database=str(settings.master_file)), "warehouse", "warehouse_0004")
    with duckdb.connect(settings.master_file) as connection:
        for table in ("runs", "request_records", "telemetry", "run_metrics"):
            _fill(connection, table)
    migrate(settings)
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


def test_upgrading_a_master_without_imports_keeps_its_runs_as_measured(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    make_home(settings)
    at_revision(sa.URL.create("duckdb", database=str(settings.master_file)), "warehouse", "warehouse_0005")
    with duckdb.connect(settings.master_file) as connection:
        for table in ("runs", "request_records"):
            _fill(connection, table)
    migrate(settings)
    with duckdb.connect(settings.master_file) as connection:
        assert connection.execute("select run_id, origin, tool from runs").fetchall() == [("x", "measured", None)]
        assert connection.execute("select run_id, prompt from request_records").fetchall() == [("x", "x")]


def test_upgrading_a_master_rounds_the_times_of_chunks_and_dates_requests(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    make_home(settings)
    at_revision(sa.URL.create("duckdb", database=str(settings.master_file)), "warehouse", "warehouse_0020")
    with duckdb.connect(settings.master_file) as connection:
        _fill(connection, "runs")
        connection.execute("update runs set started_at = '2026-09-09 12:00:00+00'")
        _fill(connection, "recent_requests")
        for chunk_s in ("null", "[0.1, 86400.1234567, null]"):
            row = f"select * replace ({chunk_s} as chunk_s) from recent_requests limit 1"
            connection.execute(f"insert into recent_requests {row}")
    migrate(settings)
    with open_warehouse(settings.warehouse_file) as connection:
        stored = connection.execute("select chunk_s from recent_requests order by rowid").fetchall()
        shown = connection.execute("select chunk_s from request_records").fetchall()
        assert stored == [([],), (None,), ([Decimal("0.1"), Decimal("86400.123457"), None],)]
        assert shown == [([],), (None,), ([0.1, 86400.123457, None],)]
        dated = ("x", "x", datetime(2026, 9, 9, 12, tzinfo=UTC))
        query = "select run_id, prompt, run_started_at from request_records"
        assert connection.execute(query).fetchall() == [dated] * 3


@pytest.mark.timeout(300)
def test_an_upgrade_that_is_killed_loses_nothing_and_is_done_by_the_next(tmp_path: Path) -> None:
    """At moments spread over the one that rewrites requests, the longest there is."""
    old = Settings(home=tmp_path / "old")
    make_home(old)
    at_revision(sa.URL.create("duckdb", database=str(old.master_file)), "warehouse", "warehouse_0020")
    with duckdb.connect(old.master_file) as connection:
        _fill(connection, "runs")
        _fill(connection, "recent_requests")
        times = f"list_transform(range(128), lambda i: i / 100 + n / {_REQUESTS})"
        row = f'select r.* replace (n as "index", {times} as chunk_s) from recent_requests as r'
        connection.execute(f"insert into recent_requests {row}, range({_REQUESTS}) as t(n)")
    for name in ("cold", "whole"):
        whole_s = _upgrade(old, tmp_path / name, None)
    upgraded, killed = _requests_of(tmp_path / "whole"), 0
    assert upgraded[:2] == (_REQUESTS + 1, _REQUESTS + 1)
    for number, share in enumerate((0.25, 0.5, 0.75)):
        home = tmp_path / f"killed {number}"
        killed += _upgrade(old, home, share * (whole_s or 0)) is None
        migrate(Settings(home=home))
        assert _requests_of(home) == upgraded
    assert killed


def _requests_of(home: Path) -> tuple[object, ...]:
    with open_warehouse(Settings(home=home).warehouse_file) as connection:
        sums = 'count(*), count(run_started_at), sum(list_sum(chunk_s)::DECIMAL(38, 6)), sum("index")'
        return connection.execute(f"select {sums} from request_records").fetchall()[0]


def _upgrade(old: Settings, home: Path, kill_after_s: float | None) -> float | None:
    """Upgrade a copy of the home. Return the seconds that it took, or None if it was killed before its end."""
    shutil.copytree(old.home, home)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTHOUSE_")}
    began_s = time.monotonic()
    upgrading = processes.start(
        *("cli", "migrate"),
        environment=environment | {"DRAFTHOUSE_HOME": str(home)},
        folder=home,
        output=home / "log",
    )
    if kill_after_s is not None:
        time.sleep(kill_after_s)  # the moment of death, nothing waits for it
        upgrading.kill()
    status = upgrading.wait(120)
    assert status in (0, -signal.SIGKILL), (home / "log").read_text()
    return time.monotonic() - began_s if status == 0 else None


def _fill(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Insert one row of arbitrary values, with the run id `x`."""
    types = connection.execute(f"select column_name, column_type from (describe {table})").fetchall()
    values = [
        "[]" if "[]" in kind else "'x'" if kind == "VARCHAR" else "now()" if "TIME" in kind else "1"
        for _, kind in types
    ]
    names = ", ".join(f'"{name}"' for name, _ in types)
    connection.execute(f"insert into {table} ({names}) values ({', '.join(values)})")


def test_jobs_from_before_the_worker_table_need_no_hardware_and_reuse_every_run(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    make_home(settings)
    at_revision(sa.make_url(settings.app_database_url), "app", "app_0001")
    with sqlite3.connect(settings.home / "app.sqlite") as connection:
        connection.execute("insert into studies values ('s', 'small', '', '{}', '2026-11-21')")
        connection.execute(
            "insert into jobs (job_id, study_id, name, study_json, state, submitted_at)"
            " values ('j', 's', 'small', '{}', 'queued', '2026-11-21')"
        )
    connection.close()
    migrate(settings)
    with app_engine(settings.app_database_url).connect() as app:
        assert app.execute(sa.select(jobs.c.hardware, jobs.c.reuse_from_try)).one() == (None, 0)


def at_revision(url: sa.URL, name: str, revision: str) -> None:
    """Create the database as an earlier Drafthouse left it."""
    engine = sa.create_engine(url)
    metadata = {"app": APP, "warehouse": WAREHOUSE}[name]
    with engine.begin() as connection:
        command.upgrade(revisions.alembic_config(name, connection, metadata), revision)
    engine.dispose()


def test_a_home_that_cannot_be_created_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written .*: make it writable, or set DRAFTHOUSE_HOME"):
        migrate(Settings(home=tmp_path / "file" / "home"))


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "it's 100% a home; drop table x")
    migrate(settings)
    app_engine(settings.app_database_url).dispose()
    open_warehouse(settings.warehouse_file).close()
