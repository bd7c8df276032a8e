"""Publishing: the master is copied and the copy renamed over warehouse.duckdb, so that readers never see half a file.

Another process makes the copy. If the process that holds the master closed a second descriptor of it, the master's lock
would be dropped; a second writer's tables were lost that way.
"""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import duckdb

from warehouse.bundles.run_bundle import fsync

_TEMPORARY = ".{name}.{unique}.publishing"


def publish(connection: duckdb.DuckDBPyConnection, master: Path, published: Path) -> None:
    """Replace the published file by a copy of the master. Raises OSError or duckdb.Error and leaves the old file then.

    `connection` holds the master, outside any transaction. Readers that have the old file open keep reading it.
    """
    remove_leftovers(published)
    connection.execute("CHECKPOINT")
    # A new name each time: a `cp` orphaned by kill -9 may still be writing to the previous one.
    copy = published.with_name(_TEMPORARY.format(name=published.name, unique=uuid.uuid4().hex[:8]))
    try:
        _copy(master, copy)
        fsync(copy)
        copy.rename(published)
        fsync(published.parent)
    finally:
        copy.unlink(missing_ok=True)


def remove_leftovers(published: Path) -> None:
    """Remove the copies that an ingester left behind when it was killed while publishing."""
    for leftover in published.parent.glob(_TEMPORARY.format(name=published.name, unique="*")):
        leftover.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    done = subprocess.run(
        ["cp", "--", source.absolute(), target.absolute()], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{target} could not be written: {done.stderr.strip() or f'cp ended with {done.returncode}'}")
