"""Imported runs with small overrides, without a file: what it would say, or next to nothing."""

from __future__ import annotations

from typing import Any

from lab.metrics.measure import Value
from warehouse.bundles.imported_bundle import ImportedRecord, record_of
from warehouse.bundles.imported_run import (
    ImportedRequest,
    ImportedRequests,
    ImportedRun,
    Scalar,
    SourceFile,
    all_columns,
    all_metrics,
)
from warehouse.ingest.imported import Evidence, as_evidence

COLUMNS: dict[str, Scalar] = {
    "target": "big",
    "method": "eagle3",
    "draft_model": "head",
    "num_speculative_tokens": 3,
    "dataset": "prose",
    "requested_output_tokens": 16,
    "input_tokens": 32,
    "ignore_eos": True,
    "temperature": 0.5,
    "concurrency": 4,
    "num_prompts": 8,
    "request_rate_rps": 2.5,
    "burstiness": 1.0,
    "endpoint": "chat",
    "repeat": 1,
    "started_at": "2026-11-21T04:00:00+02:00",
    "engine": "vllm",
    "engine_version": "0.32.0",
}
METRICS: dict[str, Value] = {"duration_s": 2.5, "requests_completed": 2, "requests_failed": 1}
REQUEST = ImportedRequest(
    index=7,
    sent_s=1.0,
    ttft_ms=500.0,
    tpot_ms=100.0,
    e2e_ms=900.0,
    chunk_gaps_ms=(250.0, 125.0),
    token_gaps_ms=(250.0, 62.5, 62.5),
    prompt_tokens=32,
    completion_tokens=4,
    output_text="text",
    spec_drafts=2,
    spec_draft_tokens=6,
    spec_accepted_tokens=2,
)
FAILED = ImportedRequest(index=8, error="broke")


def foreign(
    columns: dict[str, Scalar] | None = None, metrics: dict[str, Value] | None = None, **run: Any
) -> ImportedRun:
    """Return a run whose file says all that a file can; `columns` and `metrics` replace single values."""
    values: dict[str, Any] = {
        "run_id": "r" * 64,
        "tool": "vllm-bench",
        "tool_version": "0.32",
        "source": SourceFile("result.json", "a" * 64, 10),
        "place": "",
        "columns": all_columns(COLUMNS | (columns or {})),
        "metrics": all_metrics(METRICS | (metrics or {})),
        "requests": (REQUEST, FAILED),
    }
    values |= run
    if values["requests"] is not None:
        values["requests"] = ImportedRequests.of(values["requests"])
    return ImportedRun(**values)


def silent(**run: Any) -> ImportedRun:
    """Return a run whose file says next to nothing."""
    return foreign(dict.fromkeys(COLUMNS), dict.fromkeys(METRICS), **{"requests": None, "tool_version": None, **run})


def bundle(run: ImportedRun) -> ImportedRecord:
    return record_of(run).model_copy(update={"run": run})


def evidence(run: ImportedRun) -> Evidence:
    return as_evidence(bundle(run))
