"""`vllm bench serve --save-result`: one JSON object per run; plain, detailed (--save-detailed), appended
(--append-result), and as `vllm bench sweep` writes them, one by one or as a list. Times in its arrays are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from interchange.build import build_run
from interchange.fields import CHUNK_RATE, OTHER_PERCENTILE, STD, Figure, Taken, statistics_of, take
from interchange.formats import request_arrays
from interchange.formats.request_arrays import TimedArrays
from interchange.json_reader import Document
from interchange.typed_json import Count, Name, Number, Numbers, OneLine, Part, Record, all_known, parts, whole
from warehouse.bundles.imported_run import ImportedRun, LeftOut, Scalar

_GAP = "gaps between chunks, not tokens: with speculation a chunk holds several tokens"
_LATENCIES = {"ttft": ("ttft", ""), "tpot": ("tpot", ""), "itl": ("icl", _GAP), "e2el": ("e2e", "up to the last chunk")}
FIELDS: tuple[Figure, ...] = (
    Figure("completed", "requests_completed"),
    Figure("failed", "requests_failed"),
    Figure("duration", "duration_s"),
    Figure("total_input_tokens", "prompt_tokens"),
    Figure("total_output_tokens", "completion_tokens", "the server's usage, if the server sends it"),
    Figure("request_throughput", "request_per_s"),
    Figure("output_throughput", "output_tok_per_s"),
    Figure("total_token_throughput", "total_tok_per_s"),
    Figure(
        "request_goodput", "goodput_request_per_s", "under the bounds given to --goodput, which the file does not name"
    ),
    Figure("request_goodput:", "goodput_request_per_s", "the same, of vLLM until 2025"),
    Figure("spec_decode_num_drafts", "num_drafts"),
    Figure("spec_decode_draft_tokens", "num_draft_tokens"),
    Figure("spec_decode_accepted_tokens", "num_accepted_tokens"),
    Figure("spec_decode_acceptance_rate", "acceptance_rate", "from percent to a fraction", 0.01),
    Figure("spec_decode_acceptance_length", "acceptance_length", "counts the bonus token, as Drafthouse does"),
    Figure("max_output_tokens_per_s", None, CHUNK_RATE),
    Figure("max_concurrent_requests", None, "counted per second, so higher than the requests in flight at once"),
    Figure("rtfx", None, "a factor for audio"),
    *(figure for name, (ours, words) in _LATENCIES.items() for figure in statistics_of(f"{{}}_{name}_ms", ours, words)),
    *(Figure(f"median_{name}_ms", f"{ours}_p50_ms", words) for name, (ours, words) in _LATENCIES.items()),
    *(Figure(f"std_{name}_ms", None, STD) for name in _LATENCIES),
    *(Figure(f"p{q}_{name}_ms", None, OTHER_PERCENTILE) for name in _LATENCIES for q in (25, 75, 80, 99.9)),
)
#: What is read without being one number.
PASSTHROUGH: dict[str, str] = {
    "model_id": "target",
    "request_rate": 'request_rate_rps; "inf" is a closed loop',
    "burstiness": "burstiness",
    "max_concurrency": "concurrency",
    "num_prompts": "num_prompts",
    "endpoint_type": "endpoint, if it is one of OpenAI's",
    "spec_decode_per_position_acceptance_rates": "acceptance_per_position; its length is num_speculative_tokens",
    "date": "a label, not started_at: local time without a time zone",
    "speculative_config": "method, draft_model, num_speculative_tokens (in a sweep)",
    "run_number": "repeat (in a sweep)",
    "ttfts, itls, latencies, start_times, input_lens, output_lens, errors, generated_texts": (
        "the requests; failed ones have no latency, although the file says 0.0"
    ),
}
_NOT_LABELS = {
    *(figure.path for figure in FIELDS),
    *(*TimedArrays.model_fields, "queue_times"),
    *("model_id", "request_rate", "burstiness", "max_concurrency", "num_prompts", "run_number", "speculative_config"),
    "spec_decode_per_position_acceptance_rates",
}
_ENDPOINTS = {"openai": "completions", "vllm": "completions", "openai-chat": "chat"}
_NEEDED = ("model_id", "completed", "duration", "total_input_tokens", "request_throughput", "output_throughput")


def detect(value: object) -> bool:
    if isinstance(value, list):  # a sweep's summary.json
        return bool(value) and all(isinstance(result, dict) and detect(result) for result in value)
    return isinstance(value, dict) and all(key in value for key in (*_NEEDED, "total_token_throughput"))


def is_sweep(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and "run_number" in first


def read(documents: Sequence[Document]) -> list[ImportedRun]:
    return [run for document in documents for run in _runs(document)]


class _Speculation(Record):
    method: Name = None
    draft_model: Name = Field(None, alias="model")
    num_speculative_tokens: Count | None = None


def _config(value: object) -> object:
    """A sweep's parameter, as an object or as the text of one; anything else is ignored."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _none_if_all_at_once(value: object) -> object:
    return None if value in ("inf", float("inf")) else value


#: Requests per second; None for "inf", Infinity and null alike: all requests were sent at once.
RequestRate = Annotated[Number | None, BeforeValidator(_none_if_all_at_once)]


class _Run(TimedArrays):
    model_id: OneLine
    completed: Count
    duration: Number
    total_input_tokens: Count
    request_throughput: Number
    output_throughput: Number
    num_prompts: Count | None = None
    max_concurrency: Count | None = None
    request_rate: RequestRate = None
    burstiness: Number | None = None
    endpoint_type: Name = None
    run_number: Count | None = None
    speculative_config: Annotated[_Speculation | None, BeforeValidator(_config)] = None
    spec_decode_per_position_acceptance_rates: Numbers | None = None


def _runs(document: Document) -> list[ImportedRun]:
    if isinstance(document.value, list):
        return [_run(part, f"[{part.at[0]}]") for part in parts(document, document.value)]
    return [_run(whole(document), f"line {document.line}" if document.line > 1 else "")]


def _run(part: Part, place: str) -> ImportedRun:
    run = part.parse(_Run, "a result of vllm bench serve")
    taken = take(part, FIELDS)
    if rates := all_known(run.spec_decode_per_position_acceptance_rates):
        taken.metrics["acceptance_per_position"] = tuple(rates)
    requests = request_arrays.read(part, run)
    if requests is None:
        taken.left_out.append(LeftOut("requests", "the run was saved without --save-detailed"))
        _count_failed(run, taken)
    return build_run(
        "vllm-bench-sweep" if is_sweep(part.content) else "vllm-bench-serve",
        part.document,
        part.content,
        taken,
        columns=_columns(run, len(rates) or None) | unknown_loop(part),
        requests=requests,
        place=place,
        labels=part.labels([key for key in part.content if key not in _NOT_LABELS]),
    )


def unknown_loop(part: Part) -> dict[str, Scalar]:
    """Forget the limit of a file without a rate: it is unknown whether it is that of a closed loop or an open one."""
    return {} if "request_rate" in part.content else {"concurrency": None}


def _count_failed(run: _Run, taken: Taken) -> None:
    """Older versions write no `failed`: count what was sent and did not complete."""
    if "requests_failed" not in taken.metrics and run.num_prompts is not None and run.num_prompts >= run.completed:
        taken.metrics["requests_failed"] = run.num_prompts - run.completed


def _columns(run: _Run, positions: int | None) -> dict[str, Scalar]:
    speculation = {} if run.speculative_config is None else dict(run.speculative_config)
    return {
        "target": run.model_id or None,
        "num_prompts": run.num_prompts,
        "concurrency": run.max_concurrency,
        "request_rate_rps": run.request_rate,
        "burstiness": run.burstiness,
        "endpoint": _ENDPOINTS.get(run.endpoint_type or ""),
        "repeat": run.run_number,
        "num_speculative_tokens": positions,
        **{name: value for name, value in speculation.items() if value is not None},
    }
