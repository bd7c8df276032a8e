"""`vllm bench serve --save-result`: one JSON object per run; plain, detailed (--save-detailed), appended
(--append-result), and as `vllm bench sweep` writes them, one by one or as a list. Times in its arrays are seconds.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator, Field

from interchange.build import build_run
from interchange.fields import (
    CHUNK_RATE,
    TRACE,
    Figure,
    Format,
    Moment,
    Taken,
    has_keys,
    is_record,
    latencies_of,
    latency_columns,
    of_each_record,
    one_of,
    take,
)
from interchange.formats import request_arrays
from interchange.formats.request_arrays import TimedArrays
from interchange.typed_json import Count, Name, Part, Record
from warehouse.bundles.imported_run import ImportedRequests, ImportedRun

_ENDPOINTS = {"openai": "completions", "vllm": "completions", "openai-chat": "chat"}
_GAP = "gaps between chunks, not tokens"
_LATENCIES = {"ttft": ("ttft", ""), "tpot": ("tpot", ""), "itl": ("icl", _GAP), "e2el": ("e2e", "up to the last chunk")}
#: The request rate's key in vLLM 0.3, whose script divided the whole latency by the number of tokens.
_FIRST = "request_inthroughput"
#: What TensorRT-LLM's copy of the client writes as every time to first token if the server did not stream. It also
#: subtracted that from the latency for tpot.
_NOT_STREAMED_MS = -1000.0
_OF_STREAMS = ("_ttft_ms", "_tpot_ms", "_itl_ms", "ttfts", "itls")
_POSITIONS = "spec_decode_per_position_acceptance_rates"
_DIFFUSION = (
    "committed_throughput",
    "steps_per_canvas",
    "committed_per_step",
    "committed_tokens",
    "denoising_steps",
    "canvas_positions",
)
_STATISTICS = ("mean", "std", "p25", "p50", "median", "p75", "p80", "p90", "p95", "p99", "p99.9")
_FIGURES: tuple[Figure, ...] = (
    Figure("model_id", "target"),
    Figure("num_prompts", "num_prompts"),
    Figure("max_concurrency", "concurrency", "unknown without a request_rate, and with ramp_up_strategy"),
    Figure("request_rate", "request_rate_rps", '"inf" is a closed loop'),
    Figure("burstiness", "burstiness", "Infinity, a constant rate, is left out"),
    Figure("endpoint_type", "endpoint", "if it is one of OpenAI's", type=one_of(_ENDPOINTS)),
    Figure("run_number", "repeat", "in a sweep"),
    Figure("benchmark_start_time_unix", "started_at", "in InferenceX's fork", type=Moment),
    Figure("completed", "requests_completed"),
    Figure("failed", "requests_failed"),
    Figure("duration", "duration_s"),
    Figure("total_input_tokens", "prompt_tokens"),
    Figure("total_output_tokens", "completion_tokens", "the server's usage, if sent"),
    Figure("request_throughput", "request_per_s"),
    Figure(_FIRST, "request_per_s", "vLLM 0.3, whose tpot is left out: it includes the first token"),
    Figure("output_throughput", "output_tok_per_s"),
    Figure("input_throughput", None, "no column; prompt_tokens / duration_s"),
    Figure("total_token_throughput", "total_tok_per_s", "files of 2024: computed from tokens and duration"),
    Figure("request_goodput", "goodput_request_per_s", "bounds of --goodput, which the file does not name"),
    Figure("request_goodput:", "goodput_request_per_s", "vLLM until 2025"),
    Figure("spec_decode_num_drafts", "num_drafts"),
    Figure("spec_decode_draft_tokens", "num_draft_tokens"),
    Figure("spec_decode_accepted_tokens", "num_accepted_tokens"),
    Figure("spec_decode_acceptance_rate", "acceptance_rate", factor=0.01),
    Figure("spec_decode_acceptance_length", "acceptance_length"),
    Figure(_POSITIONS, "acceptance_per_position", "its length is num_speculative_tokens"),
    Figure("max_output_tokens_per_s", None, CHUNK_RATE),
    Figure("max_concurrent_requests", None, "counted per second, so higher than the requests in flight at once"),
    Figure("rtfx", None, "a factor for audio"),
    *latencies_of("{statistic}_{latency}_ms", _LATENCIES, statistics=_STATISTICS),
    *(
        Figure(f"probe_{name}", None, "of probe requests beside the load")
        for name in ("completed", "failed", "median_e2el_ms", "p99_e2el_ms", "max_e2el_ms")
    ),
    *(
        Figure(f"{statistic}_{name}", None, "its name has no unit")
        for name in _LATENCIES
        for statistic in ("mean", "median", "std", "p90", "p95", "p99")
    ),
    Figure("user_throughput", None, "of TensorRT-LLM's copy: a mean over requests"),
    *(
        Figure(path.format(statistic), None, "of TensorRT-LLM's copy: a mean of requests' means")
        for path in ("{}_avg_decoded_tokens_per_iter", "avg_decoded_tokens_per_iter.{}")
        for statistic in ("mean", "min", "max", "median", "std", "p99")
    ),
    *(Figure(f"diffusion_{name}", None, "of a model that denoises") for name in _DIFFUSION),
    *(
        Figure(f"{statistic}_{name}_ms", None, "has the wait for the client's own limit")
        for name in ("client_queue_time", "e2el_including_client_queue")
        for statistic in _STATISTICS
    ),
)
_NOTES = {
    "date": "a label: it has no time zone",
    "mean_ttft_ms": "at -1000 (TensorRT-LLM's copy of the client, without streaming) ttft, tpot and itl are left out",
    "speculative_config": "method, draft_model, num_speculative_tokens (in a sweep)",
    "ttfts, itls, latencies or e2els, start_times, input_lens, output_lens, errors, generated_texts": (
        "the requests; failed ones have no latency"
    ),
}
_NOT_LABELS = {
    *(figure.path for figure in _FIGURES if figure.path != "endpoint_type"),
    *(*TimedArrays.model_fields, "queue_times", "speculative_config"),
}
_NEEDED = ("model_id", "completed", "duration", "total_input_tokens", "output_throughput")


def _is_result(value: object) -> bool:
    """Return whether it is a result, or the list of some in a sweep's summary.json."""
    return is_record(value, *_NEEDED, "request_throughput") or is_record(value, *_NEEDED, _FIRST)


def _is_sweep(value: object) -> bool:
    return has_keys(value[0] if isinstance(value, list) and value else value, "run_number")


class _Speculation(Record):
    method: Name = None
    draft_model: Name = Field(None, alias="model")
    num_speculative_tokens: Count | None = None


def _config(value: object) -> object:
    """Return a sweep's parameters, given as an object or as JSON text, as an object; None for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


class _Run(TimedArrays):
    speculative_config: Annotated[_Speculation | None, BeforeValidator(_config)] = None


def _run(part: Part, place: str) -> ImportedRun:
    owner = "a result of vllm bench serve"
    whole, unstreamed = part.content, part.content.get("mean_ttft_ms") == _NOT_STREAMED_MS
    if unstreamed:
        part = Part(part.document, {key: whole[key] for key in whole if not key.endswith(_OF_STREAMS)}, part.at)
    taken, run = take(part, _FIGURES, owner, _NEEDED), part.parse(_Run, owner)
    if unstreamed:
        taken.leave_out("ttft, tpot, itl", "the server did not stream")
    if whole.get("burstiness") == math.inf:
        taken.leave_out("burstiness", "infinite: requests at a constant rate")
    if isinstance(positions := taken.metrics.get("acceptance_per_position"), tuple):
        taken.columns["num_speculative_tokens"] = len(positions)
    if run.speculative_config is not None:
        taken.columns |= {name: value for name, value in run.speculative_config if value is not None}
    forget_unknown_loop(part, taken)
    if _FIRST in part.content:
        taken.drop(latency_columns("tpot"), "vLLM 0.3 includes the time to the first token")
    requests = request_arrays.read(part, run)
    if requests is None:
        taken.leave_out("requests", "the run was saved without --save-detailed")
        _count_failed(taken)
    return build_run(
        "vllm-bench-sweep" if _is_sweep(part.content) else "vllm-bench-serve",
        part.document,
        whole,
        taken,
        requests=None if requests is None else ImportedRequests.of(requests),
        place=place,
        labels=part.labels([key for key in part.content if key not in _NOT_LABELS]),
    )


def forget_unknown_loop(part: Part, taken: Taken) -> None:
    """Forget the concurrency limit of a file without a rate, which may belong to a closed or an open loop, and that of
    a rate that a trace or a ramp changes: alone it would mean a closed loop.
    """
    if part.content.get("request_rate", TRACE) == TRACE or part.content.get("ramp_up_strategy") is not None:
        taken.columns.pop("concurrency", None)


def _count_failed(taken: Taken) -> None:
    """Count the requests that were sent but did not complete: older versions write no `failed`."""
    sent, completed = taken.columns.get("num_prompts"), taken.metrics["requests_completed"]
    if "requests_failed" not in taken.metrics and isinstance(sent, int) and isinstance(completed, int):
        taken.metrics |= {"requests_failed": sent - completed} if sent >= completed else {}


FORMAT = Format(
    "vllm-bench-serve",
    "`vllm bench serve`, plain, detailed or appended",
    "vLLM 0.3 to 0.32.0",
    lambda value: _is_result(value) and not _is_sweep(value),
    of_each_record(_run),
    _FIGURES,
    _NOTES,
)
SWEEP = replace(
    FORMAT,
    name="vllm-bench-sweep",
    title="`vllm bench sweep`",
    detect=lambda value: _is_result(value) and _is_sweep(value),
)
