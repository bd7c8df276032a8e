"""Compute latencies in ms: of one request, and of all requests of a run in one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.metrics.records import RequestRecord

Samples = NDArray[np.float64]


def is_completed(request: RequestRecord) -> bool:
    return request.error is None and request.end_s is not None


def ttft_ms(request: RequestRecord) -> float | None:
    return _between_ms(request.sent_s, request.first_token_s)


def ttft_from_intended_ms(request: RequestRecord) -> float | None:
    """Time to first token including the wait for a free slot, which `ttft_ms` leaves out."""
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
    """None if tokens per chunk are unknown. The first chunk has no gap before it and gives no value."""
    if request.chunk_tokens is None or len(request.chunk_tokens) != len(request.chunk_s):
        return None
    tokens = np.asarray(request.chunk_tokens, dtype=np.int64)
    carrying = tokens > 0  # the gap before a chunk without tokens belongs to the next one that has some
    gaps_ms = np.diff(np.asarray(request.chunk_s, dtype=np.float64)[carrying]) * 1000.0
    shared_by = tokens[carrying][1:]
    return np.repeat(gaps_ms / shared_by, shared_by)


def samples_ms(completed: Sequence[RequestRecord]) -> dict[str, Samples | None]:
    """Return all values of each of LATENCIES. None where one request's values are unknown: a part would mislead."""
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
