"""Publishing: the master is copied and the copy renamed over warehouse.duckdb, so that readers always find it whole.

The copy is made by another process. Closing any second descriptor of the master in the process that holds it would
drop its lock, and a second writer's tables were lost that way.
"""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import duckdb

from warehouse.bundles.run_bundle import fsync

_TEMPORARY = ".{name}.{unique}.publishing"


def publish(connection: duckdb.DuckDBPyConnection, master: Path, published: Path) -> None:
    """Make warehouse.duckdb what the master is now. Raises OSError or duckdb.Error; the old one is still there then.

    `connection` holds the master, outside any transaction. Whoever has the old file open keeps reading that.
    """
    remove_leftovers(published)
    connection.execute("CHECKPOINT")
    # A new name each time: a copy orphaned by kill -9 may still be writing to the one before.
    copy = published.with_name(_TEMPORARY.format(name=published.name, unique=uuid.uuid4().hex[:8]))
    try:
        _copy(master, copy)
        fsync(copy)
        copy.rename(published)
        fsync(published.parent)
    finally:
        copy.unlink(missing_ok=True)


def remove_leftovers(published: Path) -> None:
    """Remove the copies that an ingester killed while publishing left behind."""
    for leftover in published.parent.glob(_TEMPORARY.format(name=published.name, unique="*")):
        leftover.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    done = subprocess.run(
        ["cp", "--", source.absolute(), target.absolute()], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{target} could not be written: {done.stderr.strip() or f'cp ended with {done.returncode}'}")
