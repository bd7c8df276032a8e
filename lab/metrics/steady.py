"""Throughput without ramp-up and drain, from the first to the last moment at which the streams were busy.

Total tokens over total time includes the tail, in which few requests are left. That is the figure everybody publishes;
this one is shown beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.metrics.latency import is_completed
from lab.metrics.records import RequestRecord

#: A stream is busy while it has a request in flight; from this share of busy streams on, the load counts as full.
BUSY_SHARE = 0.5
Window = tuple[float, float]  # seconds of the run's measured window


def steady_window(requests: Sequence[RequestRecord], streams: int) -> Window | None:
    """Return the first and last moment at which enough of `streams` had a request, failed ones included, or None.

    Between them streams may pause briefly: a request ends a little before the next one is sent.
    """
    until_s = max((each.end_s for each in requests if is_completed(each) and each.end_s is not None), default=None)
    if until_s is None:
        return None
    sent = [(each.sent_s, each.end_s) for each in requests if each.sent_s is not None and each.sent_s < until_s]
    moments = [(start_s, 1) for start_s, _ in sent]
    moments += [(until_s if end_s is None else min(end_s, until_s), -1) for _, end_s in sent]
    moments.sort(
        key=lambda moment: (moment[0], -moment[1])
    )  # a request that ends as another is sent hands its stream over
    busy = np.cumsum([step for _, step in moments])[:-1] >= BUSY_SHARE * streams
    full = np.flatnonzero(busy)
    if not full.size:
        return None
    begin_s, end_s = moments[full[0]][0], moments[full[-1] + 1][0]
    return (begin_s, end_s) if end_s > begin_s else None


def steady_tokens(requests: Sequence[RequestRecord], window: Window) -> int | None:
    """Return the tokens of completed requests that arrived within the window; None if one request's are unknown."""
    counts = [_within(request, window) for request in requests if is_completed(request)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _within(request: RequestRecord, window: Window) -> int | None:
    """Tokens of one request within the window. If it crosses a border, only the counts per chunk can tell."""
    inside = [window[0] < t_s <= window[1] for t_s in request.chunk_s]
    tokens = request.chunk_tokens
    if not inside:
        return None  # tokens that came in no chunk have no known time
    if all(inside):
        return request.completion_tokens
    if not any(inside):
        return 0
    if tokens is None or len(tokens) != len(inside) or sum(tokens) != request.completion_tokens:
        return None
    return sum(count for count, counts in zip(tokens, inside, strict=True) if counts)
