"""One round of the ingester: what it takes in, when it publishes, and when it tries a rejected bundle again."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from lab.errors import BundleError
from lab.metrics.measure import measure
from lab.metrics.records import RunRecord
from tests.warehouse.app_jobs import NOW, add_job
from tests.warehouse.asking import ask
from tests.warehouse.ingest.one_round import ingest_once
from tests.warehouse.runs import write_run
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import studies
from warehouse.bundles.removed import remove_job, removed_folder
from warehouse.ingest import bundle_rows, service
from warehouse.ingest.bundle_rows import add_bundles, record_rejection
from warehouse.ingest.master import only_ingester
from warehouse.ingest.service import RETRY_REJECTED_S, Ingester, SetAside, open_ingester


@pytest.fixture
def ingester(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ingester]:
    """It tries a rejected bundle again only a minute later, see `a_minute_later`, however slow the machine is."""
    monkeypatch.setattr(service, "_RETRY_AT_ONCE_S", RETRY_REJECTED_S)
    with (
        open_engine(settings.app_database_url) as app,
        only_ingester(settings.home),
        open_ingester(settings, app) as opened,
    ):
        yield opened


def publication(settings: Settings) -> int:
    """Another number after each publication: the file is replaced."""
    return settings.warehouse_file.stat().st_ino


def runs(settings: Settings) -> list[str]:
    return [run_id for (run_id,) in ask(settings, "select run_id from runs order by run_id")]


def test_it_publishes_only_what_is_new(settings: Settings, ingester: Ingester) -> None:
    assert ingester.published
    write_run(settings.bundles)
    assert ingest_once(ingester) is False
    assert (ingester.published, runs(settings)) == (True, ["run-1"])
    assert ask(settings, "select job_id, runs_judged from study_validity") == [("job-1", 1)]
    first = publication(settings)
    assert ingest_once(ingester) is False
    assert publication(settings) == first
    write_run(settings.bundles, run_id="run-2")
    ingest_once(ingester)
    assert publication(settings) != first
    assert runs(settings) == ["run-1", "run-2"]


def test_a_round_without_time_publishes_and_reports_waiting_bundles(settings: Settings, ingester: Ingester) -> None:
    write_run(settings.bundles)
    assert ingest_once(ingester, budget_s=-1.0) is True
    assert (runs(settings), ingester.published) == ([], True)
    assert ask(settings, "select * from study_validity") == []
    assert ingest_once(ingester) is False
    assert runs(settings) == ["run-1"]


def test_a_changed_job_is_published_and_an_unchanged_one_is_not(settings: Settings, ingester: Ingester) -> None:
    ingest_once(ingester)
    with open_engine(settings.app_database_url) as app, app.begin() as connection:
        add_job(connection, "job-1")
    before = publication(settings)
    ingest_once(ingester)
    after = publication(settings)
    assert after != before
    assert ask(settings, "select job_id from jobs") == [("job-1",)]
    ingest_once(ingester)
    assert publication(settings) == after


def test_a_round_in_which_nothing_happened_does_not_touch_the_master(settings: Settings, ingester: Ingester) -> None:
    write_run(settings.bundles)
    (write_run(settings.bundles, run_id="broken") / "run.json").write_text("{}")
    assert ingest_once(ingester) is ingest_once(ingester) is False
    ingester.connection.close()  # any statement would raise
    for aside in ingester.set_aside.values():
        aside.last_s += 1000
    assert ingest_once(ingester) is False
    write_run(settings.bundles, run_id="run-2")
    with pytest.raises(duckdb.ConnectionException):
        ingest_once(ingester)


def a_minute_later(ingester: Ingester) -> None:
    for aside in ingester.set_aside.values():
        aside.last_s -= RETRY_REJECTED_S


def rejected(settings: Settings) -> list[tuple[str, str]]:
    return [(path, error) for path, error in ask(settings, "select path, error from rejected_bundles order by path")]


def test_a_rejected_bundle_is_tried_again_after_a_minute(settings: Settings, ingester: Ingester) -> None:
    folder = write_run(settings.bundles)
    whole = (folder / "run.json").read_text()
    (folder / "run.json").write_text("{}")
    ingest_once(ingester)
    ((path, error),) = rejected(settings)
    assert path == "job-1/run-1"
    assert error.startswith(f"BundleError: {folder / 'run.json'} cannot be read: 1 validation error")
    assert "Traceback" not in error  # the sentence says what is wrong with the file
    before = publication(settings)
    a_minute_later(ingester)
    ingest_once(ingester)
    assert publication(settings) == before  # the same reason again is nothing new
    (folder / "run.json").write_text(whole)
    ingest_once(ingester)
    assert runs(settings) == []
    a_minute_later(ingester)
    ingest_once(ingester)
    assert (runs(settings), ingester.set_aside) == (["run-1"], {})
    assert rejected(settings) == []


@pytest.mark.parametrize(
    ("failing_for_s", "pause_s"), [(0.0, 1.0), (0.5, 1.0), (4.0, 4.0), (59.0, 59.0), (61.0, 60.0), (1e6, 60.0)]
)
def test_a_rejected_bundle_is_tried_soon_and_then_every_minute(failing_for_s: float, pause_s: float) -> None:
    aside = SetAside("broken", first_s=100.0, last_s=100.0 + failing_for_s)
    assert not aside.is_due(aside.last_s + pause_s - 0.01)
    assert aside.is_due(aside.last_s + pause_s)


def test_a_bundle_is_ingested_once_when_all_its_files_are_there(settings: Settings, ingester: Ingester) -> None:
    """As on a network's file system, which may show files late and in any order."""
    bundle = write_run(settings.bundles)
    hidden = settings.home / "hidden"
    bundle.rename(hidden)
    bundle.mkdir()
    ingest_once(ingester)
    assert (runs(settings), rejected(settings)) == ([], [])  # without a run.json it is no bundle yet
    for name in ("run.json", "engine.log", "telemetry.parquet", "requests.parquet"):
        assert runs(settings) == []
        (hidden / name).rename(bundle / name)
        a_minute_later(ingester)
        ingest_once(ingester)
    assert (runs(settings), rejected(settings)) == (["run-1"], [])
    ingest_once(ingester)
    assert ask(settings, "select count(*) from requests") == [(1,)]


def test_an_unexpected_error_sets_one_bundle_aside_with_its_traceback(
    settings: Settings, ingester: Ingester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("a", "b", "c"):
        write_run(settings.bundles, run_id=run_id)

    empty: dict[str, Any] = {}

    def with_a_bug(run: RunRecord, *others: Any) -> Any:
        return empty["nothing"] if run.run_id == "b" else measure(run, *others)

    with monkeypatch.context() as patched:
        patched.setattr(bundle_rows, "measure", with_a_bug)
        ingest_once(ingester)
    assert runs(settings) == ["a", "c"]
    ((path, error),) = rejected(settings)
    assert (path, error.splitlines()[0]) == ("job-1/b", "KeyError: 'nothing'")
    assert error.splitlines()[1] == "Traceback (most recent call last):"
    assert 'return empty["nothing"]' in error
    a_minute_later(ingester)
    ingest_once(ingester)
    assert (runs(settings), rejected(settings)) == (["a", "b", "c"], [])


def test_a_job_that_cannot_be_judged_is_set_aside_alone(settings: Settings, ingester: Ingester) -> None:
    study = {"name": "small", "toml": "", "created_at": NOW}
    with open_engine(settings.app_database_url) as app, app.begin() as connection:
        connection.execute(studies.insert().values(study_id="broken", json="no JSON", **study))
    for number, study_id in enumerate(("0", "broken", "2")):
        write_run(settings.bundles, job_id=f"job-{number}", run_id=f"run-{number}", study_id=study_id)
    ingest_once(ingester)
    judged = "select job_id from study_validity order by job_id"
    assert runs(settings) == ["run-0", "run-1", "run-2"]
    assert ask(settings, judged) == [("job-0",), ("job-2",)]
    ((job_id, error),) = rejected(settings)
    assert job_id == "job-1"
    assert "no JSON" in error.splitlines()[0]
    assert "Traceback (most recent call last):" in error
    before = publication(settings)
    ingest_once(ingester)
    assert publication(settings) == before  # it waits, as a bundle does
    ingester.connection.execute("UPDATE studies SET json = '{}' WHERE study_id = 'broken'")
    a_minute_later(ingester)
    ingest_once(ingester)
    assert (ask(settings, judged), rejected(settings)) == ([("job-0",), ("job-1",), ("job-2",)], [])


def test_what_is_taken_away_is_no_longer_named(settings: Settings, ingester: Ingester) -> None:
    folder = write_run(settings.bundles)
    (folder / "run.json").write_text("{}")
    ingest_once(ingester)
    assert [path for path, _ in rejected(settings)] == ["job-1/run-1"]
    shutil.rmtree(folder)
    ingest_once(ingester)
    assert (rejected(settings), ingester.set_aside) == ([], {})


def test_results_removed_within_one_tick_of_the_clock_are_all_forgotten(settings: Settings, ingester: Ingester) -> None:
    for job_id in ("first", "second", "stays"):
        write_run(settings.bundles, job_id=job_id, run_id=job_id)
    ingest_once(ingester)
    tick_ns = (NOW + timedelta(days=36500)).timestamp() * 10**9  # so that no test is too slow for it
    for job_id, left in (("first", ["second", "stays"]), ("second", ["stays"])):
        remove_job(settings.bundles, job_id)
        os.utime(removed_folder(settings.bundles), ns=(int(tick_ns), int(tick_ns)))
        ingest_once(ingester)
        assert runs(settings) == left


def test_a_bundle_that_breaks_the_master_is_set_aside_after_reopening(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else it would be the next one for ever, and so would those that are ingested with it. DuckDB cannot be made to
    fail so on demand.
    """
    for run_id in ("a", "b"):
        write_run(settings.bundles, run_id=run_id)
    stop, tried = threading.Event(), []

    def failing(connection: duckdb.DuckDBPyConnection, root: Path, folders: Iterable[Path]) -> dict[Path, BundleError]:
        names = [folder.name for folder in folders]
        tried.append(names)
        if len(tried) > 9:
            pytest.fail(f"tried in vain: {tried}")
        if "a" in names:
            raise duckdb.InternalException("INTERNAL Error: assertion failed")
        stop.set()
        return add_bundles(connection, root, folders)

    monkeypatch.setattr(service, "add_bundles", failing)
    monkeypatch.setattr(service, "RETRY_S", 0.0)
    monkeypatch.setattr(service, "_RETRY_AT_ONCE_S", 0.1)
    service.run(settings, stop)
    assert runs(settings) == ["b"]
    assert tried[0] == ["a", "b"]
    ((path, error),) = rejected(settings)
    assert (path, error.splitlines()[0]) == ("job-1/a", "InternalException: INTERNAL Error: assertion failed")
    sentence = (
        "ingesting job-1/a, job-1/b failed: INTERNAL Error: assertion failed. Nothing is lost; trying again in 0 s"
    )
    (failed,) = (record for record in caplog.records if record.getMessage() == sentence)
    assert failed.exc_info  # its traceback is in the log


def test_a_rejection_is_recorded_with_its_moment_and_replaced_by_another(ingester: Ingester) -> None:
    connection, query = ingester.connection, "SELECT path, error, rejected_at FROM rejected_bundles ORDER BY path"
    assert record_rejection(connection, "job/a", "broken") is True
    assert record_rejection(connection, "job/b", "broken") is True
    assert record_rejection(connection, "job/a", "broken") is False
    assert record_rejection(connection, "job/a", "gone") is True
    rows = connection.execute(query).fetchall()
    assert [row[:2] for row in rows] == [("job/a", "gone"), ("job/b", "broken")]
    assert all(abs((datetime.now(UTC) - row[2]).total_seconds()) < 3600 for row in rows)
