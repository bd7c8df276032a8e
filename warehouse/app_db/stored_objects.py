"""The table of what is in the object store: readers ask for what is newer than the last they know, and list nothing.

A row is written after the manifest, so what it names exists. Serials become visible in their order, because everyone
who assigns one waits for the one before: a reader that has seen a serial has missed none below it.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import sqlalchemy as sa

from warehouse.app_db.engine import excluding, reading
from warehouse.app_db.schema import last_stored
from warehouse.app_db.schema import stored_objects as table

#: An arbitrary constant: everyone who changes this table of one PostgreSQL database takes the same lock.
_LOCK = 4_026_531_843
_changing = partial(excluding, lock=_LOCK)


@dataclass(frozen=True)
class StoredObject:
    """A row: `serial` is None while it is only announced, `manifest_sha256` also once it was removed."""

    path: str
    job_id: str
    serial: int | None
    manifest_sha256: str | None
    host: str
    at: datetime


def job_of(path: str) -> str:
    """Return the job of a bundle's path or of a verdict's id."""
    return re.split("[/~]", path, maxsplit=1)[0]


def announce(engine: sa.Engine, paths: Iterable[str]) -> None:
    """Record that this host will upload these, so that nobody takes the job for complete without them."""
    with _changing(engine) as connection:
        for path in paths:
            if _row_of(connection, path) is None:
                _insert(connection, path, None)


def record(engine: sa.Engine, path: str, manifest_sha256: str) -> None:
    """Record that the manifest is in the store. Repeating it changes nothing, and nobody replaces another's row, except
    for that of a run that was removed and is imported again.
    """
    with _changing(engine) as connection:
        row = _row_of(connection, path)
        if row is None:
            _insert(connection, path, manifest_sha256)
        elif row.manifest_sha256 is None:
            _update(connection, path, manifest_sha256)


def record_change(engine: sa.Engine, manifests: dict[str, str | None]) -> None:
    """Record that manifests were removed (None) or put back: each gets a new serial."""
    with _changing(engine) as connection:
        for path, manifest_sha256 in manifests.items():
            _update(connection, path, manifest_sha256)


def newer_than(engine: sa.Engine, serial: int) -> list[StoredObject]:
    """Return the rows with a higher serial, in their order."""
    return _read(engine, sa.select(table).where(table.c.serial > serial).order_by(table.c.serial))


def of_job(engine: sa.Engine, job_id: str) -> list[StoredObject]:
    """Return the rows of a job, announced ones included."""
    return _read(engine, sa.select(table).where(table.c.job_id == job_id).order_by(table.c.path))


def awaited(engine: sa.Engine) -> list[StoredObject]:
    """Return what was announced and not uploaded yet."""
    return _read(engine, sa.select(table).where(table.c.serial.is_(None)).order_by(table.c.path))


def _read(engine: sa.Engine, query: sa.Select[tuple[object, ...]]) -> list[StoredObject]:
    names = list(StoredObject.__dataclass_fields__)
    with reading(engine).connect() as connection:
        return [StoredObject(**{name: row[name] for name in names}) for row in connection.execute(query).mappings()]


def _row_of(connection: sa.Connection, path: str) -> sa.Row[tuple[str | None]] | None:
    return connection.execute(sa.select(table.c.manifest_sha256).where(table.c.path == path)).one_or_none()


def _next_serial() -> sa.ScalarSelect[int]:
    return sa.select(sa.func.coalesce(last_stored.c.serial, 0) + 1).scalar_subquery()


def _about(manifest_sha256: str | None) -> dict[str, object]:
    return {"manifest_sha256": manifest_sha256, "host": platform.node(), "at": datetime.now(UTC)}


def _insert(connection: sa.Connection, path: str, manifest_sha256: str | None) -> None:
    serial = None if manifest_sha256 is None else _next_serial()
    row = {"path": path, "job_id": job_of(path), "serial": serial, **_about(manifest_sha256)}
    connection.execute(table.insert().values(**row))


def _update(connection: sa.Connection, path: str, manifest_sha256: str | None) -> None:
    values = {"serial": _next_serial(), **_about(manifest_sha256)}
    connection.execute(table.update().where(table.c.path == path).values(**values))
