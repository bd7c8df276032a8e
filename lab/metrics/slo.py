"""Which requests meet every bound of the study's SLO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.metrics import latency
from lab.metrics.records import RequestRecord
from lab.study import Slo


def requests_within(completed: Sequence[RequestRecord], slo: Slo) -> list[RequestRecord] | None:
    """Return those that meet the SLO; None if it has no bounds, or if that is unknown of one of them."""
    if slo == Slo():
        return None
    met = [meets(request, slo) for request in completed]
    return None if None in met else [request for request, well in zip(completed, met, strict=True) if well]


def meets(request: RequestRecord, slo: Slo) -> bool | None:
    """Whether the request meets every bound that is set, or None if unknown. A single token has no TPOT to exceed."""
    if slo.tpot_ms is not None and request.completion_tokens is None:
        return None
    one_token = request.completion_tokens is not None and request.completion_tokens < 2
    measured = (
        (slo.ttft_ms, latency.ttft_ms(request)),
        (None if one_token else slo.tpot_ms, latency.tpot_ms(request)),
        (slo.e2e_ms, latency.e2e_ms(request)),
    )
    return all(value is not None and value <= bound for bound, value in measured if bound is not None)


def since_intended(request: RequestRecord) -> RequestRecord:
    """The request with latencies that include its wait in the client."""
    return replace(request, sent_s=request.intended_send_s)
