"""Latencies of single requests, in ms: of each request alone, and all of a run in one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.metrics.records import RequestRecord

Samples = NDArray[np.float64]

#: What a latency is and the fields it needs, by the name that its columns begin with.
LATENCIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "ttft": (
        "time to first token: first_token - sent, one value per completed request that gave a token",
        ("sent_s", "first_token_s"),
    ),
    "tpot": (
        (
            "time per output token: (last chunk - first token) / (completion_tokens - 1), one value per completed "
            "request of at least 2 tokens"
        ),
        ("first_token_s", "chunk_s", "completion_tokens"),
    ),
    "itl": (
        "inter-token latency: a chunk's gap divided evenly over the tokens of that chunk, one value per token",
        ("chunk_s", "chunk_tokens"),
    ),
    "icl": (
        (
            "inter-chunk latency: the gap between two chunks, one value per gap; a chunk may hold several tokens, so "
            "this is no token latency"
        ),
        ("chunk_s",),
    ),
    "e2e": ("end-to-end latency: end - sent, one value per completed request", ("sent_s", "end_s")),
}


def is_completed(request: RequestRecord) -> bool:
    return request.error is None and request.end_s is not None


def ttft_ms(request: RequestRecord) -> float | None:
    return _between_ms(request.sent_s, request.first_token_s)


def ttft_from_intended_ms(request: RequestRecord) -> float | None:
    """Counts the wait for a free slot too, which a limit on concurrency hides from `ttft_ms`."""
    return _between_ms(request.intended_send_s, request.first_token_s)


def send_delay_ms(request: RequestRecord) -> float | None:
    return _between_ms(request.intended_send_s, request.sent_s)


def tpot_ms(request: RequestRecord) -> float | None:
    if request.completion_tokens is None or request.completion_tokens < 2 or not request.chunk_s:
        return None
    generating_ms = _between_ms(request.first_token_s, request.chunk_s[-1])
    return None if generating_ms is None else generating_ms / (request.completion_tokens - 1)


def e2e_ms(request: RequestRecord) -> float | None:
    return _between_ms(request.sent_s, request.end_s)


def icl_ms(request: RequestRecord) -> Samples:
    return np.diff(np.asarray(request.chunk_s, dtype=np.float64)) * 1000.0


def itl_ms(request: RequestRecord) -> Samples | None:
    """None where the tokens of the chunks are unknown. The first chunk has no gap before it, so it gives no value."""
    if request.chunk_tokens is None or len(request.chunk_tokens) != len(request.chunk_s):
        return None
    tokens = np.asarray(request.chunk_tokens, dtype=np.int64)
    carrying = tokens > 0  # the gap before a chunk without tokens belongs to the next one that has some
    gaps_ms = np.diff(np.asarray(request.chunk_s, dtype=np.float64)[carrying]) * 1000.0
    shared_by = tokens[carrying][1:]
    return np.repeat(gaps_ms / shared_by, shared_by)


def samples_ms(completed: Sequence[RequestRecord]) -> dict[str, Samples | None]:
    """All values of each of LATENCIES; None where those of one request are unknown, so that none is a part of them."""
    tokens_known = all(request.completion_tokens is not None for request in completed)
    per_token = [itl_ms(request) for request in completed]
    return {
        "ttft": _of(ttft_ms(request) for request in completed),
        "tpot": _of(tpot_ms(request) for request in completed) if tokens_known else None,
        "itl": _joined(per_token),
        "icl": _joined([icl_ms(request) for request in completed]),
        "e2e": _of(e2e_ms(request) for request in completed),
    }


def _between_ms(start_s: float | None, end_s: float | None) -> float | None:
    return None if start_s is None or end_s is None else (end_s - start_s) * 1000.0


def _of(values: Iterable[float | None]) -> Samples:
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _joined(parts: Sequence[Samples | None]) -> Samples | None:
    known = [part for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    return np.concatenate(known) if known else np.empty(0)
