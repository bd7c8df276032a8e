"""One run as the checks see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lab.metrics.latency import is_completed
from lab.metrics.measure import Value
from lab.metrics.records import RequestRecord, RunRecord, TelemetrySample
from lab.validity.engine_log import exact_lines, window_lines


class StudyRun(NamedTuple):
    """One run of a study: its record and its metrics.

    `outputs`: by prompt_id what completed requests got, or digests of it, of as many as are to be compared; None where
    they are unknown. `price_usd_per_hour`: the study's own, where it has one.
    """

    run: RunRecord
    metrics: Mapping[str, Value]
    outputs: Mapping[str, object] | None = None
    price_usd_per_hour: float | None = None


@dataclass(frozen=True)
class Evidence:
    """A run's record, requests and samples, its metrics (`lab.metrics.measure.measure`), and the engine log if any.

    Each request is one of the measured window; samples are in the order of time. Of an imported run `unrecorded` names
    what its file does not tell: whatever stands there means nothing. `doubts` are where its file contradicts itself.
    """

    run: RunRecord
    requests: Sequence[RequestRecord]
    samples: Sequence[TelemetrySample]
    metrics: Mapping[str, Value]
    log: bytes | None
    unrecorded: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()

    @cached_property
    def completed(self) -> tuple[RequestRecord, ...]:
        return tuple(request for request in self.requests if is_completed(request))

    @cached_property
    def sent(self) -> tuple[RequestRecord, ...]:
        """Those that left the client, in the order in which they did."""
        left = ((request.sent_s, request.index, request) for request in self.requests if request.sent_s is not None)
        return tuple(request for *_, request in sorted(left, key=lambda each: each[:2]))

    @cached_property
    def some_failed(self) -> bool:
        """A failed request leaves tokens in the server's counters that no usage tells."""
        return len(self.completed) < len(self.sent)

    @property
    def drafted_a_round(self) -> int:
        """How many tokens a round drafts at most; 0 without speculation."""
        return drafted_a_round(self.run)

    @property
    def window_s(self) -> float | None:
        return self.run.duration_s or self.number("duration_s")

    @cached_property
    def engine_log(self) -> str | None:
        """None where there is none, and where the server is not ours: then its log is not the engine's."""
        return self.log.decode("utf-8", "replace") if self.log and self.run.circumstances.command else None

    @cached_property
    def window_log(self) -> tuple[str, ...] | None:
        """The lines that the engine logged within the window; None where that cannot be told.

        Exactly, where the run knows how long the log was then; of an older bundle by the time of the lines.
        """
        if self.log is None or self.engine_log is None:
            return None
        if (found := exact_lines(self.log, self.run.log_begin_bytes, self.run.log_end_bytes)) is not None:
            return found
        return None if self.window_s is None else window_lines(self.engine_log, self.run.started_at, self.window_s)

    def number(self, metric: str) -> float | None:
        return number(self.metrics, metric)

    def grown(self, counter: str) -> float | None:
        """By how much a counter of the server grew over the window; None where it is unknown, or shrank."""
        before, after = (
            None if counters is None else getattr(counters, counter)
            for counters in (self.run.counters_before, self.run.counters_after)
        )
        return None if before is None or after is None or after < before else float(after - before)


def number(metrics: Mapping[str, Value], metric: str) -> float | None:
    """A metric that is one number; None where it is unknown."""
    value = metrics.get(metric)
    return None if value is None or isinstance(value, tuple) else float(value)


def drafted_a_round(run: RunRecord) -> int:
    return run.arm.speculation.num_speculative_tokens if run.arm.speculation else 0
