"""An imported run as rows of the warehouse's tables: the same tables, views and checks as for measured ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from lab.metrics.histogram import histogram
from lab.validity import Verdict, judge
from warehouse.bundles.imported_bundle import ImportedBundle
from warehouse.importers.model import ImportedRequest, ImportedRun, Scalar
from warehouse.ingest.imported_evidence import chunk_moments_s, failure, told
from warehouse.schema.column import keyed, rows
from warehouse.schema.request_columns import REQUEST_COLUMNS
from warehouse.schema.run_columns import RUN_COLUMNS
from warehouse.schema.tables import IMPORTED_FIGURE_COLUMNS

#: Columns that a user may fill with a label of the same name, where the file tells nothing.
LABELS = (
    *("target", "arm", "method", "draft_model", "dataset", "category", "hardware", "host", "engine"),
    *("engine_version", "driver_version"),
)
_RUN_NAMES = tuple(column.name for column in RUN_COLUMNS)
_REQUEST_NAMES = tuple(column.name for column in REQUEST_COLUMNS)
_SINGLE = ("ttft_ms", "tpot_ms", "e2e_ms")
_SHARED = (
    *("index", "error", "sent_s", "prompt_tokens", "completion_tokens", "output_text", "is_completed", *_SINGLE),
    *("spec_drafts", "spec_draft_tokens", "spec_accepted_tokens"),
)


def verdict_on(bundle: ImportedBundle) -> Verdict:
    seen = told(bundle.record, bundle.run)
    return judge(
        seen.record,
        seen.requests,
        (),
        bundle.run.metrics,
        unrecorded=seen.unrecorded,
        doubts=bundle.run.doubts,
    )


def run_rows(bundle: ImportedBundle) -> pa.Table:
    """The row of `runs`. Null is what the file does not tell."""
    run, record = bundle.run, bundle.record
    labelled = {name: run.labels[name] for name in LABELS if name in run.labels}
    known = {name: value for name, value in run.columns.items() if value is not None}
    found: dict[str, Any] = {**dict.fromkeys(_RUN_NAMES), **labelled, **known}
    why = failure(run)
    found |= {
        "run_id": run.run_id,
        "cell_key": run.run_id,
        "job_id": record.job_id,
        "study_id": record.study_id,
        "study_name": record.study_name,
        "arm": run.labels.get("arm") or _arm(run),
        "is_baseline": True if run.labels.get("baseline") == "true" else None,
        "workload": _workload(found),
        "pattern": _pattern(run.columns),
        "status": "completed" if why is None else "failed",
        "error": why,
        "started_at": _moment(run.columns["started_at"]),
        "window_s": run.metrics["duration_s"],
        "format_version": record.format_version,
        "origin": record.origin,
        "tool": run.tool,
        "tool_version": run.tool_version,
        "source_sha256": run.source.sha256,
        "labels_json": json.dumps(dict(run.labels), ensure_ascii=False, sort_keys=True),
    }
    return rows(keyed(RUN_COLUMNS), [found])


def request_rows(run: ImportedRun) -> pa.Table:
    asked = run.columns["requested_output_tokens"]
    return rows(keyed(REQUEST_COLUMNS), [_request(request, asked) for request in run.requests or ()])


def figure_rows(run: ImportedRun) -> pa.Table:
    """What the tool printed, and what became no column."""
    why = {one.field: one.why for one in run.left_out}
    found = [{"field": name, "value": run.printed.get(name), "left_out": why.get(name)} for name in run.printed]
    found += [{"field": name, "value": None, "left_out": why[name]} for name in why if name not in run.printed]
    return rows(keyed(IMPORTED_FIGURE_COLUMNS), found)


def histograms(requests: Sequence[ImportedRequest]) -> dict[str, dict[int, int]]:
    """As of a measured run, of the latencies that every completed request has."""
    done = [request for request in requests if request.is_completed]
    found = {name.removesuffix("_ms"): [getattr(request, name) for request in done] for name in _SINGLE}
    values = {name: [value for value in each if value is not None] for name, each in found.items()}
    for name, field in (("icl", "chunk_gaps_ms"), ("itl", "token_gaps_ms")):
        gaps = [getattr(request, field) for request in done]
        values[name] = [] if None in gaps else [gap for each in gaps for gap in each]
    return {name: histogram(np.asarray(each, dtype=np.float64)) for name, each in values.items() if each}


def _request(request: ImportedRequest, asked: Scalar) -> Mapping[str, Any]:
    """Moments are known where the file tells when the request was sent; its latencies in any case."""
    sent_s = request.sent_s
    first_s = None if sent_s is None or request.ttft_ms is None else sent_s + request.ttft_ms / 1000
    return (
        dict.fromkeys(_REQUEST_NAMES)
        | {name: getattr(request, name) for name in _SHARED}
        | {
            "requested_output_tokens": asked,
            "first_token_s": first_s,
            "end_s": None if sent_s is None or request.e2e_ms is None else sent_s + request.e2e_ms / 1000,
            "chunk_s": None if sent_s is None else list(chunk_moments_s(request, sent_s, first_s)) or None,
        }
    )


def _arm(run: ImportedRun) -> str:
    """A name made of what is known of the speculation; arms are told apart by it."""
    method, draft, drafted = (run.columns[name] for name in ("method", "draft_model", "num_speculative_tokens"))
    parts = [str(part) for part in (method, draft) if part is not None]
    parts += [f"k = {drafted}"] if drafted is not None else []
    return ", ".join(parts) or run.tool


def _workload(found: Mapping[str, Any]) -> str | None:
    parts = [found[name] for name in ("dataset", "category", "input_tokens", "requested_output_tokens")]
    return "/".join(str(part) for part in parts if part is not None) or None


def _pattern(columns: Mapping[str, Scalar]) -> str | None:
    """Like a load's own name; None where neither streams nor a rate are known."""
    streams, prompts, rate = (columns[name] for name in ("concurrency", "num_prompts", "request_rate_rps"))
    parts = [f"c{streams}"] if streams is not None else []
    parts += [f"{rate:g}rps"] if isinstance(rate, (int, float)) else []
    return "-".join([*parts, f"n{prompts}"] if parts and prompts is not None else parts) or None


def _moment(text: Scalar) -> datetime | None:
    """Raises ValueError for a text that is no time; one without a zone is UTC, because importers say so."""
    if not isinstance(text, str):
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
