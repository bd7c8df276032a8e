"""Requests as vLLM's and SGLang's clients save them: an array for each of their times (seconds) and counts."""

from __future__ import annotations

from collections.abc import Sequence

from warehouse.importers.json_node import Node
from warehouse.importers.model import ImportedRequest

#: Beside ttfts and itls, which every detailed file has.
ARRAYS = ("input_lens", "output_lens", "latencies", "start_times", "generated_texts", "errors")


def read(node: Node) -> list[ImportedRequest] | None:
    ttfts, itls = node.numbers("ttfts"), node.items("itls")
    if ttfts is None or itls is None:
        return None
    count = len(ttfts)
    arrays = {"itls": itls} | {key: items for key in ARRAYS if (items := node.items(key)) is not None}
    for key, items in arrays.items():
        if len(items) != count:
            raise node.error(key, f"it has {len(items)} values where ttfts has {count}: the file is damaged")
    inputs, outputs = (node.counts(key) or [None] * count for key in ("input_lens", "output_lens"))
    latencies, starts = node.numbers("latencies") or [None] * count, known(node.numbers("start_times"))
    first_s = min(starts, default=0.0)
    errors, texts = node.items("errors"), node.items("generated_texts")
    return [
        request(
            index,
            error=_error(errors, index, ttfts[index], outputs[index]),
            sent_s=starts[index] - first_s if len(starts) == count else None,
            ttft_s=ttfts[index],
            gaps_s=gaps(node, "itls", index),
            latency_s=latencies[index],
            lengths=(inputs[index], outputs[index]),
            text=texts[index] if texts else None,
        )
        for index in range(count)
    ]


def request(
    index: int,
    *,
    error: str | None,
    sent_s: float | None,
    ttft_s: float | None,
    gaps_s: tuple[float, ...],
    latency_s: float | None,
    lengths: tuple[int | None, int | None],
    text: object,
) -> ImportedRequest:
    """One request from its place in every array. Of a failed one nothing but its error and its prompt is known."""
    prompt_tokens, tokens = lengths
    if error is not None or ttft_s is None:
        return ImportedRequest(index, error or "no first token", sent_s, prompt_tokens=prompt_tokens)
    decoding_s = sum(gaps_s) if latency_s is None else max(latency_s - ttft_s, 0.0)
    return ImportedRequest(
        index,
        sent_s=sent_s,
        ttft_ms=ttft_s * 1000,
        tpot_ms=decoding_s * 1000 / (tokens - 1) if tokens is not None and tokens > 1 else None,
        e2e_ms=(ttft_s + decoding_s) * 1000,
        chunk_gaps_ms=tuple(gap * 1000 for gap in gaps_s),
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
        output_text=text if isinstance(text, str) else None,
    )


def gaps(node: Node, key: str, index: int) -> tuple[float, ...]:
    """One request's list in a list of lists."""
    items = node.items(key) or ()
    inner = Node(node.document, {str(index): items[index]}, (*node.path, key))
    return tuple(known(inner.numbers(str(index))))


def _error(errors: Sequence[object] | None, index: int, ttft_s: float | None, tokens: float | None) -> str | None:
    """None for a request that completed. Where the file has no errors, one without a token and a wait has failed."""
    if errors is not None:
        return str(errors[index]) if errors[index] else None
    return None if ttft_s or tokens else "neither a token nor a wait is recorded"


def known(values: Sequence[float | None] | None) -> list[float]:
    """The values, or nothing where one is unknown."""
    found = [value for value in values or () if value is not None]
    return found if len(found) == len(values or ()) else []
