"""Both databases are made by their migrations, and the home is set up on first use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from host.settings import Settings
from lab.errors import RevisionError, UserError
from warehouse.app_db.engine import app_engine
from warehouse.app_db.schema import APP
from warehouse.migrate import ensure_migrated, migrate
from warehouse.queries.connect import open_warehouse
from warehouse.schema import revisions
from warehouse.schema.tables import WAREHOUSE

_REQUESTS = 1_000


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


def test_a_complete_home_costs_no_import_of_alembic_or_duckdb(settings: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_USE, str(settings.home)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"


def test_processes_and_threads_set_up_a_new_home_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    child = subprocess.Popen([sys.executable, "-c", _FIRST_USE, str(settings.home)], stdout=subprocess.DEVNULL)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ensure_migrated, [settings] * 2))
    assert child.wait() == 0
    open_warehouse(settings.warehouse_file).close()


def test_a_missing_warehouse_is_published_again_on_first_use(settings: Settings) -> None:
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


@pytest.mark.parametrize("name", ["app", "warehouse"])
def test_a_database_never_released_is_refused_with_the_way_out(settings: Settings, name: str) -> None:
    file = settings.master_file if name == "warehouse" else settings.home / "app.sqlite"
    before = f"{name}_{int(revisions.REVISIONS[name][0].removeprefix(f'{name}_')) - 1:04}"
    engine = sa.create_engine(sa.URL.create({"app": "sqlite", "warehouse": "duckdb"}[name], database=str(file)))
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{before}'"))
    engine.dispose()
    if name == "warehouse":
        settings.warehouse_file.write_bytes(file.read_bytes())
    with pytest.raises(RevisionError) as caught:
        migrate(settings)
    assert str(caught.value).endswith(
        f"was written before the first release (revision {before}) and cannot be upgraded: export each study with the "
        "Drafthouse that wrote it (`drafthouse export STUDY --to FOLDER`), then import the folders into a new home "
        "with this one (`drafthouse import FOLDER --as-measured`)"
    )
    with pytest.raises(RevisionError, match=f"first release .*{before}"):
        app_engine(settings.app_database_url) if name == "app" else open_warehouse(settings.warehouse_file)


#: A revision as the next release may bring one: it rewrites every request. It dies after a statement.
_NEXT = """
import os
import signal

from alembic import op

revision, down_revision = "warehouse_next", "{head}"


def upgrade():
    for number, statement in enumerate((
        "ALTER TABLE recent_requests ALTER COLUMN chunk_s TYPE DECIMAL(19, 6)[]",
        "ALTER TABLE recent_requests ADD COLUMN more VARCHAR",
        "UPDATE recent_requests SET more = prompt",
    )):
        op.execute(statement)
        if os.environ.get("DIE_AFTER") == str(number):
            os.kill(os.getpid(), signal.SIGKILL)
"""
_UPGRADE = """
import os
import signal
import sys
from pathlib import Path
from host.settings import Settings
from warehouse.ingest import publication
from warehouse.migrate import migrate
from warehouse.schema import revisions
revisions.MIGRATIONS = Path(sys.argv[2])
revisions.REVISIONS["warehouse"] += ("warehouse_next",)
if os.environ.get("DIE_AFTER") == "commit":
    publication.Master.publish = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
migrate(Settings(home=Path(sys.argv[1])))
"""


@pytest.fixture
def next_release(settings: Settings, tmp_path: Path) -> Path:
    """The migrations with one more revision; the home's master has requests."""
    migrations = shutil.copytree(revisions.MIGRATIONS, tmp_path / "migrations")
    more = migrations / "warehouse" / "versions" / "next.py"
    more.write_text(_NEXT.format(head=revisions.head("warehouse")))
    with duckdb.connect(settings.master_file) as connection:
        _fill(connection, "runs")
        _fill(connection, "recent_requests")
        times = f"list_transform(range(128), lambda i: i / 100 + n / {_REQUESTS})"
        row = f'select r.* replace (n as "index", {times} as chunk_s) from recent_requests as r'
        connection.execute(f"insert into recent_requests {row}, range({_REQUESTS}) as t(n)")
    return migrations


def test_a_database_of_the_release_before_names_the_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(revisions.REVISIONS, "app", (*revisions.REVISIONS["app"], "app_next"))
    with pytest.raises(RevisionError, match=r"older than this Drafthouse \(.*\): run `drafthouse migrate`"):
        app_engine(settings.app_database_url)


@pytest.mark.timeout(1800)
def test_an_upgrade_that_is_killed_is_finished_by_the_next(
    settings: Settings, next_release: Path, tmp_path: Path
) -> None:
    assert _upgrade(shutil.copytree(settings.home, tmp_path / "whole"), next_release) == 0
    upgraded = _requests_of(tmp_path / "whole")
    assert upgraded[:2] == (_REQUESTS + 1, _REQUESTS + 1)
    for moment in ("0", "2", "commit"):
        home = shutil.copytree(settings.home, tmp_path / f"killed {moment}")
        assert _upgrade(home, next_release, DIE_AFTER=moment) == -signal.SIGKILL
        assert _upgrade(home, next_release) == 0
        assert _requests_of(home) == upgraded


def _requests_of(home: Path) -> tuple[object, ...]:
    with duckdb.connect(Settings(home=home).warehouse_file, read_only=True) as connection:
        sums = 'count(*), count(more), sum(list_sum(chunk_s)::DECIMAL(38, 6)), sum("index")'
        return connection.execute(f"select {sums} from recent_requests").fetchall()[0]


def _upgrade(home: Path, migrations: Path, **more: str) -> int:
    """Upgrade the home in a process of its own and return the exit status, which is negative for a signal."""
    command = [sys.executable, "-c", _UPGRADE, str(home), str(migrations)]
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def _fill(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Insert one row of arbitrary values, with the run id `x`."""
    types = connection.execute(f"select column_name, column_type from (describe {table})").fetchall()
    values = [
        "[]" if "[]" in kind else "'x'" if kind == "VARCHAR" else "now()" if "TIME" in kind else "1"
        for _, kind in types
    ]
    names = ", ".join(f'"{name}"' for name, _ in types)
    connection.execute(f"insert into {table} ({names}) values ({', '.join(values)})")


def test_a_home_that_cannot_be_created_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written .*: make it writable, or set DRAFTHOUSE_HOME"):
        migrate(Settings(home=tmp_path / "file" / "home"))


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "it's 100% a home; drop table x")
    migrate(settings)
    app_engine(settings.app_database_url).dispose()
    open_warehouse(settings.warehouse_file).close()
