"""The evidence that checks judge: one run, one run of a study, and the lines of the engine's log within the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lab.metrics.measure import Value
from lab.metrics.records import EngineLog, RunRecord, TelemetrySample
from lab.metrics.request_table import RequestTable


def window_lines(log: bytes, begin_bytes: int | None, end_bytes: int | None) -> tuple[str, ...] | None:
    """Return the lines begun between two lengths of the log; None if one is unknown or the log is shorter."""
    if begin_bytes is None or end_bytes is None or not 0 <= begin_bytes <= end_bytes <= len(log):
        return None
    if begin_bytes == end_bytes:
        return ()
    whole = log.find(b"\n", end_bytes - 1)  # the last line may have been half written
    return tuple(log[begin_bytes : None if whole < 0 else whole].decode("utf-8", "replace").splitlines())


class Lengths(NamedTuple):
    """The lengths of one answered request; None if the server did not count."""

    prompt_tokens: int | None
    output_tokens: int | None
    output_chars: int


class StudyRun(NamedTuple):
    """One run of a study: its record and its metrics.

    `outputs`: outputs of completed requests, or their digests, by prompt_id, for as many as are compared; None if
    unknown. `price_usd_per_hour`: the study's own price, if it has one. `lengths`: those of the same requests.
    `rounds`: duration and compared figures of each round of a run in rounds.
    """

    run: RunRecord
    metrics: Mapping[str, Value]
    outputs: Mapping[str, object] | None = None
    price_usd_per_hour: float | None = None
    lengths: Mapping[str, Lengths] | None = None
    rounds: Sequence[Mapping[str, Value]] = ()


@dataclass(frozen=True)
class Evidence:
    """A run's record, requests and samples, its metrics (`lab.metrics.measure.measure`), and the engine log if any.

    Requests are those of the measured window; samples are in order of time. For an imported run, `unrecorded` names the
    fields that its file does not have, which hold placeholders; `doubts` are contradictions within its file.
    """

    run: RunRecord
    requests: RequestTable
    samples: Sequence[TelemetrySample]
    metrics: Mapping[str, Value]
    log: EngineLog | None
    unrecorded: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()

    @property
    def completed(self) -> RequestTable:
        return self.requests.completed

    @cached_property
    def sent(self) -> RequestTable:
        """Return the requests that the client sent, in the order of sending."""
        left = self.requests.where(self.requests.known("sent_s"))
        order = np.lexsort((left.numbers("index"), left.numbers("sent_s")))
        return left if (np.diff(order) == 1).all() else left.take(order)

    @cached_property
    def some_failed(self) -> bool:
        """Return whether requests failed: their tokens are in the server's counters but in no usage."""
        return len(self.completed) < len(self.sent)

    @property
    def drafted_a_round(self) -> int:
        """Return the most tokens that a round drafts; 0 without speculation."""
        return drafted_a_round(self.run)

    @property
    def window_s(self) -> float | None:
        return self.run.duration_s or self.number("duration_s")

    @cached_property
    def engine_log(self) -> str | None:
        """Return the engine's log; None if there is none, or if Drafthouse did not start the server."""
        return self.log.content.decode("utf-8", "replace") if self.log and self.run.circumstances.command else None

    @cached_property
    def window_log(self) -> tuple[str, ...] | None:
        """Return the lines logged within the window; None if the window's position in the log is unknown."""
        if self.log is None or self.engine_log is None:
            return None
        return window_lines(self.log.content, self.log.begin_bytes, self.log.end_bytes)

    def number(self, metric: str) -> float | None:
        return number(self.metrics, metric)

    def grown(self, counter: str) -> float | None:
        """Return how much a counter of the server grew over the window; None if unknown, or if it shrank."""
        before, after = (
            None if counters is None else getattr(counters, counter)
            for counters in (self.run.counters_before, self.run.counters_after)
        )
        return None if before is None or after is None or after < before else float(after - before)


def number(metrics: Mapping[str, Value], metric: str) -> float | None:
    """Return a metric that is a single number, or None if unknown."""
    value = metrics.get(metric)
    return None if value is None or isinstance(value, tuple) else float(value)


def drafted_a_round(run: RunRecord) -> int:
    return run.arm.speculation.num_speculative_tokens if run.arm.speculation else 0
