"""inference-perf's per_request_lifecycle_metrics.json: a list of requests with the moment of every chunk. Seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from warehouse.importers.build import assembled
from warehouse.importers.fields import Taken
from warehouse.importers.json_node import Node
from warehouse.importers.json_reader import Document
from warehouse.importers.model import ImportedRequest, ImportedRun


def recognises(value: object) -> bool:
    keys = ("start_time", "end_time", "info")
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and all(key in one for key in keys) for one in value)
    )


def in_order(document: Document) -> list[Node]:
    """The requests, in the order in which they were sent."""
    values = document.value if isinstance(document.value, list) else []
    nodes = [Node(document, value, (place,)) for place, value in enumerate(values) if isinstance(value, dict)]
    return sorted(nodes, key=_start_s)


def run(document: Document) -> ImportedRun:
    """The run of a file whose reports are not there: its requests, and what follows from them."""
    records, taken = in_order(document), Taken()
    found = requests(records)
    ends = [one.number("end_time") or 0.0 for one in records]
    if any(one.is_completed for one in found):
        taken.metrics["duration_s"] = max(max(ends) - _start_s(records[0]), 0.0)
    columns = {"target": model(records)}
    return assembled("inference-perf", document, document.value, taken, columns=columns, requests=found)


def requests(records: Sequence[Node]) -> list[ImportedRequest]:
    first_s = _start_s(records[0]) if records else 0.0
    return [_request(index, one, _start_s(one) - first_s) for index, one in enumerate(records)]


def model(records: Sequence[Node]) -> str | None:
    """What all requests asked for; None where they differ, or were not saved."""
    named = {_model(one) for one in records}
    return named.pop() if len(named) == 1 else None


def _model(one: Node) -> str | None:
    try:
        sent = json.loads(one.text("request") or "{}")
    except (ValueError, RecursionError):
        return None
    return Node(one.document, sent, (*one.path, "request")).name("model") if isinstance(sent, dict) else None


def _start_s(one: Node) -> float:
    start_s = one.number("start_time")
    if start_s is None:
        raise one.error("start_time", "a number is expected here, not null")
    return start_s


def _request(index: int, one: Node, sent_s: float) -> ImportedRequest:
    info = one.node("info") or Node(one.document, {}, one.path)
    response = info.node("response_metrics")
    usage = response.node("server_usage") if response else None
    prompt_tokens = usage.count("prompt_tokens") if usage else None
    if error := one.content.get("error"):
        inner = error.get("error_msg") if isinstance(error, dict) else error
        return ImportedRequest(index, str(inner or "it failed"), sent_s, prompt_tokens=prompt_tokens)
    start_s, end_s = _start_s(one), one.number("end_time")
    chunks = _moments(response, start_s)
    tokens = usage.count("completion_tokens") if usage else None
    return ImportedRequest(
        index,
        sent_s=sent_s,
        ttft_ms=(chunks[0] - start_s) * 1000 if chunks else None,
        tpot_ms=(chunks[-1] - chunks[0]) * 1000 / (tokens - 1) if chunks and tokens and tokens > 1 else None,
        e2e_ms=None if end_s is None else _after(one, "end_time", end_s - start_s) * 1000,
        chunk_gaps_ms=tuple((after - before) * 1000 for before, after in pairwise(chunks)) if chunks else None,
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
    )


def _moments(response: Node | None, start_s: float) -> list[float]:
    """When each chunk came; none where that was not saved. Raises ForeignFileError for times that run backwards."""
    values = response.numbers("chunk_times") if response else None
    if response is None or values is None or None in values:
        return []
    known = [value for value in values if value is not None]
    if any(after < before for before, after in pairwise([start_s, *known])):
        raise response.error("chunk_times", "a chunk came before the one before it: the times run backwards")
    return known


def _after(one: Node, key: str, seconds: float) -> float:
    if seconds < 0:
        raise one.error(key, "it ended before it began")
    return seconds
