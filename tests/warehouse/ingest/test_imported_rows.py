"""The rows of an imported run: what its file says, what its labels add, and null for the rest."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from lab.metrics.histogram import histogram
from tests.warehouse.ingest.foreign import FAILED, REQUEST, bundle, evidence, foreign, silent
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun, LeftOut, Scalar
from warehouse.ingest.imported import figure_rows, histograms, request_rows, run_rows, verdict_on


def known(run: ImportedRun) -> dict[str, Any]:
    """The row of `runs`, without what is null."""
    (row,) = run_rows(bundle(run)).to_pylist()
    return {name: value for name, value in row.items() if value is not None}


def always(run: ImportedRun) -> dict[str, Any]:
    """What every imported run has in its row."""
    record = bundle(run)
    return {
        "run_id": run.run_id,
        "cell_key": run.run_id,
        "job_id": record.job_id,
        "study_id": record.study_id,
        "study_name": record.study_name,
        "status": "completed",
        "format_version": 1,
        "origin": "imported",
        "tool": "vllm-bench",
        "source_sha256": "a" * 64,
        "labels_json": "{}",
    }


def test_a_run_of_which_nothing_is_known_is_null_in_all_else() -> None:
    run = silent()
    assert known(run) == always(run) | {"arm": "vllm-bench"}
    assert bundle(run).study_name == "vllm-bench: a target without a name"
    failed = replace(run, metrics={**run.metrics, "requests_completed": 0})
    assert known(failed) == always(failed) | {
        "arm": "vllm-bench",
        "status": "failed",
        "error": "no request completed",
    }


def test_a_run_of_which_all_is_known_has_it_in_its_columns() -> None:
    run = foreign()
    assert bundle(run).study_name == "vllm-bench: big"
    assert known(run) == always(run) | {
        "target": "big",
        "arm": "eagle3, head, k = 3",
        "method": "eagle3",
        "draft_model": "head",
        "num_speculative_tokens": 3,
        "dataset": "prose",
        "requested_output_tokens": 16,
        "input_tokens": 32,
        "workload": "prose/32/16",
        "ignore_eos": True,
        "temperature": 0.5,
        "concurrency": 4,
        "num_prompts": 8,
        "request_rate_rps": 2.5,
        "burstiness": 1.0,
        "pattern": "c4-2.5rps-n8",
        "endpoint": "chat",
        "repeat": 1,
        "started_at": datetime(2026, 11, 21, 2, tzinfo=UTC),
        "window_s": 2.5,
        "engine": "vllm",
        "engine_version": "0.32.0",
        "tool_version": "0.32",
    }


def test_labels_fill_what_the_file_leaves_out_and_nothing_that_it_says() -> None:
    labels = {"hardware": "H200", "target": "other", "category": "code", "z": "é", "arm": "mine", "baseline": "true"}
    row = known(foreign(labels=labels))
    assert (row["hardware"], row["target"], row["category"], row["arm"]) == ("H200", "big", "code", "mine")
    assert (row["is_baseline"], row["workload"]) == (True, "prose/code/32/16")
    assert row["labels_json"] == (
        '{"arm": "mine", "baseline": "true", "category": "code", "hardware": "H200", "target": "other", "z": "é"}'
    )
    assert known(silent(labels={"target": "named"}))["target"] == "named"
    assert "is_baseline" not in known(foreign(labels={"baseline": "no"}))
    assert "z" not in row


@pytest.mark.parametrize(
    ("columns", "arm"),
    [
        ({"draft_model": None}, "eagle3, k = 3"),
        ({"method": None}, "head, k = 3"),
        ({"num_speculative_tokens": None}, "eagle3, head"),
        ({"method": None, "draft_model": None}, "k = 3"),
        ({"method": None, "draft_model": None, "num_speculative_tokens": None}, "vllm-bench"),
        ({"method": "none", "draft_model": None, "num_speculative_tokens": None}, "none"),
    ],
)
def test_an_arm_is_named_after_what_is_known_of_its_draft(columns: dict[str, Scalar], arm: str) -> None:
    assert known(foreign(columns))["arm"] == arm


@pytest.mark.parametrize(
    ("streams", "prompts", "rate", "pattern"),
    [
        (4, 8, None, "c4-n8"),
        (4, None, None, "c4"),
        (None, 8, 2, "2rps-n8"),
        (None, None, 0.25, "0.25rps"),
        (None, 8, None, None),
    ],
)
def test_a_load_is_named_after_what_is_known_of_it(
    streams: int | None, prompts: int | None, rate: float | None, pattern: str | None
) -> None:
    columns: dict[str, Scalar] = {"concurrency": streams, "num_prompts": prompts, "request_rate_rps": rate}
    assert known(foreign(columns)).get("pattern") == pattern


def test_a_moment_without_a_zone_is_utc() -> None:
    assert known(foreign({"started_at": "2026-11-21T04:00:00"}))["started_at"] == datetime(2026, 11, 21, 4, tzinfo=UTC)
    west = timezone(timedelta(hours=-5))
    moment = known(foreign({"started_at": "2026-11-21T04:00:00-05:00"}))["started_at"]
    assert moment == datetime(2026, 11, 21, 4, tzinfo=west)
    with pytest.raises(ValueError, match="Invalid isoformat"):
        known(foreign({"started_at": "yesterday"}))


def request_row(run: ImportedRun) -> dict[str, Any]:
    row = request_rows(evidence(run)).to_pylist()[0]
    return {name: value for name, value in row.items() if value is not None}


def test_a_request_has_its_latencies_and_the_moments_that_follow_from_them() -> None:
    assert request_row(foreign()) == {
        "index": 7,
        "sent_s": 1.0,
        "first_token_s": 1.5,
        "end_s": 1.9,
        "chunk_s": [1.5, 1.75, 1.875],
        "requested_output_tokens": 16,
        "prompt_tokens": 32,
        "completion_tokens": 4,
        "output_text": "text",
        "is_completed": True,
        "ttft_ms": 500.0,
        "tpot_ms": 100.0,
        "e2e_ms": 900.0,
        "spec_drafts": 2,
        "spec_draft_tokens": 6,
        "spec_accepted_tokens": 2,
    }
    moments = ("sent_s", "first_token_s", "end_s", "chunk_s")
    unsent = request_row(foreign(requests=(replace(REQUEST, sent_s=None),)))
    assert not set(moments) & set(unsent)
    assert (unsent["ttft_ms"], unsent["e2e_ms"]) == (500.0, 900.0)
    unended = request_row(foreign(requests=(replace(REQUEST, e2e_ms=None, ttft_ms=None),)))
    assert set(moments) & set(unended) == {"sent_s"}
    failed = request_row(foreign({"requested_output_tokens": None}, requests=(FAILED,)))
    assert failed == {"index": 8, "error": "broke", "is_completed": False}
    assert request_rows(evidence(silent())).num_rows == 0


def test_figures_are_those_that_were_printed_and_those_that_became_no_column() -> None:
    run = foreign(printed={"b": 2.0, "a": 1.0}, left_out=(LeftOut("a", "too old"), LeftOut("c", "no number")))
    assert figure_rows(run).to_pylist() == [
        {"field": "b", "value": 2.0, "left_out": None},
        {"field": "a", "value": 1.0, "left_out": "too old"},
        {"field": "c", "value": None, "left_out": "no number"},
    ]


def counted(*values: float) -> dict[int, int]:
    return histogram(np.array(values))


def counts_of(*requests: ImportedRequest) -> dict[str, dict[int, int]]:
    return histograms(ImportedRequests.of(requests))


def test_histograms_are_of_completed_requests_and_of_what_all_of_them_have() -> None:
    other = replace(REQUEST, ttft_ms=700.0, tpot_ms=None, chunk_gaps_ms=(50.0,), token_gaps_ms=None)
    assert "tpot" not in counts_of(REQUEST, other)
    of_one_token = replace(other, completion_tokens=1)
    assert counts_of(REQUEST, of_one_token, replace(FAILED, ttft_ms=1.0)) == {
        "ttft": counted(500.0, 700.0),
        "tpot": counted(100.0),
        "e2e": counted(900.0, 900.0),
        "icl": counted(250.0, 125.0, 50.0),
    }
    assert counts_of(REQUEST)["itl"] == counted(250.0, 62.5, 62.5)
    assert counts_of(FAILED) == {}
    assert counts_of() == {}


def test_a_verdict_rests_on_what_the_file_records_and_on_its_doubts() -> None:
    verdict = verdict_on(evidence(foreign(doubts=("ttft: 1 there, 2 here",))))
    sentences = {finding.check: finding.sentence for finding in verdict.findings}
    assert sentences["file_contradicts_itself"] == "The file contradicts itself: ttft: 1 there, 2 here."
    assert sentences["requests_failed"] == "1 of 2 requests failed (50 %), because: broke"
    assert sentences["output_length"].startswith("1 of 1 request got fewer tokens than they asked for: 4 tokens")
    skipped = {skip.check for skip in verdict.skipped}
    assert {"client_lag", "warm_prefix_cache", "gpu_throttled"} <= skipped
    assert "output_length" in {skip.check for skip in verdict_on(evidence(foreign({"ignore_eos": None}))).skipped}
