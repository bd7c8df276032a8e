"""AIPerf's profile_export.jsonl: a line a request, its figures with their units."""

from __future__ import annotations

from collections.abc import Sequence

from warehouse.importers.build import assembled
from warehouse.importers.fields import Taken
from warehouse.importers.formats.guidellm import started_at
from warehouse.importers.json_node import Node, top
from warehouse.importers.json_reader import Document
from warehouse.importers.model import ImportedRequest, ImportedRun, Scalar

_TO_MS = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 1e-3, "ns": 1e-6}
_NS_PER_S = 1e9


def recognises(value: object) -> bool:
    if not isinstance(value, dict) or "metrics" not in value:
        return False
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata


def run(lines: Sequence[Document]) -> ImportedRun:
    """The run of a file whose summary is not there: its requests, and what follows from them."""
    taken, kept = Taken(), _measured(lines)
    starts, ends = _moments(kept, "request_start_ns"), _moments(kept, "request_end_ns")
    found = requests(lines)
    if starts and len(ends) == len(starts) and any(one.is_completed for one in found):
        taken.metrics["duration_s"] = max(max(ends) - min(starts), 0.0) / _NS_PER_S
    content = [document.value for document in lines]
    return assembled("aiperf", lines[0], content, taken, columns=columns(lines), requests=found)


def requests(lines: Sequence[Document]) -> list[ImportedRequest]:
    """Those of the measured phase, in the order in which they were sent."""
    kept = _measured(lines)
    starts = _moments(kept, "request_start_ns")
    known = len(starts) == len(kept)
    order = sorted(range(len(kept)), key=lambda place: starts[place] if known else place)
    first_ns = min(starts, default=0.0)
    return [
        _request(index, kept[place], (starts[place] - first_ns) / _NS_PER_S if known else None)
        for index, place in enumerate(order)
    ]


def columns(lines: Sequence[Document]) -> dict[str, Scalar]:
    """What the lines tell of the run as a whole."""
    kept = _measured(lines)
    known: dict[str, Scalar] = {}
    if starts := _moments(kept, "request_start_ns"):
        known["started_at"] = started_at(min(starts) / _NS_PER_S)
    told = {spec.count("num_spec_tokens") for one in kept if (spec := one.node("spec_decode_acceptance"))}
    return known | ({"num_speculative_tokens": told.pop()} if len(told) == 1 else {})


def _in_ms(node: Node, name: str) -> float | None:
    """A figure with a unit of time, in ms; None where it is absent. Raises ForeignFileError for another unit."""
    inner = node.node(name)
    if inner is None or (value := inner.number("value")) is None:
        return None
    return value * _factor(inner)


def _factor(inner: Node) -> float:
    unit = inner.name("unit")
    if unit not in _TO_MS:
        raise inner.error("unit", f"found {unit}; supported are {', '.join(_TO_MS)}")
    return _TO_MS[unit]


def _measured(lines: Sequence[Document]) -> list[Node]:
    """Without the warm-up."""
    kept = []
    for document in lines:
        node = top(document)
        metadata = node.node("metadata") or node
        if (metadata.name("benchmark_phase") or "profiling") == "profiling":
            kept.append(node)
    return kept


def _moments(nodes: Sequence[Node], key: str) -> list[float]:
    """Nanoseconds since 1970, which are larger than any other number here."""
    found = []
    for node in nodes:
        metadata = node.node("metadata") or node
        value = metadata.content.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise metadata.error(key, "nanoseconds since 1970 are expected here")
        found.append(float(value))
    return found


def _request(index: int, node: Node, sent_s: float | None) -> ImportedRequest:
    metrics = node.node("metrics") or Node(node.document, {}, node.path)
    prompt_tokens = _count(metrics, "usage_prompt_tokens")
    if (error := node.content.get("error")) or (node.node("metadata") or node).flag("was_cancelled"):
        inner = error.get("message") if isinstance(error, dict) else error
        return ImportedRequest(index, str(inner or "it was cancelled"), sent_s, prompt_tokens=prompt_tokens)
    tokens, decoding_ms = _count(metrics, "usage_completion_tokens"), _in_ms(metrics, "decode_duration")
    return ImportedRequest(
        index,
        sent_s=sent_s,
        ttft_ms=_in_ms(metrics, "time_to_first_token"),
        tpot_ms=decoding_ms / (tokens - 1) if decoding_ms is not None and tokens and tokens > 1 else None,
        e2e_ms=_in_ms(metrics, "request_latency"),
        chunk_gaps_ms=_gaps(metrics),
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
        spec_drafts=_count(metrics, "spec_decode_steps"),
        spec_draft_tokens=_count(metrics, "spec_decode_draft_tokens"),
        spec_accepted_tokens=_count(metrics, "spec_decode_accepted_draft_tokens"),
    )


def _count(metrics: Node, name: str) -> int | None:
    inner = metrics.node(name)
    return inner.count("value") if inner else None


def _gaps(metrics: Node) -> tuple[float, ...] | None:
    inner = metrics.node("inter_chunk_latency")
    values = inner.numbers("value") if inner else None
    if inner is None or values is None or None in values:
        return None
    factor = _factor(inner)
    return tuple(value * factor for value in values if value is not None)
