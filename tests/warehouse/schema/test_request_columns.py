"""The latencies of a run's prompts in one row are those of its requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from tests.lab.validity.healthy import healthy
from tests.warehouse.runs import ingested
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.schema import request_columns

_LISTED = "select * from prompt_latencies join prompt_lists using (prompts_id) order by run_id"


def write(settings: Settings, run_id: str) -> None:
    """A run in which the first prompts were sent twice, some requests failed, and one had a single token."""
    base = healthy()
    run = base.run.model_copy(update={"run_id": run_id, "cell_key": run_id})
    requests = [replace(request, prompt_id=f"p{request.index % 500}") for request in base.requests]
    requests[3] = replace(requests[3], error="broke off", completion_tokens=None)
    requests[20] = replace(requests[20], completion_tokens=1)  # no time per output token
    write_bundle(settings.bundles, run, requests, base.samples, None)


def listed(settings: Settings) -> list[dict[str, Any]]:
    with duckdb.connect(settings.master_file, read_only=True) as connection:
        return connection.execute(_LISTED).to_arrow_table().to_pylist()


def test_runs_that_sent_the_same_prompts_share_their_list(settings: Settings) -> None:
    for run_id in ("run-1", "run-2"):
        write(settings, run_id)
    with ingested(settings) as connection:
        assert connection.execute("select count(*) from prompt_lists").fetchone() == (1,)
        latencies = request_columns.read_prompt_latencies(connection, ["run-1", "run-2"], "ttft_ms")
    assert latencies["run-1"].prompts is latencies["run-2"].prompts
    assert len(latencies["run-1"].prompts) == len(latencies["run-1"].numbers) == 500


def test_a_prompt_of_unknown_latency_is_left_out_of_that_latency_alone(settings: Settings) -> None:
    write(settings, "run-1")
    with ingested(settings) as connection:
        ttft = request_columns.read_prompt_latencies(connection, ["run-1"], "ttft_ms")["run-1"]
        tpot = request_columns.read_prompt_latencies(connection, ["run-1"], "tpot_ms")["run-1"]
        means = (
            "select prompt_id, avg(tpot_ms) from request_records where tpot_ms is not null and is_completed group by 1"
        )
        expected = dict(connection.execute(means).fetchall())
    assert set(ttft.prompts) - set(tpot.prompts) == {"p20"}
    assert dict(zip(tpot.prompts, tpot.numbers, strict=True)) == pytest.approx(expected)


def test_a_run_without_any_answer_is_ingested_without_a_row(settings: Settings) -> None:
    base = healthy()
    failed = [replace(request, error="refused", completion_tokens=None) for request in base.requests]
    write_bundle(settings.bundles, base.run, failed, base.samples, None)
    ingest_all(settings)
    assert listed(settings) == []
    with open_warehouse(settings.warehouse_file) as connection:
        assert request_columns.read_prompt_latencies(connection, [base.run.run_id], "ttft_ms") == {}
