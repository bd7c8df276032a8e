"""Runs in the JSON format of `vllm bench serve --save-result --save-detailed`, for other tools.

Names and units are vLLM's: seconds in arrays, milliseconds in statistics, acceptance in percent, gaps between chunks
under `itl`. Unknown figures are null; figures that vLLM counts in chunks (its peak rates) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np

from warehouse.queries.rows import Row, dicts, records_of

_RUN_FIELDS = {
    "model_id": "target",
    "num_prompts": "num_prompts",
    "burstiness": "burstiness",
    "max_concurrency": "concurrency",
    "duration": "duration_s",
    "completed": "requests_completed",
    "failed": "requests_failed",
    "total_input_tokens": "prompt_tokens",
    "total_output_tokens": "completion_tokens",
    "request_throughput": "request_per_s",
    "request_goodput": "goodput_request_per_s",
    "total_token_throughput": "total_tok_per_s",
}
_SPECULATION = {
    "spec_decode_num_drafts": "num_drafts",
    "spec_decode_draft_tokens": "num_draft_tokens",
    "spec_decode_accepted_tokens": "num_accepted_tokens",
    "spec_decode_acceptance_length": "acceptance_length",
    "spec_decode_per_position_acceptance_rates": "acceptance_per_position",
}
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "icl", "e2el": "e2e"}
_STATISTICS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_ENDPOINTS = {"completions": "openai", "chat": "openai-chat"}
#: Columns of ours that identify the run and that vLLM's plots can group by.
_IDENTITY = ("run_id", "arm", "method", "draft_model", "num_speculative_tokens", "engine", "engine_version", "hardware")
_REQUESTS = """
    SELECT "index", sent_s, end_s, chunk_s, error, is_completed, prompt_tokens, completion_tokens, output_text, ttft_ms,
        e2e_ms
    FROM {records} WHERE run_id = ? ORDER BY "index"
"""


def vllm_results(con: duckdb.DuckDBPyConnection, jobs: Sequence[str]) -> list[dict[str, Any]]:
    """Return one object per completed run of these jobs, in the order they were measured."""
    query = (
        "SELECT * FROM results WHERE job_id IN (SELECT unnest(?)) AND status = 'completed' ORDER BY started_at, run_id"
    )
    return [_result(run, _requests(con, run["run_id"])) for run in dicts(con, query, [list(jobs)])]


def _requests(con: duckdb.DuckDBPyConnection, run_id: str) -> list[Row]:
    return dicts(con, _REQUESTS.format(records=records_of(con, [run_id])), [run_id])


def _result(run: Row, requests: Sequence[Row]) -> dict[str, Any]:
    rate, is_gamma = run["request_rate_rps"], run["arrivals"] in (None, "gamma")
    result: dict[str, Any] = {
        "date": None if run["started_at"] is None else f"{run['started_at']:%Y%m%d-%H%M%S}",
        "endpoint_type": _ENDPOINTS.get(run["endpoint"] or ""),
        "backend": _ENDPOINTS.get(run["endpoint"] or ""),
        "label": None,
        "tokenizer_id": run["target"],
        **{name: run[column] for name, column in _RUN_FIELDS.items()},
        "output_throughput": _output_throughput(run),
        **{name: run[name] for name in _IDENTITY},
    }
    if run["closed_loop"] or (rate is not None and (is_gamma or run["arrivals"] == "constant")):
        result["request_rate"] = "inf" if rate is None else rate  # vLLM cannot express other arrivals
    if not is_gamma:
        result["burstiness"] = None
    if run["num_drafts"] is not None or run["acceptance_rate"] is not None:
        rate = run["acceptance_rate"]
        result["spec_decode_acceptance_rate"] = None if rate is None else rate * 100
        result |= {name: run[column] for name, column in _SPECULATION.items()}
    if requests and all(_is_complete(request) for request in requests):
        result |= _arrays(requests)
    for theirs, ours in _LATENCIES.items():
        result |= {f"{word}_{theirs}_ms": run[f"{ours}_{statistic}_ms"] for word, statistic in _STATISTICS.items()}
    return result


def _output_throughput(run: Row) -> float | None:
    """Return the tokens of the whole window by its length, vLLM's definition: that of a run in rounds is another."""
    tokens, duration_s = run["completion_tokens"], run["duration_s"]
    rate: float | None = run["output_tok_per_s"]
    if rate is None or tokens is None or not duration_s or run["tool"] not in (None, "drafthouse"):
        return rate
    return float(tokens / duration_s)


def _is_complete(request: Mapping[str, Any]) -> bool:
    """Return whether the request fits into vLLM's arrays, whose numbers cannot be null."""
    needed = ("ttft_ms", "sent_s", "end_s", "chunk_s", "prompt_tokens", "completion_tokens")
    return not request["is_completed"] or all(request[name] is not None for name in needed)


def _arrays(requests: Sequence[Row]) -> dict[str, list[Any]]:
    """Return parallel arrays; a failed request has zeros, an empty text and its error, as in vLLM's own files."""
    done = [request if request["is_completed"] else None for request in requests]
    return {
        "input_lens": [request["prompt_tokens"] or 0 for request in requests],
        "output_lens": [request["completion_tokens"] if request else 0 for request in done],
        "ttfts": [request["ttft_ms"] / 1000 if request else 0.0 for request in done],
        "itls": [np.diff(request["chunk_s"]).tolist() if request else [] for request in done],
        "latencies": [_latency_s(request) if request else 0.0 for request in done],
        "start_times": [request["sent_s"] or 0.0 for request in requests],
        "generated_texts": [request["output_text"] or "" if request else "" for request in done],
        "errors": [
            request["error"] or ("" if request["is_completed"] else "the request never ended") for request in requests
        ],
    }


def _latency_s(request: Row) -> float:
    """Return the seconds from sending to the last chunk, vLLM's definition."""
    last_s: float = request["chunk_s"][-1] if request["chunk_s"] else request["end_s"]
    return last_s - float(request["sent_s"])
