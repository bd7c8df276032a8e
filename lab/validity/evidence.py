"""The evidence that checks judge: one run, or one run of a study."""

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

    `outputs`: outputs of completed requests, or their digests, by prompt_id, for as many as are compared; None if
    unknown. `price_usd_per_hour`: the study's own price, if it has one.
    """

    run: RunRecord
    metrics: Mapping[str, Value]
    outputs: Mapping[str, object] | None = None
    price_usd_per_hour: float | None = None


@dataclass(frozen=True)
class Evidence:
    """A run's record, requests and samples, its metrics (`lab.metrics.measure.measure`), and the engine log if any.

    Requests are those of the measured window; samples are in order of time. For an imported run, `unrecorded` names the
    fields that its file does not have, which hold placeholders; `doubts` are contradictions within its file.
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
        """The requests that left the client, in the order in which they did."""
        left = ((request.sent_s, request.index, request) for request in self.requests if request.sent_s is not None)
        return tuple(request for *_, request in sorted(left, key=lambda each: each[:2]))

    @cached_property
    def some_failed(self) -> bool:
        """Whether requests failed: their tokens are in the server's counters but in no usage."""
        return len(self.completed) < len(self.sent)

    @property
    def drafted_a_round(self) -> int:
        """The most tokens that a round drafts; 0 without speculation."""
        return drafted_a_round(self.run)

    @property
    def window_s(self) -> float | None:
        return self.run.duration_s or self.number("duration_s")

    @cached_property
    def engine_log(self) -> str | None:
        """The engine's log; None if there is none, or if Drafthouse did not start the server."""
        return self.log.decode("utf-8", "replace") if self.log and self.run.circumstances.command else None

    @cached_property
    def window_log(self) -> tuple[str, ...] | None:
        """The lines that the engine logged within the window; None if that cannot be determined.

        They are exact if the run recorded the length of the log; for older bundles they go by the lines' times.
        """
        if self.log is None or self.engine_log is None:
            return None
        if (found := exact_lines(self.log, self.run.log_begin_bytes, self.run.log_end_bytes)) is not None:
            return found
        return None if self.window_s is None else window_lines(self.engine_log, self.run.started_at, self.window_s)

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
