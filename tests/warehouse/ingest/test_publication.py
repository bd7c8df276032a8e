"""Readers always find the published file complete, and no second process can write the master."""

from __future__ import annotations

import mmap
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from jobs.table import add_event
from tests.warehouse.app_jobs import add_job
from tests.warehouse.asking import ask, contents
from tests.warehouse.ingest.one_round import ingest_once
from tests.warehouse.runs import request, write_run
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import jobs
from warehouse.ingest import catch_up, publication, row_groups
from warehouse.ingest.master import only_ingester, transaction
from warehouse.ingest.publication import Master, is_open_nowhere
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all, open_ingester
from warehouse.queries.connect import open_warehouse

_COUNTED = "select count(*), count(distinct run_id), sum(len(chunk_s)) from requests"
#: Opens the published file, says so, and copies it when it reads where to.
_COPIER = """
import shutil, sys
with open(sys.argv[1], "rb") as file:
    print("open", flush=True)
    with open(sys.stdin.readline().strip(), "wb") as copy:
        shutil.copyfileobj(file, copy)
"""


def add_run(settings: Settings, run_id: str) -> None:
    write_run(settings.bundles, (request(), request(index=1)), run_id=run_id)
    ingest_all(settings)


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_copies_that_a_killed_ingester_left_are_removed_and_no_others(settings: Settings) -> None:
    others = [settings.home / name for name in (".other.duckdb.1.publishing", "warehouse.duckdb.publishing")]
    leftovers = [settings.home / f".warehouse.duckdb.{name}.publishing" for name in ("a", "b")]
    for path in (*others, *leftovers):
        path.touch()
    ingest_all(settings)
    assert [path.exists() for path in (*others, *leftovers)] == [True, True, False, False]


def test_an_open_reader_keeps_its_file_while_others_see_more(settings: Settings) -> None:
    with open_warehouse(settings.warehouse_file) as old:
        add_run(settings, "run-1")
        assert old.execute("select count(*) from runs").fetchone() == (0,)
        assert ask(settings, "select count(*) from runs") == [(1,)]


def test_a_small_master_stays_locked_while_it_is_copied(settings: Settings, master: Master) -> None:
    """Copying it in this process would drop the lock: another process then wrote, and its tables were lost."""
    other = [sys.executable, "-c", "import duckdb, sys; duckdb.connect(sys.argv[1])", str(settings.master_file)]
    master.publish()
    refused = subprocess.run(other, capture_output=True, text=True, check=False)
    assert "Could not set lock" in refused.stderr


def test_a_copy_is_synced_before_and_its_folder_after_the_rename(
    settings: Settings, master: Master, steps: list[str]
) -> None:
    before = inode(settings.warehouse_file)
    master.publish()
    copy = steps[0].removeprefix("sync ")
    assert re.fullmatch(r"\.warehouse\.duckdb\.[0-9a-f]{8}\.publishing", copy)
    assert steps == [f"sync {copy}", f"rename {copy} to warehouse.duckdb", f"sync {settings.home.name}"]
    assert inode(settings.warehouse_file) != before
    assert list(settings.home.glob(".*publishing")) == []


def test_a_copy_that_fails_leaves_the_old_file_and_says_why(
    settings: Settings, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = settings.warehouse_file.read_bytes()
    assert master.connection is not None
    monkeypatch.setenv("PATH", str(settings.home))
    (settings.home / "cp").write_text("#!/bin/sh\necho cp: the disk is full >&2; exit 1\n")
    (settings.home / "cp").chmod(0o755)
    with pytest.raises(OSError, match=r"\.publishing could not be written: cp: the disk is full$") as caught:
        master.publish()
    assert str(caught.value).startswith(f"{settings.home}/.warehouse.duckdb.")
    assert settings.warehouse_file.read_bytes() == before
    assert list(settings.home.glob(".*publishing")) == []


@pytest.mark.usefixtures("in_turns")
def test_a_large_master_and_the_published_file_take_turns(settings: Settings) -> None:
    add_run(settings, "run-1")  # the first master is a copy, as there was no former file
    used = {inode(settings.warehouse_file), inode(settings.home / ".warehouse.duckdb.former")}
    for number in (2, 3, 4):
        before = inode(settings.warehouse_file)
        add_run(settings, f"run-{number}")
        assert inode(settings.warehouse_file) in used - {before}
        assert ask(settings, "select count(*), count(distinct run_id) from requests") == [(2 * number, number)]
    in_turns = contents(settings)
    rebuild(settings)
    assert contents(settings) == in_turns


@pytest.mark.usefixtures("in_turns")
def test_a_large_master_is_synced_before_and_its_folder_after_the_rename(
    settings: Settings, master: Master, steps: list[str]
) -> None:
    assert master.connection is not None
    steps.clear()
    master.publish()
    assert steps == ["sync master.duckdb", "rename master.duckdb to warehouse.duckdb", f"sync {settings.home.name}"]


@pytest.mark.usefixtures("in_turns")
def test_both_files_have_the_jobs_that_changed_between_their_turns(settings: Settings) -> None:
    with (
        open_engine(settings.app_database_url) as app,
        only_ingester(settings.home),
        open_ingester(settings, app) as ingester,
    ):
        for number in range(5):
            with app.begin() as connection:
                add_job(connection, f"job-{number}")
                add_event(connection, f"job-{number}", "submitted")
                if number:
                    connection.execute(jobs.update().where(jobs.c.job_id == f"job-{number - 1}").values(state="done"))
                    add_event(connection, f"job-{number - 1}", "done")
            ingest_once(ingester)
            assert ask(settings, "select job_id, state from jobs order by job_id") == [
                *((f"job-{earlier}", "done") for earlier in range(number)),
                (f"job-{number}", "queued"),
            ]


def _in_this_process(settings: Settings) -> Callable[[], str]:
    connection = duckdb.connect(settings.warehouse_file, read_only=True)

    def say() -> str:
        counts = connection.execute(_COUNTED).fetchone()
        connection.close()
        return f"{counts}\n"

    return say


def _by_another_program(settings: Settings) -> Callable[[], str]:
    """A program that knows nothing of DuckDB's locks, such as one that copies the file."""
    command = [sys.executable, "-c", _COPIER, str(settings.warehouse_file)]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "open\n"
    copy = settings.home / "copy.duckdb"

    def say() -> str:
        reader.communicate(f"{copy}\n")
        with duckdb.connect(copy, read_only=True) as connection:
            return f"{connection.execute(_COUNTED).fetchone()}\n"

    return say


@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize("read", [_in_this_process, _by_another_program])
def test_a_file_that_a_reader_has_open_is_not_written_to(
    settings: Settings, read: Callable[[Settings], Callable[[], str]]
) -> None:
    add_run(settings, "run-1")
    add_run(settings, "run-2")
    say, held = read(settings), inode(settings.warehouse_file)
    content = settings.warehouse_file.read_bytes()
    for number in (3, 4, 5):
        add_run(settings, f"run-{number}")
        assert ask(settings, "select count(*) from runs") == [(number,)]
        assert inode(settings.warehouse_file) != held or settings.warehouse_file.read_bytes() == content
    assert say() == "(4, 2, 12)\n"


@pytest.mark.usefixtures("in_turns")
def test_on_a_shared_file_system_no_file_is_written_to_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "_LOCAL_FILE_SYSTEMS", frozenset())
    seen: dict[int, bytes] = {}
    held = []
    for number in (1, 2, 3):
        add_run(settings, f"run-{number}")
        held.append(settings.warehouse_file.open("rb"))  # so that no new file gets its number
        seen[inode(settings.warehouse_file)] = settings.warehouse_file.read_bytes()
    assert len(seen) == 3
    for file, content in zip(held, seen.values(), strict=True):
        assert file.read() == content
        file.close()


def test_a_file_is_open_nowhere_once_its_last_reader_closed_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with file.open("rb"), file.open("rb"):
        assert not is_open_nowhere(file)
    assert is_open_nowhere(file)
    with file.open("rb") as mapped:
        file.write_bytes(b"x")
        view = mmap.mmap(mapped.fileno(), 0, prot=mmap.PROT_READ)
    assert not is_open_nowhere(file)
    view.close()
    assert is_open_nowhere(file)


@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET run_id = 'x'",
        "UPDATE telemetry SET t_s = 9",
        "DELETE FROM recent_requests WHERE index = 0",
        "DELETE FROM alembic_version",
    ],
)
def test_a_former_file_of_another_history_is_not_used(settings: Settings, change: str) -> None:
    add_run(settings, "run-1")
    add_run(settings, "run-2")
    former = settings.home / ".warehouse.duckdb.former"
    with duckdb.connect(former) as connection:
        assert connection.execute(change).fetchall() != [(0,)]
    changed = inode(former)
    with closing(Master(settings.master_file, settings.warehouse_file)) as master:
        assert master.connection.execute("SELECT run_id FROM runs ORDER BY 1").fetchall() == [("run-1",), ("run-2",)]
        assert inode(settings.master_file) != changed


@pytest.mark.usefixtures("in_turns")
def test_a_former_file_written_to_since_publication_is_not_used(settings: Settings) -> None:
    add_run(settings, "run-1")
    with closing(Master(settings.master_file, settings.warehouse_file)) as master:
        master.publish()
        with duckdb.connect(master.former) as connection:
            connection.execute("UPDATE telemetry SET t_s = 9")
        changed = inode(master.former)
        master.make()
        assert inode(master.file) != changed


@pytest.mark.usefixtures("in_turns")
def test_a_change_that_adds_no_run_looks_at_no_table_of_runs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at any row of them, or at their groups, costs time that grows with the runs."""
    add_run(settings, "run-1")
    looked_at: list[str] = []
    append, merge = catch_up._append, row_groups.merge_groups

    def noted_append(connection: duckdb.DuckDBPyConnection, table: str) -> None:
        looked_at.append(table)
        append(connection, table)

    def noted_merge(*arguments: Any, only_overdue: bool = False) -> bool:
        looked_at.append("groups")
        return merge(*arguments, only_overdue=only_overdue)

    monkeypatch.setattr(catch_up, "_append", noted_append)
    monkeypatch.setattr(publication, "merge_groups", noted_merge)
    with closing(Master(settings.master_file, settings.warehouse_file)) as master:
        master.publish()
        master.prepare()
        looked_at.clear()
        for error in ("a", "b", "c"):
            master.connection.execute("INSERT INTO rejected_bundles VALUES ('job/run', ?, now())", [error])
            master.publish()
            master.prepare()
        assert looked_at == []
        errors = master.connection.execute("SELECT error FROM rejected_bundles ORDER BY 1").fetchall()
        assert errors == [("a",), ("b",), ("c",)]
        master.connection.execute("INSERT INTO run_validity VALUES ('added', true, [], [])")
        master.publish()
        master.prepare()
        assert looked_at == ["groups", "run_validity", "groups"]


@pytest.mark.usefixtures("in_turns")
def test_missing_rows_are_written_with_those_of_the_next_run(settings: Settings) -> None:
    """Each checkpoint writes half a megabyte and more whatever it is for."""
    add_run(settings, "run-1")
    with closing(Master(settings.master_file, settings.warehouse_file)) as master:
        master.publish()
        for number in (1, 2, 3):
            master.connection.execute("INSERT INTO run_validity VALUES (?, true, [], [])", [f"added-{number}"])
            master.publish()
            written = master.former.stat().st_mtime_ns
            master.prepare()
            assert master.connection.execute("SELECT count(*) FROM run_validity").fetchone() == (1 + number,)
            assert (master.former.stat().st_mtime_ns, settings.master_file.exists()) == (written, False)
            assert ask(settings, "SELECT count(*) FROM run_validity") == [(1 + number,)]


@pytest.mark.usefixtures("in_turns")
def test_a_rebuilt_warehouse_does_not_use_the_former_file(settings: Settings) -> None:
    for number in (1, 2):
        add_run(settings, f"run-{number}")
    rebuild(settings)
    assert not (settings.home / ".warehouse.duckdb.former").exists()


@pytest.mark.usefixtures("in_turns")
def test_a_rebuild_killed_before_it_published_is_what_readers_get(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both files have as many rows then: by their number the published one looks like an earlier state of the new."""

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    for number in (1, 2):
        add_run(settings, f"run-{number}")
    record = settings.bundles / "job-1" / "run-1" / "run.json"
    record.write_text(record.read_text().replace('"study_name": "small"', '"study_name": "as of today"'))
    with monkeypatch.context() as patched:
        patched.setattr(Master, "publish", killed)
        with pytest.raises(Killed):
            rebuild(settings)
    with (
        open_engine(settings.app_database_url) as app,
        only_ingester(settings.home),
        open_ingester(settings, app) as ingester,
    ):
        for number in (3, 4):
            write_run(settings.bundles, run_id=f"run-{number}")
            ingest_once(ingester)
            named = ask(settings, "select study_name from runs where run_id = 'run-1'")
            assert named == [("as of today",)]


@pytest.mark.usefixtures("in_turns")
def test_an_ingester_killed_at_any_step_of_publication_continues(settings: Settings) -> None:
    add_run(settings, "run-1")
    former = settings.home / ".warehouse.duckdb.former"
    # after the link, before the master was renamed
    former.unlink()
    former.hardlink_to(settings.warehouse_file)
    shutil.copy(settings.warehouse_file, settings.master_file)
    add_run(settings, "run-2")
    # after the former file was brought up to date, before it was renamed
    with closing(Master(settings.master_file, settings.warehouse_file)) as master:
        master.make()
    settings.master_file.rename(former)
    add_run(settings, "run-3")
    # with nothing but the published file
    former.unlink()
    add_run(settings, "run-4")
    assert ask(settings, "select run_id from runs order by 1") == [(f"run-{number}",) for number in (1, 2, 3, 4)]


def test_a_master_whose_groups_were_half_merged_is_made_anew(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_groups, "RUNS_A_GROUP", 2)
    for number in (1, 2):
        add_run(settings, f"run-{number}")
    before, begun = contents(settings), list[int]()

    @contextmanager
    def second_fails(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        begun.append(1)
        with transaction(connection):
            yield
            if len(begun) == 2:
                raise OSError("the disk is full")

    with monkeypatch.context() as broken, closing(Master(settings.master_file, settings.warehouse_file)) as master:
        broken.setattr(row_groups, "transaction", second_fails)
        with pytest.raises(OSError, match="the disk is full"):
            master.prepare()
        assert not settings.master_file.exists()
        assert contents(settings) == before
    add_run(settings, "run-3")
    assert ask(settings, "select run_id from runs order by 1") == [(f"run-{number}",) for number in (1, 2, 3)]
    assert list(settings.home.glob(".*.publishing")) == []
