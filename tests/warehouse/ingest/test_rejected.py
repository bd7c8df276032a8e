"""An invalid bundle is recorded with the reason and does not stop the others."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.warehouse.asking import ask
from tests.warehouse.runs import write_run
from warehouse.bundles.run_bundle import find_bundles
from warehouse.ingest.service import ingest_all
from warehouse.settings import Settings


def test_a_broken_bundle_is_recorded_and_does_not_stop_the_others(settings: Settings) -> None:
    folder = write_run(settings.bundles, run_id="broken")
    (folder / "requests.parquet").write_bytes(b"no parquet")
    write_run(settings.bundles, run_id="whole")
    ingest_all(settings)
    assert ask(settings, "select run_id from runs") == [("whole",)]
    [(path, error)] = ask(settings, "select path, error from rejected_bundles")
    assert path == "job-1/broken"
    assert "requests.parquet cannot be read" in error


def test_a_repaired_bundle_is_ingested_by_the_next_ingester(settings: Settings) -> None:
    folder = write_run(settings.bundles)
    whole = (folder / "run.json").read_text()
    (folder / "run.json").write_text(whole[:-20])
    ingest_all(settings)
    (folder / "run.json").write_text(whole)
    ingest_all(settings)
    assert len(ask(settings, "select * from runs")) == 1
    assert ask(settings, "select * from rejected_bundles") == []


def test_a_copied_bundle_is_not_counted_twice(settings: Settings) -> None:
    folder = write_run(settings.bundles)
    shutil.copytree(folder, folder.with_name("copy"))
    ingest_all(settings)
    assert len(ask(settings, "select * from runs")) == 1
    assert "was it copied or renamed?" in ask(settings, "select error from rejected_bundles")[0][0]


def test_the_same_run_in_another_job_is_refused(settings: Settings) -> None:
    write_run(settings.bundles)
    write_run(settings.bundles, job_id="job-2")
    ingest_all(settings)
    assert ask(settings, "select job_id from results where origin = 'measured'") == [("job-1",)]
    assert "the warehouse refuses it" in ask(settings, "select error from rejected_bundles")[0][0]


@pytest.mark.parametrize("changes", [{"started_at": "2026-11-21T04:00:00"}, {"started_at": "yesterday"}])
def test_an_invalid_start_is_refused(settings: Settings, changes: dict[str, Any]) -> None:
    write_run(settings.bundles, **changes)
    ingest_all(settings)
    assert "ValueError" in ask(settings, "select error from rejected_bundles")[0][0]


def test_folders_still_being_written_are_skipped(settings: Settings) -> None:
    folder = write_run(settings.bundles)
    folder.rename(folder.with_name(".writing-run-1-0badcafe"))
    assert list(find_bundles(settings.bundles)) == []
