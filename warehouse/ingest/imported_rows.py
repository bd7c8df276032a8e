"""The rows of an imported run, in the same tables and under the same checks as measured ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lab.metrics.histogram import histogram
from lab.validity import Verdict, judge
from warehouse.bundles.imported_bundle import ImportedBundle
from warehouse.bundles.imported_run import ImportedRequests, ImportedRun, Scalar, latencies_of
from warehouse.ingest.imported_evidence import Evidence, as_lists, failure_reason, first_token_s
from warehouse.schema.column import rows
from warehouse.schema.request_columns import REQUEST_COLUMNS
from warehouse.schema.run_columns import RUN_COLUMNS
from warehouse.schema.tables import IMPORTED_FIGURE_COLUMNS

#: Columns that are filled from a label of the same name if the file lacks them.
LABELS = (
    *("target", "arm", "method", "draft_model", "dataset", "category", "hardware", "host", "engine"),
    *("engine_version", "driver_version"),
)
_RUN_NAMES = tuple(column.name for column in RUN_COLUMNS)
_SHARED = (
    *("index", "error", "sent_s", "prompt_tokens", "completion_tokens", "output_text", "ttft_ms", "tpot_ms", "e2e_ms"),
    *("spec_drafts", "spec_draft_tokens", "spec_accepted_tokens"),
)


def verdict_on(evidence: Evidence) -> Verdict:
    """Judge an imported run by the checks whose fields are in its file."""
    return judge(
        evidence.record,
        evidence.requests,
        (),
        evidence.run.metrics,
        unrecorded=evidence.unrecorded,
        doubts=evidence.run.doubts,
    )


def run_rows(bundle: ImportedBundle) -> pa.Table:
    """Return the row of `runs`; null if the file does not record the value."""
    run, record = bundle.run, bundle.record
    labelled = {name: run.labels[name] for name in LABELS if name in run.labels}
    recorded = {name: value for name, value in run.columns.items() if value is not None}
    row: dict[str, Any] = {**dict.fromkeys(_RUN_NAMES), **labelled, **recorded}
    reason = failure_reason(run)
    row |= {
        "run_id": run.run_id,
        "cell_key": run.run_id,
        "job_id": record.job_id,
        "study_id": record.study_id,
        "study_name": record.study_name,
        "arm": run.labels.get("arm") or _arm(run),
        "is_baseline": True if run.labels.get("baseline") == "true" else None,
        "workload": _workload(row),
        "pattern": _pattern(run.columns),
        "status": "completed" if reason is None else "failed",
        "error": reason,
        "started_at": _moment(run.columns["started_at"]),
        "window_s": run.metrics["duration_s"],
        "format_version": record.format_version,
        "origin": record.origin,
        "tool": run.tool,
        "tool_version": run.tool_version,
        "source_sha256": run.source.sha256,
        "labels_json": json.dumps(dict(run.labels), ensure_ascii=False, sort_keys=True),
    }
    return rows(RUN_COLUMNS, [row])


#: DECIMAL(18, 6) holds less.
_TOO_LATE_S = 1e12


def request_rows(evidence: Evidence) -> pa.Table:
    """Return the rows of `request_records`; times are known only if the file records when requests were sent.

    Raises ValueError if the time of a chunk is too great for whole microseconds.
    """
    requests, moments_s = evidence.recorded, evidence.chunks
    sent_s, asked = requests.numbers("sent_s"), evidence.run.columns["requested_output_tokens"]
    if moments_s.values.size and moments_s.values.max() >= _TOO_LATE_S:
        raise ValueError(f"a chunk arrives {moments_s.values.max():.3g} s after the first request")
    columns: dict[str, Any] = {
        **{name: requests.texts(name) for name in _SHARED},
        "is_completed": pa.array(requests.is_completed),
        "requested_output_tokens": pa.array([asked] * len(requests), type=pa.int32()),
        "first_token_s": pa.array(first_token_s(requests, sent_s), from_pandas=True),
        "end_s": pa.array(sent_s + requests.numbers("e2e_ms") / 1000, from_pandas=True),
        "chunk_s": as_lists(moments_s, null_if_empty=True),
    }
    nulls = pa.nulls(len(requests))
    schema = pa.schema([(column.name, column.types[1]) for column in REQUEST_COLUMNS])
    return pa.table([columns.get(name, nulls) for name in schema.names], names=schema.names).cast(schema)


def figure_rows(run: ImportedRun) -> pa.Table:
    """Return the figures that the tool printed, and why some of them became no column."""
    reasons = {field.field: field.why for field in run.left_out}
    names = dict.fromkeys((*run.printed, *reasons))
    figures = [{"field": name, "value": run.printed.get(name), "left_out": reasons.get(name)} for name in names]
    return rows(IMPORTED_FIGURE_COLUMNS, figures)


def histograms(requests: ImportedRequests) -> dict[str, dict[int, int]]:
    """Return histograms like those of a measured run, of the latencies that every completed request has."""
    return {name: histogram(values) for name, values in latencies_of(requests.completed).items() if values.size}


def _arm(run: ImportedRun) -> str:
    """Name the arm after the known settings of its speculation, which distinguish arms."""
    method, draft, drafted = (run.columns[name] for name in ("method", "draft_model", "num_speculative_tokens"))
    parts = [str(part) for part in (method, draft) if part is not None]
    parts += [f"k = {drafted}"] if drafted is not None else []
    return ", ".join(parts) or run.tool


def _workload(row: Mapping[str, Any]) -> str | None:
    parts = [row[name] for name in ("dataset", "category", "input_tokens", "requested_output_tokens")]
    return "/".join(str(part) for part in parts if part is not None) or None


def _pattern(columns: Mapping[str, Scalar]) -> str | None:
    """Name the load like `Load.name`; None if neither concurrency nor rate is known."""
    streams, prompts, rate = (columns[name] for name in ("concurrency", "num_prompts", "request_rate_rps"))
    parts = [f"c{streams}"] if streams is not None else []
    parts += [f"{rate:g}rps"] if isinstance(rate, (int, float)) else []
    return "-".join([*parts, f"n{prompts}"] if parts and prompts is not None else parts) or None


def _moment(text: Scalar) -> datetime | None:
    """Parse a time; one without a zone is UTC, as importers define. Raises ValueError for an invalid text."""
    if not isinstance(text, str):
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
