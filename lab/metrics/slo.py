"""Finds the requests that meet every bound of the study's SLO."""

from __future__ import annotations

import numpy as np

from lab.metrics import latency
from lab.metrics.record_table import Mask
from lab.metrics.request_table import RequestTable
from lab.study import Slo


def requests_within(completed: RequestTable, slo: Slo, *, from_intended: bool = False) -> Mask | None:
    """Return which requests meet the SLO; None if it has no bounds, or if one request cannot be judged."""
    if slo == Slo() or unknown(completed, slo).any():
        return None
    return meets(completed, slo, from_intended=from_intended)


def unknown(requests: RequestTable, slo: Slo) -> Mask:
    """Return which requests cannot be judged: a bound on TPOT needs the number of tokens."""
    if slo.tpot_ms is None:
        return np.zeros(len(requests), dtype=np.bool_)
    return ~requests.known("completion_tokens")


def meets(requests: RequestTable, slo: Slo, *, from_intended: bool = False) -> Mask:
    """Return which requests meet every bound that is set, leaving aside the `unknown` ones.

    A latency that was not measured meets no bound; a single token has no TPOT to exceed. With `from_intended`,
    latencies include the wait in the client.
    """
    ttft_ms, e2e_ms = (
        (latency.ttft_from_intended_ms, latency.e2e_from_intended_ms)
        if from_intended
        else (latency.ttft_ms, latency.e2e_ms)
    )
    met = np.ones(len(requests), dtype=np.bool_)
    if slo.ttft_ms is not None:
        met &= ttft_ms(requests) <= slo.ttft_ms
    if slo.tpot_ms is not None:
        met &= (latency.tpot_ms(requests) <= slo.tpot_ms) | (requests.numbers("completion_tokens") < 2)
    if slo.e2e_ms is not None:
        met &= e2e_ms(requests) <= slo.e2e_ms
    return met
