"""Archived requests leave the warehouse's file and are read as before."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from lab.errors import DrafthouseError, QueryError, UserError
from tests.warehouse.asking import ask, contents
from tests.warehouse.runs import failed_request, request, write_run
from warehouse.bundles.removed import remove_job, restore_job
from warehouse.ingest import archive as archiving
from warehouse.ingest.archive import Month, archive, old_months
from warehouse.ingest.master import only_ingester
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.queries.point_in_time import as_of
from warehouse.queries.results import whole_requests
from warehouse.sandbox.runner import run_sql

JULY, AUGUST, SEPTEMBER = (datetime(2026, month, 9, 12, tzinfo=UTC) for month in (7, 8, 9))
BEFORE = datetime(2026, 9, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def once(shared: Settings) -> Settings:
    for run_id, began in (("july", JULY), ("august", AUGUST), ("august-2", AUGUST), ("september", SEPTEMBER)):
        requests = (request(output_text=run_id), failed_request(index=1))
        write_run(shared.bundles, requests, run_id=run_id, started_at=began.isoformat())
    ingest_all(shared)
    return shared


@pytest.fixture
def filled(once: Settings, tmp_path: Path) -> Settings:
    return Settings(home=shutil.copytree(once.home, tmp_path / "home"))


def everything(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    tables = contents(settings)
    del tables["archived_runs"], tables["recent_requests"]
    return tables | {
        "requests": ask(settings, "SELECT * FROM requests ORDER BY ALL"),
        "request_records": ask(settings, "SELECT * FROM request_records ORDER BY ALL"),
    }


def files(settings: Settings) -> list[str]:
    return sorted(path.name[:16] for path in settings.archive_dir.iterdir())


def test_every_reader_finds_archived_requests_in_a_file_for_each_month(filled: Settings) -> None:
    before = everything(filled)
    with open_warehouse(filled.warehouse_file) as connection:
        frame = whole_requests(connection, "july")
    assert archive(filled, BEFORE) == [Month("2026-07", 1, 2), Month("2026-08", 2, 4)]
    assert files(filled) == ["requests-2026-07", "requests-2026-08"]
    assert ask(filled, "SELECT DISTINCT run_id FROM recent_requests") == [("september",)]
    assert [run_id for (run_id,) in ask(filled, "SELECT run_id FROM archived_runs ORDER BY 1")] == [
        *("august", "august-2", "july"),
    ]
    assert everything(filled) == before
    with open_warehouse(filled.warehouse_file) as connection:
        assert whole_requests(connection, "july").equals(frame)
    with duckdb.connect(filled.warehouse_file, read_only=True) as anybody:
        assert anybody.execute("SELECT count(*) FROM requests").fetchone() == (8,)


def test_archived_requests_are_read_at_a_point_in_time_and_sandboxed(filled: Settings) -> None:
    archive(filled, BEFORE)
    query = "SELECT DISTINCT run_id FROM request_records ORDER BY 1"
    with as_of(datetime(2026, 8, 1, tzinfo=UTC)):
        assert ask(filled, query) == [("july",)]
        assert run_sql(filled, query).rows() == [["july"]]
    assert run_sql(filled, "SELECT count(*), count(DISTINCT run_id) FROM requests").rows() == [[8, 4]]
    (file,) = filled.archive_dir.glob("*2026-07*")
    other = file.with_name("other.parquet")
    other.write_bytes(file.read_bytes())
    for path in (other, filled.master_file, Path("/etc/passwd")):
        with pytest.raises(QueryError, match=r"disabled by configuration|cannot be read here"):
            run_sql(filled, f"SELECT * FROM read_text('{path}')")


def test_later_runs_are_ingested_and_archived_into_further_files(filled: Settings) -> None:
    archive(filled, datetime(2026, 8, 1, tzinfo=UTC))
    assert archive(filled, datetime(2026, 8, 1, tzinfo=UTC)) == []
    write_run(filled.bundles, run_id="late", started_at=JULY.isoformat())
    ingest_all(filled)
    before = everything(filled)
    assert archive(filled, BEFORE) == [Month("2026-07", 1, 1), Month("2026-08", 2, 4)]
    assert files(filled) == ["requests-2026-07", "requests-2026-07", "requests-2026-08"]
    assert everything(filled) == before


def test_requests_have_the_same_columns_when_all_are_archived(filled: Settings) -> None:
    before, described = everything(filled), "SELECT column_name, column_type FROM (DESCRIBE request_records)"
    columns = ask(filled, described)
    archive(filled, datetime(2027, 1, 1, tzinfo=UTC))
    assert ask(filled, "SELECT count(*) FROM recent_requests") == [(0,)]
    assert (everything(filled), ask(filled, described)) == (before, columns)


def test_a_rebuilt_warehouse_has_everything_from_the_bundles_and_needs_no_archive(filled: Settings) -> None:
    before = everything(filled)
    archive(filled, BEFORE)
    rebuild(filled)
    for file in filled.archive_dir.iterdir():
        file.unlink()
    assert everything(filled) == before
    assert ask(filled, "SELECT * FROM archived_runs") == []


def test_a_file_that_does_not_read_back_equal_moves_nothing(filled: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(filled)
    monkeypatch.setattr(archiving, "_SUM", "SELECT count(*), random() FROM ({}) AS found")
    with pytest.raises(DrafthouseError, match="reads back differently: nothing was moved"):
        archive(filled, BEFORE)
    assert files(filled) == []
    monkeypatch.undo()
    ingest_all(filled)
    assert everything(filled) == before


def test_killed_before_the_new_master_takes_its_place_it_has_moved_nothing(
    filled: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    before = everything(filled)
    for step in ("_copy_the_rest", "publish_instead"):
        with monkeypatch.context() as patched:
            patched.setattr(archiving, step, killed)
            with pytest.raises(Killed):
                archive(filled, BEFORE)
        ingest_all(filled)
        assert everything(filled) == before
        assert ask(filled, "SELECT * FROM archived_runs") == []
    archive(filled, BEFORE)
    assert everything(filled) == before
    assert ask(filled, "SELECT DISTINCT run_id FROM recent_requests") == [("september",)]


def test_the_file_shrinks_and_an_ingester_at_work_is_not_disturbed(filled: Settings) -> None:
    text = "".join(map(chr, range(1000, 50_000)))
    requests = tuple(request(index=number, output_text=f"{number}{text}") for number in range(30))
    write_run(filled.bundles, requests, run_id="x", started_at=JULY.isoformat())
    ingest_all(filled)
    size = filled.warehouse_file.stat().st_size
    with only_ingester(filled.home), pytest.raises(UserError, match="an ingester already runs"):
        archive(filled, BEFORE)
    archive(filled, BEFORE)
    assert filled.warehouse_file.stat().st_size < size - 1_000_000


def test_an_archived_run_that_is_removed_and_restored_has_each_request_once(filled: Settings) -> None:
    write_run(filled.bundles, run_id="other", job_id="job-2", started_at=JULY.isoformat())
    ingest_all(filled)
    before, count = everything(filled), "SELECT count(*) FROM request_records WHERE run_id = 'other'"
    archive(filled, BEFORE)
    remove_job(filled.bundles, "job-2")
    ingest_all(filled)
    assert ask(filled, count) == [(0,)]
    restore_job(filled.bundles, "job-2")
    ingest_all(filled)
    assert everything(filled) == before
    archive(filled, BEFORE)
    assert everything(filled) == before


def test_only_runs_with_a_known_begin_are_old(filled: Settings) -> None:
    with open_warehouse(filled.warehouse_file) as connection:
        assert old_months(connection, JULY) == []
        assert old_months(connection, BEFORE) == [Month("2026-07", 1, 2), Month("2026-08", 2, 4)]
