"""One round of the ingester: what it takes in, when it publishes, and when it tries a rejected bundle again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.warehouse.app_jobs import add_job
from tests.warehouse.asking import ask
from tests.warehouse.runs import write_run
from warehouse.app_db.engine import app_engine
from warehouse.ingest.bundle_rows import record_rejection
from warehouse.ingest.master import only_ingester
from warehouse.ingest.service import RETRY_REJECTED_S, Ingester, ingest_once, open_ingester
from warehouse.settings import Settings


@pytest.fixture
def ingester(settings: Settings) -> Iterator[Ingester]:
    app = app_engine(settings.app_database_url)
    with only_ingester(settings.home), open_ingester(settings, app) as opened:
        yield opened
    app.dispose()


def publication(settings: Settings) -> int:
    """Another number after each publication: the file is replaced."""
    return settings.warehouse_file.stat().st_ino


def runs(settings: Settings) -> list[str]:
    return [run_id for (run_id,) in ask(settings, "select run_id from runs order by run_id")]


def test_it_publishes_at_first_and_then_only_what_is_new(settings: Settings, ingester: Ingester) -> None:
    write_run(settings.bundles)
    assert not ingester.published
    assert ingest_once(ingester) is False
    assert (ingester.published, runs(settings)) == (True, ["run-1"])
    assert ask(settings, "select job_id, runs_judged from study_verdicts") == [("job-1", 1)]
    first = publication(settings)
    assert ingest_once(ingester) is False
    assert publication(settings) == first
    write_run(settings.bundles, run_id="run-2")
    ingest_once(ingester)
    assert publication(settings) != first
    assert runs(settings) == ["run-1", "run-2"]


def test_a_round_that_has_no_time_left_publishes_and_says_that_more_is_waiting(
    settings: Settings, ingester: Ingester
) -> None:
    write_run(settings.bundles)
    assert ingest_once(ingester, budget_s=-1.0) is True
    assert (runs(settings), ingester.published) == ([], True)
    assert ask(settings, "select * from study_verdicts") == []
    assert ingest_once(ingester, budget_s=60.0) is False
    assert runs(settings) == ["run-1"]


def test_a_changed_job_is_published_and_an_unchanged_one_is_not(settings: Settings, ingester: Ingester) -> None:
    ingest_once(ingester)
    with ingester.app.begin() as connection:
        add_job(connection, "job-1")
    before = publication(settings)
    ingest_once(ingester)
    after = publication(settings)
    assert after != before
    assert ask(settings, "select job_id from jobs") == [("job-1",)]
    ingest_once(ingester)
    assert publication(settings) == after


def test_a_rejected_bundle_is_tried_again_after_a_minute(settings: Settings, ingester: Ingester) -> None:
    folder = write_run(settings.bundles)
    whole = (folder / "run.json").read_text()
    (folder / "run.json").write_text("{}")
    ingest_once(ingester)
    ((path, error),) = ask(settings, "select path, error from rejected_bundles")
    assert path == "job-1/run-1"
    assert error.startswith(f"BundleError: {folder / 'run.json'} cannot be read: 1 validation error")
    rejected = publication(settings)
    ingester.rejected_at[path] = time.monotonic() - RETRY_REJECTED_S - 1
    ingest_once(ingester)
    assert publication(settings) == rejected  # the same reason again is nothing new
    assert time.monotonic() - ingester.rejected_at[path] < RETRY_REJECTED_S
    (folder / "run.json").write_text(whole)
    ingest_once(ingester)
    assert runs(settings) == []
    ingester.rejected_at[path] = time.monotonic() - RETRY_REJECTED_S - 1
    ingest_once(ingester)
    assert (runs(settings), ingester.rejected_at) == (["run-1"], {})
    assert ask(settings, "select * from rejected_bundles") == []


def test_a_rejection_is_recorded_with_its_moment_and_replaced_by_another(ingester: Ingester) -> None:
    connection, query = ingester.connection, "SELECT path, error, rejected_at FROM rejected_bundles ORDER BY path"
    assert record_rejection(connection, "job/a", "broken") is True
    assert record_rejection(connection, "job/b", "broken") is True
    assert record_rejection(connection, "job/a", "broken") is False
    assert record_rejection(connection, "job/a", "gone") is True
    rows = connection.execute(query).fetchall()
    assert [row[:2] for row in rows] == [("job/a", "gone"), ("job/b", "broken")]
    assert all(abs((datetime.now(UTC) - row[2]).total_seconds()) < 3600 for row in rows)
