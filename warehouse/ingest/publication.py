"""Publishing: readers find each state of the master as `warehouse.duckdb`, one whole file, at the cost of what is new.

While a copy of the master costs next to nothing, because it is small or because the file system can clone it, a copy is
renamed over the published file. Otherwise the two files take turns. The master itself is renamed over the published
file; the file published before, which its name no longer finds, gets the rows that it lacks
(`warehouse.ingest.catch_up`) and is the next master. These rows stay in memory until those of the next run are written
with them: whatever a checkpoint writes, it writes half a megabyte and more of what it notes of all tables.

What any reader may still see is never written to. The former file has lost its public name, so nobody can open it any
more, and whether somebody still has it open is answered by the kernel: it grants a lease for writing only on a file
that no process has open, whatever program it is. While one has, or if the file has another name (a hard link), or on a
file system whose readers may be on other machines, the former file is left alone and the next master is a copy of the
published one.

Each file is named after what it is, so that an ingester that is killed anywhere leaves no doubt:

    warehouse.duckdb                    published: complete, and never written to under this name
    master.duckdb                       has everything that is published, and perhaps more
    .warehouse.duckdb.former            was published before, and may lack rows
    .warehouse.duckdb.*.publishing      an unfinished copy, or a master that is being rewritten

The master has the modification time of the published file until something is written to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psutil

from host.private_files import share_with_group
from lab.errors import RevisionError, UserError
from warehouse.bundles.pending import fsync
from warehouse.ingest.catch_up import DivergedError, catch_up
from warehouse.ingest.master import (
    attach_master,
    create_master,
    detach_master,
    new_connection,
    only_ingester,
    published_revision,
)
from warehouse.ingest.row_groups import count_runs, merge_groups
from warehouse.schema import revisions

#: A master up to this size is copied at each publication: that takes a tenth of a second.
CHEAP_COPY_BYTES = 64 * 2**20
#: A reader finds a file by its name, and has it open microseconds later. A reader has this long to open it after the
#: file has lost its name.
OPENING_TAKES_S = 1.0
#: A former file that readers still have open after this long is given up: the next master is copied ahead.
PATIENCE_S = 60.0
#: The option with which `cp` clones or fails.
CLONE = "--reflink=always"
#: File systems of this machine alone, whose kernel knows every process that has a file open.
_LOCAL_FILE_SYSTEMS = frozenset({"ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs"})
_TEMPORARY = ".{name}.{unique}.publishing"
_State = tuple[int, int, int, int]
_log = logging.getLogger("drafthouse.ingester")


class Master:
    """The master of a home and its publication. The caller holds `only_ingester`."""

    def __init__(self, file: Path, published: Path) -> None:
        self.file, self.published = file, published
        self.former = published.with_name(f".{published.name}.former")
        self._connected: duckdb.DuckDBPyConnection | None = None
        self._is_open = False
        self._is_former = False  # whether the open master is still the former file, with its missing rows in memory
        self._clones = True  # until the file system has refused to
        self._replaced_s = time.monotonic() - PATIENCE_S  # when the former file ceased to be the published one
        self._tried_after_s = 0.0
        self._former_state: _State | None = None  # of the former file when it ceased to be the published one
        self.changed_jobs: set[str] | None = None  # since the last publication; None if that is unknown
        self._lacking: set[str] | None = None  # those that the former file lacks, likewise
        self._runs = -1  # at the last publication
        self._has_new_runs = True  # since groups of rows were last merged

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the open master. The first use after a publication makes the next master, which may take seconds.

        Raises RevisionError, OSError for a full disk, and duckdb.Error if the master cannot be opened.
        """
        if not self._is_open:
            self._find_next()
            if not self._is_open:
                attach_master(self._connection, self.file)
                self._is_open = True
        return self._connection

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """Return the connection, whether or not the master is open, and make it on first use."""
        self._connected = self._connected or new_connection(self.file)
        return self._connected

    def make(self) -> None:
        """Make the next master's file, equal to the published one, if there is none; remove what a kill left behind."""
        remove_leftovers(self.published)
        self._find_next()
        if self._is_former:
            self._write()
            published = self.published.stat()
            os.utime(self.file, ns=(published.st_atime_ns, published.st_mtime_ns))

    def _find_next(self) -> None:
        """Find the next master if there is none: the former file, which is open then, or else a copy of the published
        one.
        """
        if self._exists() or not self.published.exists():
            return
        time.sleep(max(0.0, self._replaced_s + OPENING_TAKES_S - time.monotonic()))
        if not self._take_former():
            _log.info("copying %s: there is no former file, or readers have it open", self.published)
            self._copy(self.published, self.file)
            self.former.unlink(missing_ok=True)

    def _exists(self) -> bool:
        return self._is_open or self.file.exists()

    def prepare(self) -> None:
        """Do the slow work of the next publication ahead of time, while nothing waits."""
        if not self._exists():
            self._find_ahead()
        if self._has_new_runs and self._exists():
            self._has_new_runs = False
            merge_groups(self.connection, self._aside())

    def _find_ahead(self) -> None:
        """Find the next master if that is cheap by now, or has been expensive for a minute."""
        waited_s = time.monotonic() - self._replaced_s
        if waited_s >= PATIENCE_S:
            self._find_next()
        elif waited_s >= max(OPENING_TAKES_S, 2 * self._tried_after_s):
            self._tried_after_s = waited_s
            self._take_former()

    def is_published(self) -> bool:
        """Return whether the master is unchanged since it was equal to the published file."""
        self._write()
        return self.published.exists() and self.published.stat().st_mtime_ns == self.file.stat().st_mtime_ns

    def publish(self, *, only_grown: bool = True) -> None:
        """Publish the contents of the master. Readers that have the old file open can still read it.

        `only_grown` says that no row of a run was changed or removed since the last publication; otherwise the former
        file cannot become the master by adding rows. Raises OSError or duckdb.Error, and leaves the old file then.
        """
        if (runs := count_runs(self.connection)) != self._runs:
            self._runs, self._has_new_runs = runs, True
            merge_groups(self.connection, self._aside(), only_overdue=True)
        self._write()
        share_with_group(self.file, self.published.parent)
        if not self._publish_copy():
            self._publish_itself(only_grown=only_grown)
        self._lacking, self.changed_jobs = self.changed_jobs, set()

    def close(self) -> None:
        """Close the master, even one that can no longer be written."""
        if self._connected:
            self._connected.close()
        self._connected, self._is_open, self._is_former = None, False, False

    def _write(self) -> None:
        """Write the changes in memory. A former file then has all that is published, and gets the master's name."""
        self.connection.execute("CHECKPOINT")
        if self._is_former:
            self.former.rename(self.file)
            fsync(self.file.parent)
            self._is_former = False

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Give the master another name while its groups of rows are merged: one that was left half-way is removed, and
        made anew.
        """
        self._write()
        aside = self.published.with_name(_TEMPORARY.format(name=self.published.name, unique=uuid.uuid4().hex[:8]))
        self.file.rename(aside)
        try:
            yield
        except BaseException:
            self.close()
            aside.unlink()
            raise
        aside.rename(self.file)

    def _publish_copy(self) -> bool:
        """Publish a copy of the master. Returns False if that would cost more than a tenth of a second."""
        if self.file.stat().st_size <= CHEAP_COPY_BYTES:
            self._copy(self.file, self.published)
            return True
        try:
            if self._clones:
                self._copy(self.file, self.published, CLONE)
        except OSError:
            self._clones = False
        return self._clones

    def _publish_itself(self, *, only_grown: bool) -> None:
        detach_master(self._connection)
        self._is_open = False
        fsync(self.file)
        self.former.unlink(missing_ok=True)
        if only_grown and self.published.exists():
            os.link(self.published, self.former)
        self.file.rename(self.published)
        fsync(self.published.parent)
        self._former_state = _state(self.former) if self.former.exists() else None
        self._replaced_s, self._tried_after_s = time.monotonic(), 0.0

    def _take_former(self) -> bool:
        """Open the former file as the master. Returns False if it is missing, in use, or lacks more than new rows."""
        if not self.former.exists() or self.former.stat().st_nlink > 1 or not is_open_nowhere(self.former):
            return False
        try:
            is_untouched = _state(self.former) == self._former_state
            catch_up(
                self._connection,
                self.former,
                self.published,
                is_untouched=is_untouched,
                changed_jobs=self._lacking,
            )
        except (DivergedError, RevisionError, duckdb.IOException) as error:  # the last one if it is damaged
            _log.info("%s does not become the master: %s", self.former, error)
            return False
        self._is_open = self._is_former = True
        return True

    def _copy(self, source: Path, target: Path, *options: str) -> None:
        # A new name each time: a `cp` orphaned by kill -9 may still be writing to the previous one.
        copy = self.published.with_name(_TEMPORARY.format(name=self.published.name, unique=uuid.uuid4().hex[:8]))
        try:
            _cp(source, copy, *options)
            fsync(copy)
            copy.rename(target)
            fsync(target.parent)
        finally:
            copy.unlink(missing_ok=True)


def _state(file: Path) -> _State:
    """Return values that change when anybody writes to the file, or when its name is given to another file."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def remove_leftovers(published: Path) -> None:
    """Remove the copies that an ingester left behind when it was killed while publishing."""
    for leftover in published.parent.glob(_TEMPORARY.format(name=published.name, unique="*")):
        leftover.unlink(missing_ok=True)


def is_open_nowhere(file: Path) -> bool:
    """Return whether no process at all has the file open. False if that cannot be known."""
    if not sys.platform.startswith("linux") or _file_system(file) not in _LOCAL_FILE_SYSTEMS:
        return False
    descriptor = os.open(file, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:  # another descriptor of it is open, or leases are forbidden here
        return False
    finally:
        os.close(descriptor)  # gives the lease back
    return True


def _file_system(file: Path) -> str:
    """Return the type of the file's file system, as the kernel names it."""
    mounted = {Path(partition.mountpoint): partition.fstype for partition in psutil.disk_partitions(all=True)}
    return next((mounted[folder] for folder in file.resolve().parents if folder in mounted), "unknown")


def _cp(source: Path, target: Path, *options: str) -> None:
    """Copy in another process: closing a second descriptor of a database in this one would drop its lock."""
    command = ["cp", "-p", *options, "--", str(source.absolute()), str(target.absolute())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{target} could not be written: {done.stderr.strip() or f'cp ended with {done.returncode}'}")


def migrate_master(home: Path, file: Path, published: Path) -> None:
    """Upgrade the master to the newest revision and publish it. Does nothing if an ingester has done both already.

    Raises UserError if an ingester of another revision runs, RevisionError for a newer master.
    """
    try:
        with only_ingester(home):
            master = Master(file, published)
            master.make()
            master.close()
            create_master(file)
            if not master.is_published():
                master.publish(only_grown=False)
            master.close()
    except UserError:
        if published_revision(published) != revisions.head("warehouse"):
            raise
