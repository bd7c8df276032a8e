"""Each question's answer, computed by hand from a small job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from lab.metrics.records import TelemetrySample
from lab.study import Load, Workload
from tests.warehouse.runs import counters, ingested, request, run_record, write_at_rate
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.service import ingest_all
from warehouse.queries import results as queries
from warehouse.queries.connect import open_warehouse

#: The server's counters after a run of 60 tokens, and after one of 50.
FIRST_COUNTERS: dict[str, Any] = {
    "generation_tokens": 60,
    "num_draft_tokens": 30,
    "num_accepted_tokens": 15,
    "num_drafts": 10,
    "num_accepted_tokens_per_position": (9, 4, 2),
}
SECOND_COUNTERS: dict[str, Any] = {
    "generation_tokens": 50,
    "num_draft_tokens": 90,
    "num_accepted_tokens": 30,
    "num_drafts": 30,
    "num_accepted_tokens_per_position": (15, 9, 6),
}


@pytest.fixture(scope="module")
def con(shared: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """Two repeats of a baseline and a draft arm, a failed run, and a run of another job."""
    write_at_rate(shared, "base", 0, 40)
    write_at_rate(shared, "base", 1, 50)
    write_at_rate(shared, "draft", 0, 60, counters_before=counters(), counters_after=counters(**FIRST_COUNTERS))
    write_at_rate(shared, "draft", 1, 50, counters_before=counters(), counters_after=counters(**SECOND_COUNTERS))
    write_at_rate(shared, "draft", 2, 99, run_id="broken", status="failed", error="the engine died")
    write_at_rate(shared, "draft", 0, 10, run_id="elsewhere", job_id="job-0", started_at="2026-11-20T00:00:00+00:00")
    with ingested(shared) as connection:
        yield connection


def test_only_the_last_valid_attempt_at_a_cell_counts(settings: Settings) -> None:
    runs = {
        "first": {"cell_key": "k", "attempt": 0},
        "last valid": {"cell_key": "k", "attempt": 1},
        "failed": {"cell_key": "k", "attempt": 2, "status": "failed", "error": "the engine died"},
        "invalid": {"cell_key": "k", "attempt": 3},
        "another cell": {"cell_key": "l", "attempt": 0},
        "another job": {"cell_key": "k", "attempt": 0, "job_id": "job-2"},
    }
    for run_id, changes in runs.items():
        write_at_rate(settings, "draft", 0, 10, run_id=run_id, **changes)
    ingest_all(settings)
    with duckdb.connect(settings.warehouse_file) as warehouse:
        warehouse.execute("UPDATE run_validity SET is_valid = run_id <> 'invalid'")
    with open_warehouse(settings.warehouse_file) as con:
        run_ids = con.execute(
            "SELECT run_id FROM valid_latest_runs WHERE origin = 'measured' ORDER BY run_id"
        ).fetchall()
    assert [run_id for (run_id,) in run_ids] == ["another cell", "another job", "last valid"]


def test_of_several_attempts_at_a_cell_one_is_counted(settings: Settings) -> None:
    failed: dict[str, object] = {"status": "failed", "error": "the engine died"}
    attempts: dict[str, list[tuple[str, dict[str, object]]]] = {
        "completed again": [("a0", {}), ("a1", {})],
        "failed at last": [("b0", {}), ("b1", failed)],
        "invalid at last": [("c0", {}), ("c1", {})],
        "only invalid": [("d0", {}), ("d1", {})],
        "only failed": [("e0", failed), ("e1", failed)],
    }
    for cell, runs in attempts.items():
        for attempt, (run_id, changes) in enumerate(runs):
            write_at_rate(settings, "draft", 0, 10, run_id=run_id, cell_key=cell, attempt=attempt, **changes)
    ingest_all(settings)
    with duckdb.connect(settings.warehouse_file) as warehouse:
        warehouse.execute("UPDATE run_validity SET is_valid = run_id NOT IN ('c1', 'd0', 'd1')")
    with open_warehouse(settings.warehouse_file) as con:
        runs_of = queries.results(con, "job-1")
        (job,) = queries.jobs_with_results(con).to_dict("records")
    assert runs_of.loc[runs_of["is_counted"], "run_id"].tolist() == ["a1", "b0", "c0", "d1", "e1"]
    assert (job["runs_completed"], job["runs_invalid"], job["runs_failed"]) == (4, 1, 1)


def test_a_run_has_its_workloads_label_and_its_loop(settings: Settings) -> None:
    workload = Workload(category="code", output_tokens=16)
    loads = {
        "a": Load(max_concurrency=1, num_prompts=1),
        "b": Load(request_rate_rps=2.0, max_concurrency=1, num_prompts=1),
    }
    for run_id, load in loads.items():
        write_at_rate(settings, "draft", 0, 10, run_id=run_id, workload=workload, load=load)
    with ingested(settings) as con:
        rows = con.execute(
            "SELECT run_id, workload_label, closed_loop FROM results WHERE origin = 'measured' ORDER BY 1"
        )
        assert rows.fetchall() == [("a", workload.name, True), ("b", workload.name, False)]


def test_the_acceptance_by_position_leaves_out_a_superseded_attempt(settings: Settings) -> None:
    for attempt, after in enumerate((FIRST_COUNTERS, SECOND_COUNTERS)):
        names: dict[str, Any] = {"run_id": f"attempt {attempt}", "cell_key": "k", "attempt": attempt}
        tokens = after["generation_tokens"]
        write_at_rate(
            settings, "draft", 0, tokens, counters_before=counters(), counters_after=counters(**after), **names
        )
    with ingested(settings) as con:
        positions = queries.acceptance_per_position(con, "job-1")
    assert positions["acceptance"].tolist() == pytest.approx([15 / 30, 9 / 30, 6 / 30])


def test_acceptance_per_position_is_pooled_by_drafts(con: duckdb.DuckDBPyConnection) -> None:
    positions = queries.acceptance_per_position(con, "job-1")
    assert positions["position"].tolist() == [1, 2, 3]
    assert positions["acceptance"].tolist() == pytest.approx([24 / 40, 13 / 40, 8 / 40])
    assert positions["num_drafts"].tolist() == [40, 40, 40]


def test_jobs_with_results_are_counted_newest_first(con: duckdb.DuckDBPyConnection) -> None:
    listed = queries.jobs_with_results(con)
    assert listed["job_id"].tolist() == ["job-1", "job-0"]
    assert listed[["runs_completed", "runs_invalid", "runs_failed"]].to_numpy().tolist() == [[4, 0, 1], [1, 0, 0]]
    assert listed["is_comparison"].tolist() == [True, False]
    assert listed[["origin", "is_in_queue"]].to_numpy().tolist() == [["measured", False]] * 2
    assert listed["submitted_at"].iloc[1].isoformat() == "2026-11-20T00:00:00+00:00"


def test_results_are_those_of_one_job(con: duckdb.DuckDBPyConnection) -> None:
    assert len(queries.results(con, "job-1")) == 5
    assert queries.results(con, "'; drop table runs; --").empty


def test_a_failed_run_has_its_reason_and_unknown_numbers(con: duckdb.DuckDBPyConnection) -> None:
    assert queries.failed_runs(con, "job-1")["error"].tolist() == ["the engine died"]
    row = queries.results(con, "job-1").set_index("run_id").loc["broken"]
    assert row[["output_tok_per_s", "ttft_p50_ms", "acceptance_rate"]].isna().all()


def test_the_history_says_what_earlier_runs_took(con: duckdb.DuckDBPyConnection) -> None:
    history = queries.run_seconds(con)
    assert history["runs"].sum() == 5
    assert set(history["run_s"]) == {2.0}


def test_the_samples_of_a_run_are_given_in_the_order_of_time(settings: Settings) -> None:
    samples = [TelemetrySample(t_s, 0.1, 1, 0, 0, gpu_power_w=power_w) for t_s, power_w in ((1.0, 100.0), (2.0, 300.0))]
    write_bundle(settings.bundles, run_record(), (request(),), samples, None)
    with ingested(settings) as connection:
        recorded = queries.telemetry(connection, "run-1")
        (energy_j,) = connection.execute("select energy_j from results where origin = 'measured'").fetchone() or ()
    assert recorded["gpu_power_w"].tolist() == [100.0, 300.0]
    assert recorded["kv_cache_usage"].isna().all()
    assert energy_j == 300.0
