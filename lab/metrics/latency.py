"""Compute the latencies of a run in ms: one per request (NaN if unknown), or all gaps of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lab.metrics.definition import Metric
from lab.metrics.record_table import Floats
from lab.metrics.request_table import RequestTable

Samples = NDArray[np.float64]
#: All values of each of LATENCIES; None for an unknown one.
Latencies = Mapping[str, Samples | None]
#: The percentiles of each latency that a run has.
PERCENTILES = (50, 90, 95, 99)
Times = TypeVar("Times", float, Floats)


@dataclass(frozen=True, kw_only=True)
class Latency(Metric):
    """A metric of single requests, chunks or tokens: a run has its mean and percentiles.

    `each` names what has a value. `compute` returns the values, NaN where one is unknown; None if all are.
    `counts_tokens`: a value depends on the number of tokens of its request.
    """

    each: str
    counts_tokens: bool = False
    compute: Callable[[RequestTable], Floats | None]

    def samples_ms(self, completed: RequestTable) -> Samples | None:
        """Return all values; None where one request's are unknown: a part would mislead."""
        if self.counts_tokens and not completed.known("completion_tokens").all():
            return None
        values_ms = self.compute(completed)
        return None if values_ms is None else values_ms[~np.isnan(values_ms)]

    @property
    def values(self) -> str:
        """Describe the values: the formula, and what each value belongs to."""
        return f"{self.formula}, one value per {self.each}"


def ttft_ms(requests: RequestTable) -> Floats:
    return time_to_first_token_ms(requests.numbers("sent_s"), requests.numbers("first_token_s"))


def time_to_first_token_ms(sent_s: Times, first_token_s: Times) -> Times:
    """Define TTFT, for many requests or for one request of a window that is still running."""
    return (first_token_s - sent_s) * 1000.0


def ttft_from_intended_ms(requests: RequestTable) -> Floats:
    """Return the time to first token with the wait in the client, which `ttft_ms` leaves out."""
    return _between_ms(requests.numbers("intended_send_s"), requests.numbers("first_token_s"))


def ttfa_ms(requests: RequestTable) -> Floats:
    """Return the time to the first output that is not reasoning."""
    return _between_ms(requests.numbers("sent_s"), requests.numbers("first_answer_s"))


def send_delay_ms(requests: RequestTable) -> Floats:
    return _between_ms(requests.numbers("intended_send_s"), requests.numbers("sent_s"))


def tpot_ms(requests: RequestTable) -> Floats:
    """Return the time per output token; unknown for an output of one token."""
    tokens = requests.numbers("completion_tokens")
    generating_ms = _between_ms(requests.numbers("first_token_s"), requests.lists("chunk_s").lasts)
    per_token_ms: Floats = np.divide(generating_ms, tokens - 1, out=np.full(len(requests), np.nan), where=tokens >= 2)
    return per_token_ms


def e2e_ms(requests: RequestTable) -> Floats:
    return _between_ms(requests.numbers("sent_s"), requests.numbers("end_s"))


def e2e_from_intended_ms(requests: RequestTable) -> Floats:
    """Return the end-to-end latency with the wait in the client, which `e2e_ms` leaves out."""
    return _between_ms(requests.numbers("intended_send_s"), requests.numbers("end_s"))


def icl_ms(requests: RequestTable) -> Samples:
    """Return every gap between two chunks of a request."""
    gaps_ms: Samples = requests.lists("chunk_s").gaps * 1000.0
    return gaps_ms


def itl_ms(requests: RequestTable) -> Samples | None:
    """Return every gap between two chunks, divided over the tokens of the later chunk.

    None if the tokens of one chunk are unknown. The first chunk has no gap before it and gives no value.
    """
    chunks, tokens = requests.lists("chunk_s"), requests.lists("chunk_tokens")
    if not tokens.known.all() or not np.array_equal(tokens.bounds, chunks.bounds):
        return None
    counts = tokens.values
    if not (carrying := counts > 0).all():  # the gap before a chunk without tokens belongs to the next one with some
        chunks, counts = chunks.where(carrying), counts[carrying]
    gaps_ms, shared_by = chunks.gaps * 1000.0, counts[1:][chunks.follows]
    return gaps_ms if (shared_by == 1).all() else np.repeat(gaps_ms / shared_by, shared_by)


def _between_ms(start_s: Floats, end_s: Floats) -> Floats:
    return (end_s - start_s) * 1000.0
