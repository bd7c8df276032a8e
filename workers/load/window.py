"""The state of a run while it is measured: its requests so far, and how the client keeps up.

It has one measured window or several; between them its clock stands. A client whose event loop lags measures its own
delay, so the lag is recorded.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from lab.capacity.early_end import MissCount
from lab.metrics.latency import time_to_first_token_ms
from lab.metrics.records import ClientHealth, RequestRecord, TelemetrySample
from lab.study import Load
from workers.load.answer import Answer

#: Ended requests needed before the share of failed ones is judged (or all, if there are fewer).
JUDGED_FROM_REQUESTS = 10
_INTERVAL_S = 0.02


@dataclass(frozen=True)
class LoadProgress:
    """The progress of a window. Throughput and TTFT cover successful requests and the received part of those in flight,
    as far as the server counts it; None before the first token.

    `requests_total` is the maximum: a duration may end the load earlier.
    """

    elapsed_s: float
    requests_total: int
    requests_done: int  # failed ones too
    requests_failed: int
    requests_in_flight: int
    output_tok_per_s: float | None
    ttft_ms: float | None  # mean
    duration_s: float | None = None  # after which nothing more is sent

    @property
    def share_done(self) -> float:
        """Return the fraction done (0 to 1), by requests or elapsed time, whichever is further along."""
        of_requests = self.requests_done / self.requests_total if self.requests_total else 1.0
        return max(of_requests, min(1.0, self.elapsed_s / self.duration_s)) if self.duration_s else of_requests


class Window:
    """The measured time of a run. `begin` starts its clock, `end` stops it until it begins again."""

    def __init__(self, load: Load, requests_total: int, misses: MissCount | None = None) -> None:
        """`requests_total`: the most that become due. `misses`: counts the misses of a trial, which may end early."""
        self.requests_total = requests_total
        self.problem: str | None = None  # why sending stopped before the end of the load
        self.ended_early: str | None = None  # why a trial has ended before its last request
        self._misses = misses
        self.load = load
        self.records: list[RequestRecord] = []
        self.answering: dict[Answer, float] = {}  # in flight, with the moment when each was sent
        self.lag = LoopLag()
        self._failed = self._failed_sent = self._sent = self._tokens = 0
        self._ttft_sum_ms = 0.0
        self._late_max_s: float | None = None
        self._samples: list[TelemetrySample] = []
        self._sampled_requests = 0
        self.cpu_s = 0.0  # of the client's thread
        self.ends_s: list[float] = []  # of the windows so far; each begins where the one before ended
        self._requests_by_end: list[int] = []
        self._start_s = 0.0
        self._stands_at_s: float | None = 0.0

    def begin(self) -> None:
        """Begin a window; call it inside the event loop that sends the requests."""
        self._start_s, self._stands_at_s = time.perf_counter() - self.end_s, None
        self.lag.begin()

    def end(self) -> None:
        """End the window with the end of its last request."""
        ends_s = [record.end_s for record in self.records if record.end_s is not None]
        sampled_s = self._samples[-1].t_s if self._samples else 0.0
        self._stands_at_s = max(self.end_s, sampled_s, *ends_s)
        self.lag.note()
        self.sample()
        self.ends_s.append(self._stands_at_s)
        self._requests_by_end.append(len(self.records))

    @property
    def end_s(self) -> float:
        """Return where the last window ended; 0 before the first."""
        return self.ends_s[-1] if self.ends_s else 0.0

    def clock(self) -> float:
        """Return the measured seconds so far."""
        return time.perf_counter() - self._start_s if self._stands_at_s is None else self._stands_at_s

    def add(self, record: RequestRecord, due_s: float) -> None:
        """Record a request that ended. `due_s`: its send time, or when a stream became free, whichever is later."""
        self.records.append(record)
        if self._misses is not None and self.ended_early is None:
            self._misses.add(record)
            self.ended_early = self._misses.why_enough
        if record.sent_s is None:
            self._failed += 1
            return
        self._sent += 1
        self._late_max_s = max(self._late_max_s or 0.0, record.sent_s - due_s)
        if record.error is not None or record.first_token_s is None:
            self._failed += 1
            self._failed_sent += 1
        else:
            self._tokens += record.completion_tokens or 0
            self._ttft_sum_ms += time_to_first_token_ms(record.sent_s, record.first_token_s)
        self.problem = self.problem or self._too_many_failed()

    def requests(self) -> tuple[RequestRecord, ...]:
        """Return the requests in the order of sending, each with its round if there were several windows."""
        records = self.records
        if len(self.ends_s) > 1:
            begins = [0, *self._requests_by_end]
            records = [
                replace(record, round=number)
                for number, (begin, end) in enumerate(pairwise(begins))
                for record in records[begin:end]
            ]
        return tuple(sorted(records, key=lambda record: record.index))

    def _too_many_failed(self) -> str | None:
        """Judge sent requests only: a request that found no free stream says nothing about the server."""
        bound, failed, of = self.load.stop_on_error_share, self._failed_sent, self._sent
        if bound is None or of < min(JUDGED_FROM_REQUESTS, self.requests_total) or failed <= bound * of:
            return None
        first = next((record.error for record in self.records if record.error), "no token came")
        return (
            f"stopped early: {failed} of {of} requests had failed, and stop_on_error_share allows {bound:g} of them; "
            f"the first: {first}"
        )

    @property
    def in_flight(self) -> int:
        return len(self.answering)

    def progress(self) -> LoadProgress:
        elapsed_s, done = self.clock(), len(self.records)
        duration_s = self.load.duration_s
        if duration_s is not None and self._stands_at_s is not None:
            duration_s = min(duration_s, elapsed_s)  # the last answer may have ended a moment before
        begun = [(answer, sent_s) for answer, sent_s in self.answering.items() if answer.chunk_s]
        tokens = self._tokens + sum(answer.completion_tokens or 0 for answer, _ in begun)
        ttft_ms = self._ttft_sum_ms + sum(time_to_first_token_ms(sent_s, answer.chunk_s[0]) for answer, sent_s in begun)
        well = done - self._failed
        return LoadProgress(
            elapsed_s=elapsed_s,
            requests_total=self.requests_total,
            requests_done=done,
            requests_failed=self._failed,
            requests_in_flight=self.in_flight,
            output_tok_per_s=tokens / elapsed_s if well or tokens else None,
            ttft_ms=ttft_ms / (well + len(begun)) if well or begun else None,
            duration_s=duration_s,
        )

    def sample(self) -> None:
        """End the current second; its chunks are counted afterwards, from the records."""
        done = len(self.records) - self._sampled_requests
        self._sampled_requests = len(self.records)
        worst_ms = self.lag.worst_since_last_ms()
        self._samples.append(TelemetrySample(self.clock(), worst_ms, self.in_flight, done, chunks_received=0))

    def telemetry(self) -> tuple[TelemetrySample, ...]:
        """Return one sample a second, and one at the end of each window for the rest."""
        ends = [sample.t_s for sample in self._samples]
        chunks = np.zeros(len(ends), dtype=np.int64)
        for record in self.records:
            chunks += np.bincount(np.searchsorted(ends, record.chunk_s), minlength=len(ends))
        return tuple(replace(sample, chunks_received=int(n)) for sample, n in zip(self._samples, chunks, strict=True))

    def health(self) -> ClientHealth:
        return ClientHealth(
            loop_lag_p99_ms=self.lag.p99_ms(),
            loop_lag_max_ms=self.lag.max_ms(),
            late_send_max_ms=None if self._late_max_s is None else self._late_max_s * 1000,
            cpu_s=self.cpu_s,
        )


class LoopLag:
    """Schedules a wake-up every 20 ms and records how late it came. The loop's own timer rounds up by as much as 1
    ms.
    """

    def __init__(self) -> None:
        self._lags_ms = array("d")
        self._seen = 0
        self.begin()

    def begin(self) -> None:
        """Forget the last scheduled wake-up: time in which nothing is measured is no lag."""
        self._due_s = asyncio.get_running_loop().time()

    async def watch(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._due_s = loop.time() + _INTERVAL_S
            await asyncio.sleep(_INTERVAL_S)
            self.note()

    def note(self) -> None:
        """Add one sample: how late we are for the scheduled wake-up, or 0 before it."""
        self._lags_ms.append(max(0.0, (asyncio.get_running_loop().time() - self._due_s) * 1000))

    def worst_since_last_ms(self) -> float:
        """Return the worst lag since the last call; 0.0 if no interval has passed."""
        fresh, self._seen = self._lags_ms[self._seen :], len(self._lags_ms)
        return max(fresh, default=0.0)

    def p99_ms(self) -> float:
        """Return the 99th percentile of all samples; there must be at least one."""
        return float(np.percentile(self._lags_ms, 99))

    def max_ms(self) -> float:
        return max(self._lags_ms)
