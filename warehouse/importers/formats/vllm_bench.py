"""`vllm bench serve --save-result`: one JSON object a run; plain, detailed (--save-detailed), appended
(--append-result), and as `vllm bench sweep` writes them, one by one or as a list. Times in its arrays are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from warehouse.importers.build import assembled
from warehouse.importers.fields import CHUNK_RATE, OTHER_PERCENTILE, STD, Field, Taken, statistics_of, take
from warehouse.importers.formats import request_arrays
from warehouse.importers.formats.request_arrays import known
from warehouse.importers.json_node import Node
from warehouse.importers.json_reader import Document
from warehouse.importers.model import ImportedRun, LeftOut, Scalar

_GAP = "gaps between chunks, under whatever name: with speculation a chunk holds several tokens"
_LATENCIES = {"ttft": ("ttft", ""), "tpot": ("tpot", ""), "itl": ("icl", _GAP), "e2el": ("e2e", "up to the last chunk")}
FIELDS: tuple[Field, ...] = (
    Field("completed", "requests_completed"),
    Field("failed", "requests_failed"),
    Field("duration", "duration_s"),
    Field("total_input_tokens", "prompt_tokens"),
    Field("total_output_tokens", "completion_tokens", "the server's usage, where the server sends it"),
    Field("request_throughput", "request_per_s"),
    Field("output_throughput", "output_tok_per_s"),
    Field("total_token_throughput", "total_tok_per_s"),
    Field("request_goodput", "goodput_request_per_s", "of the bounds given to --goodput, which the file does not name"),
    Field("spec_decode_num_drafts", "num_drafts"),
    Field("spec_decode_draft_tokens", "num_draft_tokens"),
    Field("spec_decode_accepted_tokens", "num_accepted_tokens"),
    Field("spec_decode_acceptance_rate", "acceptance_rate", "percent made a fraction", 0.01),
    Field("spec_decode_acceptance_length", "acceptance_length", "the bonus token counts, as here"),
    Field("max_output_tokens_per_s", None, CHUNK_RATE),
    Field("max_concurrent_requests", None, "counted second by second, so higher than the requests in flight at once"),
    Field("rtfx", None, "a factor for audio"),
    *(one for name, (ours, words) in _LATENCIES.items() for one in statistics_of(f"{{}}_{name}_ms", ours, words)),
    *(Field(f"median_{name}_ms", f"{ours}_p50_ms", words) for name, (ours, words) in _LATENCIES.items()),
    *(Field(f"std_{name}_ms", None, STD) for name in _LATENCIES),
    *(Field(f"p{q}_{name}_ms", None, OTHER_PERCENTILE) for name in _LATENCIES for q in (25, 75, 80, 99.9)),
)
#: What is read without being one number.
ALSO_READ: dict[str, str] = {
    "model_id": "target",
    "request_rate": 'request_rate_rps; "inf" is a closed loop',
    "burstiness": "burstiness",
    "max_concurrency": "concurrency",
    "num_prompts": "num_prompts",
    "endpoint_type": "endpoint, where it is one of OpenAI's",
    "spec_decode_per_position_acceptance_rates": "acceptance_per_position; its length is num_speculative_tokens",
    "date": "a label: local time without a zone, so it is no started_at",
    "speculative_config": "method, draft_model, num_speculative_tokens (in a sweep)",
    "run_number": "repeat (in a sweep)",
    "ttfts, itls, latencies, start_times, input_lens, output_lens, errors, generated_texts": (
        "the requests; those with an error have no latency, although the file says 0.0"
    ),
}
_NOT_LABELS = {
    *(one.path for one in FIELDS),
    *(*request_arrays.ARRAYS, "ttfts", "itls", "queue_times"),
    *("model_id", "request_rate", "burstiness", "max_concurrency", "num_prompts", "run_number", "speculative_config"),
    "spec_decode_per_position_acceptance_rates",
}
_ENDPOINTS = {"openai": "completions", "vllm": "completions", "openai-chat": "chat"}
_NEEDED = ("model_id", "completed", "duration", "total_input_tokens", "request_throughput", "output_throughput")


def recognises(value: object) -> bool:
    if isinstance(value, list):  # a sweep's summary.json
        return bool(value) and all(isinstance(one, dict) and recognises(one) for one in value)
    return isinstance(value, dict) and all(key in value for key in (*_NEEDED, "total_token_throughput"))


def is_sweep(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and "run_number" in first


def read(documents: Sequence[Document]) -> list[ImportedRun]:
    return [run for document in documents for run in _runs(document)]


def _runs(document: Document) -> list[ImportedRun]:
    if isinstance(document.value, list):
        return [
            _run(Node(document, value, (place,)), f"[{place}]")
            for place, value in enumerate(document.value)
            if isinstance(value, dict)
        ]
    value = document.value if isinstance(document.value, dict) else {}
    return [_run(Node(document, value), f"line {document.line}" if document.line > 1 else "")]


def _run(node: Node, place: str) -> ImportedRun:
    for key in _NEEDED:
        if not node.has(key):
            raise node.error(key, "this is missing in a result of vllm bench serve")
    taken = take(node, FIELDS)
    if rates := known(node.numbers("spec_decode_per_position_acceptance_rates")):
        taken.metrics["acceptance_per_position"] = tuple(rates)
    requests = request_arrays.read(node)
    if requests is None:
        taken.left_out.append(LeftOut("requests", "the run was saved without --save-detailed"))
        _count_failed(node, taken)
    return assembled(
        "vllm-bench-sweep" if is_sweep(node.content) else "vllm-bench-serve",
        node.document,
        node.content,
        taken,
        columns=_columns(node, len(rates) or None),
        requests=requests,
        place=place,
        labels=node.labels([key for key in node.content if key not in _NOT_LABELS]),
    )


def _count_failed(node: Node, taken: Taken) -> None:
    """Versions before there was `failed`: what was sent and did not complete."""
    sent, done = node.count("num_prompts"), node.count("completed")
    if "requests_failed" not in taken.metrics and sent is not None and done is not None and sent >= done:
        taken.metrics["requests_failed"] = sent - done


def _columns(node: Node, positions: int | None) -> dict[str, Scalar]:
    return {
        "target": node.name("model_id"),
        "num_prompts": node.count("num_prompts"),
        "concurrency": node.count("max_concurrency"),
        "request_rate_rps": request_rate(node),
        "burstiness": node.number("burstiness"),
        "endpoint": _ENDPOINTS.get(node.name("endpoint_type") or ""),
        "repeat": node.count("run_number"),
        "num_speculative_tokens": positions,
        **_speculation(node),
    }


def request_rate(node: Node) -> float | None:
    """Requests per second; None for "inf", Infinity and null alike: everything was asked for at once."""
    value = node.content.get("request_rate")
    return None if value in ("inf", float("inf"), None) else node.number("request_rate")


def _speculation(node: Node) -> Mapping[str, Scalar]:
    """As a sweep's parameters tell it, as an object or as the text of one; nothing else in the file does."""
    given = node.content.get("speculative_config")
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(given, dict):
        return {}
    config = Node(node.document, given, (*node.path, "speculative_config"))
    found = {
        "method": config.name("method"),
        "draft_model": config.name("model"),
        "num_speculative_tokens": config.count("num_speculative_tokens"),
    }
    return {name: value for name, value in found.items() if value is not None}
