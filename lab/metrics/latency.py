"""Compute latencies in ms of the requests of a run: one for each, NaN where unknown, or all values of the run."""

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
#: All values of each of LATENCIES; None for one that is unknown.
Latencies = Mapping[str, Samples | None]
#: The percentiles of each latency that a run has.
PERCENTILES = (50, 90, 95, 99)
Times = TypeVar("Times", float, Floats)


@dataclass(frozen=True, kw_only=True)
class Latency(Metric):
    """A metric of single requests, chunks or tokens: a run has its mean and percentiles.

    `each` says what has a value. `compute` returns the values, NaN where one is unknown; None if all are.
    `counts_tokens` says that a value depends on the number of tokens of its request.
    """

    each: str
    counts_tokens: bool = False
    compute: Callable[[RequestTable], Floats | None]

    @property
    def values(self) -> str:
        """The formula, and what it is computed for."""
        return f"{self.formula}, one value per {self.each}"


def ttft_ms(requests: RequestTable) -> Floats:
    return time_to_first_token_ms(requests.numbers("sent_s"), requests.numbers("first_token_s"))


def time_to_first_token_ms(sent_s: Times, first_token_s: Times) -> Times:
    """The definition of TTFT: of many requests, or of one while its window runs."""
    return (first_token_s - sent_s) * 1000.0


def ttft_from_intended_ms(requests: RequestTable) -> Floats:
    """Time to first token including the wait for a free slot, which `ttft_ms` leaves out."""
    return _between_ms(requests.numbers("intended_send_s"), requests.numbers("first_token_s"))


def ttfa_ms(requests: RequestTable) -> Floats:
    """Time to the first output that is not reasoning."""
    return _between_ms(requests.numbers("sent_s"), requests.numbers("first_answer_s"))


def send_delay_ms(requests: RequestTable) -> Floats:
    return _between_ms(requests.numbers("intended_send_s"), requests.numbers("sent_s"))


def tpot_ms(requests: RequestTable) -> Floats:
    """Unknown for an output of one token."""
    tokens = requests.numbers("completion_tokens")
    generating_ms = _between_ms(requests.numbers("first_token_s"), requests.lists("chunk_s").lasts)
    per_token_ms: Floats = np.divide(generating_ms, tokens - 1, out=np.full(len(requests), np.nan), where=tokens >= 2)
    return per_token_ms


def e2e_ms(requests: RequestTable) -> Floats:
    return _between_ms(requests.numbers("sent_s"), requests.numbers("end_s"))


def e2e_from_intended_ms(requests: RequestTable) -> Floats:
    """End-to-end latency including the wait for a free slot, which `e2e_ms` leaves out."""
    return _between_ms(requests.numbers("intended_send_s"), requests.numbers("end_s"))


def icl_ms(requests: RequestTable) -> Samples:
    """Every gap between two chunks of a request."""
    gaps_ms: Samples = requests.lists("chunk_s").gaps * 1000.0
    return gaps_ms


def itl_ms(requests: RequestTable) -> Samples | None:
    """Every gap between two chunks, shared by the tokens of the later one.

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
