"""Every bundle is ingested exactly once, or recorded with the reason why it is invalid."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from host.settings import Settings
from tests.warehouse.app_jobs import NOW, add_job
from tests.warehouse.asking import ask, contents
from tests.warehouse.ingest.one_round import ingest_once
from tests.warehouse.runs import (
    BASELINE_ARM,
    counters,
    failed_request,
    request,
    run_record,
    write_run,
)
from warehouse.app_db import schema
from warehouse.app_db.engine import app_engine, open_engine
from warehouse.bundles.run_bundle import REQUESTS_FILE
from warehouse.ingest import bundle_rows
from warehouse.ingest.bundle_rows import add_bundles, batches
from warehouse.ingest.master import connect_master, only_ingester
from warehouse.ingest.service import ingest_all, open_ingester


def test_a_run_is_in_the_view_with_its_environment_and_metrics(settings: Settings) -> None:
    after = counters(num_drafts=4, num_draft_tokens=12, num_accepted_tokens=6)
    write_run(settings.bundles, counters_before=counters(), counters_after=after)
    ingest_all(settings)
    wanted = (
        "arm, method, num_speculative_tokens, pattern, output_tok_per_s, acceptance_rate, started_at, engine_start_s"
    )
    [row] = ask(settings, f"select {wanted} from results where origin = 'measured'")
    assert row[:4] == ("draft", "draft_model", 3, "c1-n2")
    assert row[4:6] == (pytest.approx(4 / 0.6), 0.5)
    assert (row[6].isoformat(), row[7]) == ("2026-11-21T04:00:00+00:00", 30.0)


def test_an_arm_without_speculation_has_the_method_none(settings: Settings) -> None:
    write_run(settings.bundles, arm=BASELINE_ARM, is_baseline=True)
    ingest_all(settings)
    assert ask(
        settings, "select method, draft_model, num_speculative_tokens from results where origin = 'measured'"
    ) == [("none", None, None)]


def test_each_request_is_in_the_view_with_its_latencies(settings: Settings) -> None:
    write_run(settings.bundles, (request(), failed_request(index=1)))
    ingest_all(settings)
    rows = ask(settings, "select arm, ttft_ms, ttft_from_intended_ms, tpot_ms, error from requests order by index")
    assert rows[0] == ("draft", *map(pytest.approx, (100.0, 200.0, 100.0)), None)
    assert rows[1] == ("draft", None, None, None, "connection reset")
    assert ask(settings, "select chunk_s, chunk_tokens from requests")[0] == ([0.2, 0.4, 0.5], [1, 2, 1])


def test_ingesting_again_changes_nothing(settings: Settings) -> None:
    for number in range(3):
        write_run(settings.bundles, run_id=f"run-{number}")
    ingest_all(settings)
    once = contents(settings)
    ingest_all(settings)
    assert contents(settings) == once
    assert len(once["runs"]) == len(once["run_metrics"]) == 3


def test_hostile_texts_are_stored_unchanged(settings: Settings) -> None:
    hostile = "<script>alert('x')</script>'; DROP TABLE runs; -- {\"a\": 1} %s \\ \U0001f600"
    long = "x" * 2**20
    write_run(
        settings.bundles,
        (request(prompt=hostile, output_text=long, category=hostile),),
        study_name=hostile[:200],
        target=hostile[:200],
        run_id="'; drop table runs",
    )
    ingest_all(settings)
    assert ask(settings, "select study_name, target, run_id from results where origin = 'measured'") == [
        (hostile, hostile, "'; drop table runs")
    ]
    assert ask(settings, "select prompt, output_text, category from requests") == [(hostile, long, hostile)]


def test_of_bundles_ingested_together_only_faulty_ones_are_rejected(settings: Settings) -> None:
    for job_id, run_id in (("a", "one"), ("a", "two"), ("b", "one"), ("b", "broken"), ("c", "three")):
        write_run(settings.bundles, job_id=job_id, run_id=run_id)
    (settings.bundles / "b" / "broken" / REQUESTS_FILE).write_bytes(b"PAR1")
    ingest_all(settings)
    assert ask(settings, "select job_id, run_id from runs order by all") == [("a", "one"), ("a", "two"), ("c", "three")]
    assert ask(settings, "select count(*) from request_records") == [(3,)]
    (broken, second) = ask(settings, "select path, error from rejected_bundles order by path")
    assert (broken[0], "requests.parquet cannot be read" in broken[1]) == ("b/broken", True)
    assert second[0] == "b/one"
    assert "it has the run one of job a already" in second[1]


def test_few_and_small_bundles_are_ingested_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [write_run(tmp_path, run_id=f"run-{number}") for number in range(5)]
    (tmp_path / "without requests").mkdir()
    monkeypatch.setattr(bundle_rows, "_MOST_TOGETHER", 3)
    assert list(batches([tmp_path / "without requests", *folders])) == [
        [tmp_path / "without requests", *folders[:2]],
        folders[2:],
    ]
    size_bytes = (folders[0] / REQUESTS_FILE).stat().st_size
    monkeypatch.setattr(bundle_rows, "_MOST_BYTES_TOGETHER", int(2.5 * size_bytes))
    assert list(map(len, batches(folders))) == [2, 2, 1]
    monkeypatch.setattr(bundle_rows, "_MOST_BYTES_TOGETHER", size_bytes // 2)
    assert list(map(len, batches(folders))) == [1] * 5


def test_studies_and_jobs_are_replicated_and_updated(settings: Settings) -> None:
    engine = app_engine(settings.app_database_url)
    with engine.begin() as connection:
        add_job(connection, "job-1")
    ingest_all(settings)
    assert ask(settings, "select job_id, state, submitted_at from jobs") == [("job-1", "queued", NOW)]
    with engine.begin() as connection:
        connection.execute(schema.jobs.update().values(state="done", finished_at=NOW))
    ingest_all(settings)
    assert ask(settings, "select state, finished_at from jobs") == [("done", NOW)]
    assert ask(settings, "select name from studies") == [("small",)]


def test_ingesting_a_long_run_costs_less_than_forty_times_reading_its_requests(settings: Settings) -> None:
    """Both in processor time of this process, because seconds depend on the machine; it is about eleven times."""
    chunks = tuple(0.2 + 0.01 * number for number in range(200))
    requests = tuple(
        request(index=number, chunk_s=chunks, chunk_tokens=(2,) * 200, end_s=9.0, completion_tokens=400)
        for number in range(1000)
    )
    folder = write_run(settings.bundles, requests)
    with connect_master(settings.master_file) as connection:
        read_s = _processor_time_s(lambda: pq.read_table(folder / REQUESTS_FILE).to_pylist(), times=10)
        ingest_s = _processor_time_s(lambda: add_bundles(connection, settings.bundles, [folder]), times=1)
        assert ingest_s < 40 * read_s
        assert connection.execute("select sum(len(chunk_s)) from request_records").fetchone() == (200_000,)


def _processor_time_s(work: Callable[[], object], times: int) -> float:
    """Mean processor time of doing it once."""
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times


def test_the_json_columns_hold_the_complete_record(settings: Settings) -> None:
    write_run(settings.bundles, counters_before=counters(num_drafts=3))
    ingest_all(settings)
    [(arm, before, command)] = ask(settings, "select arm_json, counters_before_json, command_json from runs")
    assert json.loads(arm) == run_record().arm.model_dump(mode="json")
    assert json.loads(before)["num_drafts"] == 3
    assert json.loads(command) == ["vllm", "serve"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("ALTER TABLE jobs RENAME TO gone", "the app database cannot be read"),
        (
            "UPDATE alembic_version SET version_num = 'app_9999'",
            "Bundles are ingested, but jobs in the warehouse are not up to date",
        ),
    ],
    ids=["away", "migrated by a newer release"],
)
def test_bundles_are_ingested_without_the_app_database_which_is_said_once(
    settings: Settings, caplog: pytest.LogCaptureFixture, change: str, sentence: str
) -> None:
    with (
        open_engine(settings.app_database_url) as app,
        only_ingester(settings.home),
        open_ingester(settings, app) as ingester,
    ):
        with app.begin() as connection:
            connection.execute(sa.text(change))
        for number in range(3):
            write_run(settings.bundles, run_id=f"run-{number}")
            ingest_once(ingester)
    assert ask(settings, "select count(*) from runs") == [(3,)]
    assert len([record for record in caplog.records if sentence in record.message]) == 1


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


@pytest.mark.parametrize("changes", [{"started_at": "2026-11-21T04:00:00"}, {"started_at": "yesterday"}])
def test_an_invalid_start_is_refused(settings: Settings, changes: dict[str, Any]) -> None:
    write_run(settings.bundles, **changes)
    ingest_all(settings)
    assert "ValueError" in ask(settings, "select error from rejected_bundles")[0][0]
