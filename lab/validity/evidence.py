"""The evidence that checks judge: one run, one run of a study, and the lines of the engine's log within the window.

A run records the length of the log when its window began and ended. Bundles before format 3 do not: their lines are
selected by timestamp. Logs have local time without a zone, in whole seconds. The zone follows from the run: the log was
read when the run ended, so its last timestamp and the window's end are less than half a zone step apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lab.metrics.measure import Value
from lab.metrics.records import EngineLog, RunRecord, TelemetrySample
from lab.metrics.request_table import RequestTable

#: Timestamps of log lines in vLLM, SGLang and TensorRT-LLM.
_STAMPS = (
    re.compile(
        r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<month>\d\d)-(?P<day>\d\d) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d) "
    ),
    re.compile(r"^\[(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"),
    re.compile(r"^\[(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4})-(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\]"),
)
#: Zones differ from UTC by a multiple of this.
_ZONE_STEP_S = 900
#: How far the log's last moment may lie before the window began, and after it ended.
_BEFORE_S, _AFTER_S = 120, 300
#: The last request to the engine before the window resets its prefix cache. Searched within this many seconds.
_RESET = re.compile(r"reset(?:ting)? prefix cache|flush_cache|cache flushed", re.IGNORECASE)
_RESET_WITHIN_S = 5

Line = tuple[float | None, str]


def exact_lines(log: bytes, begin_bytes: int | None, end_bytes: int | None) -> tuple[str, ...] | None:
    """Return the lines begun between two lengths of the log; None if one is unknown or the log is shorter."""
    if begin_bytes is None or end_bytes is None or not 0 <= begin_bytes <= end_bytes <= len(log):
        return None
    if begin_bytes == end_bytes:
        return ()
    whole = log.find(b"\n", end_bytes - 1)  # the last line may have been half written
    return tuple(log[begin_bytes : None if whole < 0 else whole].decode("utf-8", "replace").splitlines())


def window_lines(log: str, started_at: str, window_s: float) -> tuple[str, ...] | None:
    """Return the lines of the window; None if the log has no timestamp that fits it.

    A line without a timestamp has that of the line before. Lines of the second in which the window began count only
    after the reset of the prefix cache, because the warm-up may have ended in the same second.
    """
    if (start := _utc(started_at)) is None:
        return None
    start_s, lines = start.timestamp(), list(_timed(log, start))
    zone_s = _zone_s(lines, start_s, start_s + window_s)
    if zone_s is None:
        return None
    begin, first_s = _begin(lines, start_s + zone_s)
    last_s = start_s + zone_s + window_s
    return tuple(text for t_s, text in lines[begin:] if t_s is not None and first_s <= t_s <= last_s)


def _utc(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _timed(log: str, start: datetime) -> Iterator[Line]:
    t_s: float | None = None
    for text in log.splitlines():
        stamp = next((match for pattern in _STAMPS if (match := pattern.search(text))), None)
        moment_s = None if stamp is None else _moment_s(stamp.groupdict(), start)
        t_s = t_s if moment_s is None else moment_s
        yield t_s, text


def _moment_s(stamp: Mapping[str, str], start: datetime) -> float | None:
    """The timestamp as if it were UTC. Without a year, it gets the year that brings it nearest to the window."""
    years = [int(stamp["year"])] if "year" in stamp else [start.year + step for step in (-1, 0, 1)]
    moments = [moment for year in years if (moment := _moment(year, stamp)) is not None]
    nearest = min(moments, key=lambda moment: abs(moment - start), default=None)
    return None if nearest is None else nearest.timestamp()


def _moment(year: int, stamp: Mapping[str, str]) -> datetime | None:
    try:
        month, day, hour, minute, second = (int(stamp[part]) for part in ("month", "day", "h", "m", "s"))
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:  # the 29th of February of another year, or no date at all
        return None


def _zone_s(lines: list[Line], start_s: float, end_s: float) -> float | None:
    """Seconds that the log's clock is ahead of UTC; None if the log's end does not fit the window."""
    last_s = max((t_s for t_s, _ in lines if t_s is not None), default=None)
    if last_s is None:
        return None
    zone_s = _ZONE_STEP_S * round((last_s - end_s) / _ZONE_STEP_S)
    widest_s = timedelta(hours=15).total_seconds()
    fits = start_s - _BEFORE_S <= last_s - zone_s <= end_s + _AFTER_S
    return float(zone_s) if fits and abs(zone_s) <= widest_s else None


def _begin(lines: list[Line], start_s: float) -> tuple[int, float]:
    """The first line that can be in the window, and the first moment that certainly is."""
    whole_s = float(int(start_s))
    resets = [
        place
        for place, (t_s, text) in enumerate(lines)
        if t_s is not None and whole_s - _RESET_WITHIN_S <= t_s <= whole_s and _RESET.search(text)
    ]
    return (resets[-1] + 1, whole_s) if resets else (0, whole_s + 1)


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
        """The requests that left the client, in the order in which they did."""
        left = self.requests.where(self.requests.known("sent_s"))
        order = np.lexsort((left.numbers("index"), left.numbers("sent_s")))
        return left if (np.diff(order) == 1).all() else left.take(order)

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
        return self.log.content.decode("utf-8", "replace") if self.log and self.run.circumstances.command else None

    @cached_property
    def window_log(self) -> tuple[str, ...] | None:
        """The lines that the engine logged within the window; None if that cannot be determined.

        They are exact if the run recorded the length of the log; for older bundles they go by the lines' times.
        """
        if self.log is None or self.engine_log is None:
            return None
        if (lines := exact_lines(self.log.content, self.log.begin_bytes, self.log.end_bytes)) is not None:
            return lines
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
