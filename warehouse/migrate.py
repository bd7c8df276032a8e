"""Makes the home, the folder of all state, and brings both of its databases to the newest revision.

Importing this module is cheap: DuckDB, SQLAlchemy, Arrow and Alembic are imported only to migrate, because every verb
of the command line calls `ensure_migrated` first.
"""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from host.private_files import protect_home
from host.settings import Settings
from lab.errors import UserError

_LOCK_FILE = "migrate.lock"


def ensure_migrated(settings: Settings) -> None:
    """Set up the home on first use: make it and both databases if a database file is missing.

    Existing databases are not upgraded: opening one of another revision raises a RevisionError that names
    `drafthouse migrate`. Does nothing where a database server holds the app database.
    """
    _prepare_uploads(settings)
    if (app_file := settings.app_database_file) is None:
        return
    if not (app_file.exists() and settings.warehouse_file.exists()):  # the warehouse is published last
        migrate(settings)


def migrate(settings: Settings) -> None:
    """Make the home and bring both databases to the newest revision, unless they have it.

    Raises UserError for a home that cannot be written, RevisionError for databases of a newer Drafthouse. Processes
    and threads that migrate one home at the same time wait for each other.
    """
    from warehouse.app_db.engine import migrate_app  # noqa: PLC0415 - see above
    from warehouse.ingest.publication import migrate_master  # noqa: PLC0415 - see above

    make_home(settings)
    with _only_migration(settings.home):
        migrate_app(settings.app_database_url)
        migrate_master(settings.home, settings.master_file, settings.warehouse_file)


def make_home(settings: Settings) -> None:
    """Create the folder of all state, closed to others on this host. Raises UserError if the home cannot be written."""
    try:
        for folder in (settings.home, settings.bundles, settings.logs_dir):
            folder.mkdir(parents=True, exist_ok=True)
        protect_home(settings.home, settings.home_group)
        with tempfile.TemporaryFile(dir=settings.home):
            pass
        _prepare_uploads(settings)
    except OSError as error:
        raise UserError(
            f"{settings.home.absolute()} cannot be written ({error.strerror}): make it writable, "
            "or set DRAFTHOUSE_HOME to a folder that is"
        ) from None


def _prepare_uploads(settings: Settings) -> None:
    if settings.bundles_url is not None:
        from warehouse.bundles.uploads import prepare  # noqa: PLC0415 - see above

        prepare(settings)


@contextlib.contextmanager
def _only_migration(home: Path) -> Iterator[None]:
    """Wait for the home's migration lock and hold it. Alembic keeps its context in globals, so threads need it too."""
    with (home / _LOCK_FILE).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
