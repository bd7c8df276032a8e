"""The views have the columns that pages and users rely on, and every table, view and column says what it means."""

from __future__ import annotations

import duckdb
import pytest

from host.settings import Settings
from lab.metrics.records import Circumstances, ClientHealth, Identity, RunRecord, record_fields
from tests.warehouse.asking import ask
from warehouse.ingest.master import connect_master
from warehouse.queries.connect import open_warehouse
from warehouse.schema import dictionary, views
from warehouse.schema.run_columns import RUN_COLUMNS

RESULTS = """
run_id cell_key job_id study_id study_name hardware host engine engine_version target arm is_baseline method draft_model
num_speculative_tokens dataset category requested_output_tokens ignore_eos pattern concurrency num_prompts burstiness
request_rate_rps endpoint temperature repeat launch_index attempt status error started_at duration_s requests_completed
requests_failed prompt_tokens completion_tokens output_tok_per_s total_tok_per_s request_per_s acceptance_rate
acceptance_length acceptance_per_position num_drafts num_draft_tokens num_accepted_tokens prefix_cache_hit_rate
goodput_request_per_s server_generation_tokens loop_lag_p99_ms late_send_max_ms engine_start_s idle_before_s
warmup_requests drafthouse_revision cell_id arm_id workload_id load_id dataset_digest prompts_seed driver_version gpus
gpus_found_by target_revision draft_digest energy_j energy_j_per_output_token gpu_power_mean_w gpu_throttled_share
gpu_utilisation_mean_percent gpu_memory_used_max_bytes gpu_temperature_max_c kv_cache_usage_max engine_waiting_max
engine_running_mean host_cpu_mean_percent other_cpu_percent host_memory_used_max_bytes
"""
LATENCIES = [
    f"{latency}_{statistic}_ms"
    for latency in ("ttft", "tpot", "itl", "icl", "e2e")
    for statistic in ("mean", "p50", "p90", "p95", "p99")
]
REQUESTS = """
run_id job_id arm method dataset category concurrency repeat index prompt_id prompt intended_send_s sent_s first_token_s
end_s chunk_s chunk_tokens prompt_tokens completion_tokens finish_reason error output_text spec_drafts spec_draft_tokens
spec_accepted_tokens ttft_ms ttft_from_intended_ms tpot_ms e2e_ms requested_output_tokens
"""


def columns(settings: Settings, name: str) -> set[str]:
    return {column for (column, *_) in ask(settings, f"describe {name}")}


def test_the_view_results_has_every_promised_column(settings: Settings) -> None:
    assert {*RESULTS.split(), *LATENCIES} <= columns(settings, "results")


def test_the_view_requests_has_every_promised_column(settings: Settings) -> None:
    assert set(REQUESTS.split()) <= columns(settings, "requests")


def test_every_declared_field_of_a_run_is_one_column() -> None:
    records = (RunRecord, Identity, ClientHealth, Circumstances)
    declared = [field.column or name for record in records for name, field in record_fields(record).items()]
    names = [column.name for column in RUN_COLUMNS]
    assert len(names) == len(set(names))
    assert len(declared) == len(set(declared) & set(names))


def test_every_table_view_and_column_has_a_comment(settings: Settings) -> None:
    silent = """
        select table_name from duckdb_tables() where comment is null
        union all select view_name from duckdb_views() where not internal and comment is null
        union all select table_name || '.' || column_name from duckdb_columns()
            where not internal and coalesce(comment, '') = ''
    """
    assert ask(settings, silent) == []


def test_the_data_dictionary_equals_the_comments_in_the_warehouse(settings: Settings) -> None:
    with open_warehouse(settings.warehouse_file) as connection:
        written = dictionary.PAGE.read_text(encoding="utf-8")
        assert written == dictionary.page(connection), "run `python -m warehouse.schema.dictionary`"


def identities(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """A view that is created anew has another one."""
    found = connection.execute("SELECT view_name, view_oid FROM duckdb_views() WHERE database_name = 'warehouse'")
    return dict(found.fetchall())


def test_views_that_are_as_they_should_be_stay_in_a_new_process(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect_master(settings.master_file) as connection:
        before = identities(connection)
        monkeypatch.setattr(views, "_AS_STORED", {})
        views.describe(connection)
        assert identities(connection) == before
        assert connection.execute(
            "SELECT count(*) FROM duckdb_views() WHERE temporary AND NOT internal"
        ).fetchone() == (0,)


def test_a_view_with_another_sql_or_other_types_is_created_anew(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect_master(settings.master_file) as connection:
        before = identities(connection)
        connection.execute("CREATE OR REPLACE VIEW requests AS SELECT 1 AS run_id")
        connection.execute("ALTER TABLE recent_requests ALTER COLUMN score TYPE FLOAT")
        monkeypatch.setattr(views, "_AS_STORED", {})
        views.describe(connection)
        after = identities(connection)
        assert {name for name in before if after[name] != before[name]} == {"request_records", "requests"}
        assert {"run_id", "score"} <= {name for name, *_ in connection.execute("DESCRIBE requests").fetchall()}
