"""An imported run as evidence for the checks, and its rows: in the same tables and under the same checks as measured.

The evidence is a complete RunRecord and the names of the fields that its file lacks. Unknown fields hold placeholders
and are listed in `unrecorded`; checks that need one are skipped as "not recorded". The record is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lab.metrics.histogram import histogram
from lab.metrics.record_table import Floats, Ragged
from lab.metrics.records import Circumstances, RunRecord, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.study import Arm, Load, Sampling, Slo, Speculation, Workload
from lab.validity import Verdict, judge
from warehouse.bundles.imported_bundle import ImportedRecord, known_of_all
from warehouse.bundles.imported_run import ImportedRequests, ImportedRun, Scalar, latencies_of
from warehouse.schema.column import rows
from warehouse.schema.request_columns import REQUEST_COLUMNS
from warehouse.schema.run_columns import RUN_COLUMNS
from warehouse.schema.tables import IMPORTED_FIGURE_COLUMNS

#: Fields that no other tool's format has.
_NEVER_RECORDED = (
    *("client", "counters_before", "counters_after", "log", "log_begin_bytes", "log_end_bytes", "prompts_seed"),
    *(
        "identity",
        "idle_before_s",
        "warmup_requests",
        "warmup_s",
        "launch_index",
        "attempt",
        "idle_engines",
        "beside",
        "is_baseline",
        "slo",
    ),
    *("circumstances", "sampling", "arm.flags", "category", "prompt", "prompt_id", "intended_send_s", "finish_reason"),
    *("sent_prompt_tokens", "chunk_tokens", "cached_prompt_tokens", "resent"),
)
_TELEMETRY = tuple(field.name for field in fields(TelemetrySample))
_OF_REQUESTS = ("error", "end_s", "sent_s", "first_token_s", "chunk_s", "output_text", "completion_tokens")
_ROUNDING_S = 1e-6
#: Columns that a request of another tool has under the same name.
_SHARED = (
    *("index", "prompt_tokens", "completion_tokens", "error"),
    *("spec_drafts", "spec_draft_tokens", "spec_accepted_tokens"),
)
#: The placeholder for unknown texts.
_PLACEHOLDER = "unknown"
#: Columns that are filled from a label of the same name if the file lacks them.
LABELS = (
    *("target", "arm", "method", "draft_model", "dataset", "category", "hardware", "host", "engine"),
    *("engine_version", "driver_version"),
)
_RUN_NAMES = tuple(column.name for column in RUN_COLUMNS)
_IN_ROWS = (*_SHARED, "sent_s", "output_text", "ttft_ms", "tpot_ms", "e2e_ms")


@dataclass(frozen=True)
class Evidence:
    """A run for the checks. `unrecorded` has the names that checks use in `looks_at`."""

    record: RunRecord
    unrecorded: frozenset[str]
    run: ImportedRun

    @cached_property
    def recorded(self) -> ImportedRequests:
        """Return the requests as the file describes them; none if it lists none."""
        return ImportedRequests.of(()) if self.run.requests is None else self.run.requests

    @cached_property
    def chunks(self) -> Ragged:
        """Return when each chunk arrived, in seconds since the first send; none where the start is unknown."""
        return chunk_moments_s(self.recorded, self.recorded.numbers("sent_s"))

    @cached_property
    def requests(self) -> RequestTable:
        """Return the requests as records, computed on first use: checks of a whole job need none."""
        return _requests(self)


def as_evidence(record: ImportedRecord) -> Evidence:
    """Return the run, which has its requests, as evidence, with placeholders for what its file lacks."""
    requests = record.run.requests
    return without_requests(record, None if requests is None else known_of_all(requests.completed))


def without_requests(record: ImportedRecord, known: frozenset[str] | None) -> Evidence:
    """Return the same for the checks of a job's runs together, which need no requests.

    `known` are the fields that every completed request has; None if the file has no requests.
    """
    return Evidence(_record(record), frozenset(_unrecorded(record.run, known)), record.run)


def failure_reason(run: ImportedRun) -> str | None:
    """Return why the run counts as failed, or None if it does not."""
    return None if run.metrics["requests_completed"] != 0 else "no request completed"


def _unrecorded(run: ImportedRun, known: frozenset[str] | None) -> Iterator[str]:
    columns = run.columns
    yield from (*_NEVER_RECORDED, *_TELEMETRY)
    absent = {
        "workload.dataset": columns["dataset"],
        "workload.ignore_eos": columns["ignore_eos"],
        "workload.input_tokens": columns["input_tokens"],
        "requested_output_tokens": columns["requested_output_tokens"],
        "load.max_concurrency": columns["concurrency"],
        "started_at": columns["started_at"],
        "endpoint": columns["endpoint"],
        "repeat": columns["repeat"],
        "duration_s": run.metrics["duration_s"],
        "requests_failed": run.metrics["requests_failed"],
        "requests_completed": run.metrics["requests_completed"],
        "arm.speculation": _drafted(run),
    }
    yield from (name for name, value in absent.items() if value is None)
    if "spec_accepted_tokens" not in (known or ()):
        yield "spec_accepted_tokens"
    if known is None:
        yield from _OF_REQUESTS
        return
    fields = {"sent_s": "sent_s", "first_token_s": "ttft_ms", "end_s": "e2e_ms", "chunk_s": "chunk_gaps_ms"}
    fields |= {name: name for name in ("output_text", "completion_tokens")}
    yield from (ours for ours, theirs in fields.items() if theirs not in known)


def _drafted(run: ImportedRun) -> int | None:
    """Return the tokens drafted per round, or None if the file records no speculation."""
    drafted = run.columns["num_speculative_tokens"]
    if isinstance(drafted, int):
        return min(max(drafted, 1), 64)
    positions = run.metrics["acceptance_per_position"]
    return len(positions) if isinstance(positions, tuple) and 1 <= len(positions) <= 64 else None


def _record(record: ImportedRecord) -> RunRecord:
    run = record.run
    drafted = _drafted(run)
    speculation = None if drafted is None else Speculation(method=_PLACEHOLDER, num_speculative_tokens=drafted)
    dataset, ignore_eos, rate = (run.columns[name] for name in ("dataset", "ignore_eos", "request_rate_rps"))
    concurrency, duration_s = run.columns["concurrency"], run.metrics["duration_s"]
    streams = min(max(int(concurrency), 1), 4096) if isinstance(concurrency, int) else 1
    rate_rps = min(max(float(rate), 1e-4), 1e6) if rate else None  # as a load of our own, the row keeps the file's
    output_tokens = run.columns["requested_output_tokens"]
    reason = failure_reason(run)
    return RunRecord(
        run_id=run.run_id,
        cell_key=run.run_id,
        job_id=record.job_id,
        study_id=record.study_id,
        study_name=record.study_name[:200],
        target=_PLACEHOLDER,
        arm=Arm(name=_PLACEHOLDER, engine=_PLACEHOLDER, speculation=speculation),
        is_baseline=False,
        workload=Workload.model_construct(
            dataset=str(dataset or _PLACEHOLDER),
            output_tokens=output_tokens if isinstance(output_tokens, int) else 0,
            ignore_eos=bool(ignore_eos),
        ),
        load=Load(max_concurrency=streams, num_prompts=1_000_000, request_rate_rps=rate_rps),
        sampling=Sampling(),
        slo=Slo(),
        endpoint="completions",
        repeat=0,
        launch_index=0,
        attempt=0,
        status="completed" if reason is None else "failed",
        error=reason,
        started_at=str(run.columns["started_at"] or "1970-01-01T00:00:00+00:00"),
        duration_s=float(duration_s) if isinstance(duration_s, (int, float)) else None,
        circumstances=_NOWHERE,
    )


_NOWHERE = Circumstances(
    hardware=_PLACEHOLDER,
    host=_PLACEHOLDER,
    cpu_count=0,
    memory_bytes=0,
    os=_PLACEHOLDER,
    python_version=_PLACEHOLDER,
    drafthouse_revision=None,
    engine=_PLACEHOLDER,
    engine_version=None,
    command=(),
    target_path=_PLACEHOLDER,
)


def _requests(evidence: Evidence) -> RequestTable:
    requests, asked = evidence.recorded, evidence.run.columns["requested_output_tokens"]
    known_s = requests.numbers("sent_s")
    sent_s = np.where(np.isnan(known_s), 0.0, known_s)
    chunks = chunk_moments_s(requests, sent_s) if np.isnan(known_s).any() else evidence.chunks
    end_s = sent_s + requests.numbers("e2e_ms") / 1000
    texts = requests.texts("output_text")
    columns: dict[str, Any] = {
        "prompt_id": _same("", requests),
        "prompt": _same("", requests),
        "requested_output_tokens": _same(asked if isinstance(asked, int) else 0, requests),
        "intended_send_s": sent_s,
        "sent_s": sent_s,
        "first_token_s": pa.array(first_token_s(requests, sent_s), from_pandas=True),
        "end_s": np.where(np.isnan(end_s), sent_s, end_s),
        "chunk_s": as_lists(chunks),
        "output_text": texts.fill_null("") if texts.null_count else texts,
        **{name: requests.texts(name) for name in _SHARED},
    }
    fields = [field for field in RequestTable.schema if field.name in columns]
    return RequestTable(
        pa.table([columns[field.name] for field in fields], names=[field.name for field in fields]).cast(
            pa.schema(fields)
        )
    )


def _same(value: str | int, requests: ImportedRequests) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(value), len(requests))


def first_token_s(requests: ImportedRequests, sent_s: Floats) -> Floats:
    """Return when the first token of each request arrived; NaN if it is unknown."""
    return sent_s + requests.numbers("ttft_ms") / 1000


def chunk_moments_s(requests: ImportedRequests, sent_s: Floats) -> Ragged:
    """Return when each chunk arrived; no moments for a request whose gaps or first arrival are unknown.

    The sum of the gaps may exceed the end of the request by a rounding error, which is not a contradiction.
    """
    gaps_ms, first_s = requests.lists("chunk_gaps_ms"), first_token_s(requests, sent_s)
    end_s = sent_s + requests.numbers("e2e_ms") / 1000
    is_known = gaps_ms.known & ~np.isnan(first_s)
    bounds = np.concatenate(([0], np.cumsum(np.where(is_known, gaps_ms.lengths + 1, 0))))
    moments_s = np.empty(int(bounds[-1]))
    for number in np.flatnonzero(is_known).tolist():
        of_request = moments_s[bounds[number] : bounds[number + 1]]
        of_request[0] = first_s[number]
        of_request[1:] = gaps_ms.values[gaps_ms.bounds[number] : gaps_ms.bounds[number + 1]] / 1000
        np.cumsum(of_request, out=of_request)
        if end_s[number] < of_request[-1] <= end_s[number] + _ROUNDING_S:
            np.minimum(of_request, end_s[number], out=of_request)
    return Ragged(moments_s, bounds, is_known)


def as_lists(ragged: Ragged, *, null_if_empty: bool = False) -> pa.Array[Any]:
    """Return a column of lists of fractions."""
    empty = pa.array(ragged.lengths == 0) if null_if_empty else None
    lists: Any = pa.ListArray  # its stubs know no arrays of NumPy
    bounds = pa.array(ragged.bounds.astype(np.int32))
    column: pa.Array[Any] = lists.from_arrays(bounds, pa.array(ragged.values), mask=empty)
    return column


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


def run_rows(record: ImportedRecord) -> pa.Table:
    """Return the row of `runs`; null if the file does not record the value."""
    run = record.run
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
        **{name: requests.texts(name) for name in _IN_ROWS},
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
