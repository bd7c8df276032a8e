"""Alembic without its ini file: upgrade a database to the newest revision, or refuse one of another revision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from lab.errors import MIGRATE_COMMAND, RevisionError

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
#: Every revision since the first release, oldest first, as the names of the files in migrations/ say. Importing Alembic
#: for them would cost every command and page half a second.
REVISIONS = {
    name: tuple(sorted(f"{name}_{file.name[:4]}" for file in (MIGRATIONS / name / "versions").glob("[0-9]*.py")))
    for name in ("app", "warehouse")
}


def alembic_config(name: str, connection: sa.Connection | None = None, metadata: sa.MetaData | None = None) -> Config:
    """Return Alembic's configuration of migrations/`name` ("app" or "warehouse")."""
    from alembic.config import Config  # noqa: PLC0415 - see REVISIONS

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS / name).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, metadata=metadata)
    return config


def upgrade(name: str, connection: sa.Connection, metadata: sa.MetaData, where: str) -> None:
    """Upgrade the database inside the caller's transaction. Raises RevisionError if its revision is not one of ours."""
    current = current_revision(connection)
    if current == head(name):
        return
    if current is not None and current not in REVISIONS[name]:
        raise RevisionError(_sentence(name, where, current))
    from alembic import command  # noqa: PLC0415 - see REVISIONS

    command.upgrade(alembic_config(name, connection, metadata), "head")


def head(name: str) -> str:
    """Return the newest revision of migrations/`name`."""
    return REVISIONS[name][-1]


def current_revision(connection: sa.Connection) -> str | None:
    """Return the database's revision, or None if it was never migrated."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(sa.text("select version_num from alembic_version")).scalar()
    return revision


def refuse_other_revision(name: str, where: str, current: str | None) -> None:
    """Raise RevisionError, naming the command to run, unless `current` is the newest revision."""
    if current != head(name):
        raise RevisionError(_sentence(name, where, current))


def _sentence(name: str, where: str, current: str | None) -> str:
    if current is None:
        return f"{where} was never set up: run `{MIGRATE_COMMAND}`"
    if current in REVISIONS[name]:
        return f"{where} is older than this Drafthouse (revision {current}): run `{MIGRATE_COMMAND}`"
    if current.startswith(f"{name}_") and current < REVISIONS[name][0]:
        return (
            f"{where} was written before the first release (revision {current}) and cannot be upgraded: export each "
            "study with the Drafthouse that wrote it (`drafthouse export STUDY --to FOLDER`), then import the folders "
            "into a new home with this one (`drafthouse import FOLDER --as-measured`)"
        )
    return f"{where} was written by a newer Drafthouse (revision {current}): upgrade Drafthouse, then run it again"
