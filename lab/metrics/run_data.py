"""The data of a run and the functions that compute its metrics, for `lab.metrics.catalogue`. Unknown is None."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lab.metrics import slo
from lab.metrics.definition import Metric, Value
from lab.metrics.latency import PERCENTILES, Latencies, Samples, ttfa_ms
from lab.metrics.record_table import Floats, Mask, Ragged
from lab.metrics.records import RunRecord, ServerCounters, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.metrics.telemetry import known, time_mean
from lab.quality.scores import scores
from lab.study.workload import NO_TEXT, WITH_GRAMMAR

Window = tuple[float, float]  # seconds of the run's measured window
Compute = Callable[["RunData"], Value]


@dataclass(frozen=True, kw_only=True)
class RunMetric(Metric):
    """A stored metric of a run.

    `of_failed`: a failed run has it too; `of_text`: it means nothing where a trace had no texts and random
    tokens were sent instead.
    """

    compute: Compute
    of_failed: bool = False
    of_text: bool = False


@dataclass(frozen=True)
class RunData:
    """The records of one run, intermediate results that several metrics use, and the metrics, each computed once.

    `from_s`: when its window began, of a round of a run (`lab.metrics.rounds`).
    """

    metrics: Mapping[str, RunMetric]
    run: RunRecord
    requests: RequestTable
    samples: Sequence[TelemetrySample]
    latencies_ms: Latencies  # of the completed requests
    from_s: float = 0.0
    _values: dict[str, Value] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        if name not in self._values:
            metric = self.metrics[name]
            is_known = self.run.status == "completed" or (metric.of_failed and len(self.requests) > 0)
            is_known = is_known and not (metric.of_text and self._has_no_text)
            self._values[name] = metric.compute(self) if is_known else None
        return self._values[name]

    def number(self, name: str) -> float | None:
        """Return the value of a metric with a single number."""
        value = self.value(name)
        assert not isinstance(value, tuple)  # noqa: S101 - tells mypy
        return value

    @cached_property
    def _has_no_text(self) -> bool:
        return bool(self.requests.equals("category", NO_TEXT).any())

    @property
    def completed(self) -> RequestTable:
        return self.requests.completed

    @cached_property
    def statistics(self) -> dict[str, Value]:
        """Return the statistics of all latencies by column name."""
        return {
            name: value for of, values in self.latencies_ms.items() for name, value in statistics_ms(of, values).items()
        }

    @cached_property
    def within_slo(self) -> Mask | None:
        """Return which completed requests are within the SLO; None if that is unknown.

        In a search for a capacity, the wait in the client counts, because the server must carry the load.
        """
        return slo.requests_within(self.completed, self.run.slo, from_intended=self.run.trial is not None)

    @cached_property
    def steady(self) -> tuple[tuple[RequestTable, Window], ...]:
        """Return the steady part of each window that has one, with its requests.

        Only a closed loop has any: arrivals at a rate leave streams empty on purpose.
        """
        streams = self.run.load.max_concurrency
        windows = by_round(self.requests) if self.run.load.closed_loop else ()
        together = streams > 1 and bool(self.requests.known("round").any())
        parts = ((requests, steady_window(requests, streams, begins_together=together)) for requests in windows)
        return tuple((requests, part) for requests, part in parts if part is not None)

    @cached_property
    def counted(self) -> dict[str, int]:
        """Return how much each counter grew; empty if one shrank, because the server restarted."""
        before, after = self.run.counters_before, self.run.counters_after
        if before is None or after is None:
            return {}
        pairs = {name: (getattr(before, name), getattr(after, name)) for name in ServerCounters.model_fields}
        numbers = {
            name: round(last - first)
            for name, (first, last) in pairs.items()
            if isinstance(first, float) and isinstance(last, float)
        }
        return {} if any(number < 0 for number in numbers.values()) else numbers

    @cached_property
    def rounds(self) -> tuple[Floats, Floats] | None:
        """Count, by number of tokens, the rounds that drafted that many and those that had at least that many accepted.

        None if the histogram of one request is unknown.
        """
        drafted, accepted, counts = (
            self.completed.lists(f"rounds_{name}") for name in ("drafted", "accepted", "count")
        )
        if not len(self.completed) or not counts.known.all() or not counts.values.size:
            return None
        size = int(drafted.values.max()) + 1
        rounds, reached = (
            np.bincount(tokens.values, weights=counts.values, minlength=size).astype(np.float64)
            for tokens in (drafted, accepted)
        )
        return rounds, _or_more(reached)

    @cached_property
    def acceptance_lengths(self) -> dict[str, Value]:
        """Return the acceptance lengths of the reasoning and of the answer, over all requests."""
        names = ("spec_drafts", "spec_accepted_tokens", "reasoning_rounds", "reasoning_accepted_tokens")
        sums = [whole_sum(self.completed.numbers(name)) for name in names]
        if None in sums or not self.value("reasoning_tokens"):
            return {}
        rounds, accepted, before, accepted_before = (int(number or 0) for number in sums)
        parts = {"reasoning": (accepted_before, before), "answer": (accepted - accepted_before, rounds - before)}
        return {part: 1 + made / of for part, (made, of) in parts.items() if of}

    @cached_property
    def tokens_per_chunk(self) -> dict[str, Value]:
        """Return the tokens per chunk before and after the answer began, without each request's first chunk."""
        chunks, tokens = self.completed.lists("chunk_s"), self.completed.lists("chunk_tokens")
        is_known = tokens.known.all() and np.array_equal(tokens.bounds, chunks.bounds)
        if not is_known or not self.value("reasoning_tokens"):
            return {}
        begins = np.nan_to_num(self.completed.numbers("first_answer_s"), nan=np.inf)[chunks.owners]
        later = np.concatenate(([False], chunks.follows)) if chunks.values.size else chunks.values > 0
        before = chunks.values < begins
        parts = {"reasoning": before & later, "answer": ~before & later}
        return {part: _ratio(float(tokens.values[mask].sum()), int(mask.sum())) for part, mask in parts.items()}

    @cached_property
    def known_scores(self) -> Floats | None:
        """Return the scores of the answers that have one; None if the workload has no scoring."""
        if self.run.workload.score is None:
            return None
        every = scores(self.run.workload.score, self.completed)
        known: Floats = every[~np.isnan(every)]
        return known


def of(function: Callable[..., float], *names: str) -> Compute:
    """Compute a metric from others; unknown where one of them is, or the whole of a quotient is zero."""

    def compute(data: RunData) -> float | None:
        numbers = [data.number(name) for name in names]
        if None in numbers:
            return None
        try:
            value = function(*numbers)
        except ZeroDivisionError:
            return None
        return value if math.isfinite(value) else None

    return compute


def quotient(part: str, whole: str) -> Compute:
    return of(operator.truediv, part, whole)


def sum_of(field: str) -> Compute:
    """Sum a field of the completed requests."""
    return lambda data: whole_sum(data.completed.numbers(field))


def growth_of(counter: str) -> Compute:
    return lambda data: data.counted.get(counter)


def statistic(name: str) -> Compute:
    return lambda data: data.statistics.get(name)


def mean_of(field: str) -> Compute:
    """Average a field of the telemetry over time."""
    return lambda data: time_mean(known(data.samples, field))


def most_of(field: str) -> Compute:
    """Find the greatest value of a field of the telemetry."""
    return lambda data: max((value for _, value in known(data.samples, field)), default=None)


def duration_s(data: RunData) -> float | None:
    return float(data.completed.numbers("end_s").max()) - data.from_s if len(data.completed) else None


def tokens_per_s_within_slo(data: RunData) -> float | None:
    if data.within_slo is None:
        return None
    tokens = data.completed.numbers("completion_tokens")[data.within_slo]
    return _ratio(whole_sum(tokens) if tokens.size else 0, data.number("duration_s"))


def output_tokens_per_s(data: RunData) -> float | None:
    """Return the throughput of output tokens: over the whole window, or over the full parts of several short ones.

    In short windows streams do not end together, so the whole falls short of what the load has in steady operation, and
    the more so the more the lengths of answers in time differ: that of an arm that drafts, say.
    """
    if data.requests.known("round").any():
        return steady_tokens_per_s(data)
    return _ratio(data.number("completion_tokens"), data.number("duration_s"))


def steady_tokens_per_s(data: RunData) -> float | None:
    tokens = [steady_tokens(requests, part) for requests, part in data.steady]
    known = [number for number in tokens if number is not None]
    return _ratio(sum(known), steady_window_s(data)) if len(known) == len(tokens) else None


def steady_window_s(data: RunData) -> float | None:
    return sum(last_s - first_s for _, (first_s, last_s) in data.steady) if data.steady else None


def acceptance_per_position(data: RunData) -> tuple[float, ...] | None:
    before, after = data.run.counters_before, data.run.counters_after
    first = None if before is None else before.num_accepted_tokens_per_position
    last = None if after is None else after.num_accepted_tokens_per_position
    drafts = data.counted.get("num_drafts")
    if first is None or last is None or len(first) != len(last) or not first or not drafts:
        return None
    rates = tuple((end - start) / drafts for start, end in zip(first, last, strict=True))
    return None if min(rates) < 0 else rates


def forbidden_draft_tokens(data: RunData) -> int | None:
    """Infer the drafted tokens that engines leave out of their counts.

    A request's first token comes with its prompt, and every other step of the target makes one token beside those
    accepted, even if the grammar left nothing of its draft.
    """
    names = ("server_generation_tokens", "num_accepted_tokens", "num_draft_tokens", "num_drafts", "requests_completed")
    counts = [count for count in map(data.value, names) if isinstance(count, int)]
    speculation = data.run.arm.speculation
    if data.run.workload.dataset != WITH_GRAMMAR or speculation is None or not speculation.drafts_at_every_step:
        return None
    if len(counts) < len(names) or data.value("requests_failed"):
        return None
    generated, accepted, drafted, rounds, answered = counts
    steps = max(generated - answered - accepted, rounds)
    return max(0, speculation.num_speculative_tokens * steps - drafted)


def rounds_by_draft_length(data: RunData) -> tuple[float, ...] | None:
    if data.rounds is None:
        return None
    rounds, _ = data.rounds
    return tuple((rounds / rounds.sum()).tolist())


def acceptance_of_drafted_position(data: RunData) -> tuple[float, ...] | None:
    if data.rounds is None:
        return None
    rounds, reached = data.rounds
    return tuple((reached[1 : rounds.size] / _or_more(rounds)[1:]).tolist()) or None


def _or_more(counts: Floats) -> Floats:
    """Return for each count the sum of it and all later counts."""
    sums: Floats = counts[::-1].cumsum()[::-1]
    return sums


def reasoning_tokens(data: RunData) -> int | None:
    """Sum the reasoning tokens; unknown if the length of an output is, because the answer cannot be counted then."""
    known_output = data.value("completion_tokens") is not None
    return whole_sum(data.completed.numbers("reasoning_tokens")) if known_output else None


def answer_tokens(data: RunData) -> float | None:
    output, reasoning = data.number("completion_tokens"), data.number("reasoning_tokens")
    return None if output is None or reasoning is None or reasoning > output else output - reasoning


def acceptance_length_of(part: str) -> Compute:
    return lambda data: data.acceptance_lengths.get(part)


def tokens_per_chunk_of(part: str) -> Compute:
    return lambda data: data.tokens_per_chunk.get(part)


def first_answer_ms(percent: int) -> Compute:
    def compute(data: RunData) -> float | None:
        waits_ms = ttfa_ms(data.completed)
        waits_ms = waits_ms[~np.isnan(waits_ms)]
        is_known = waits_ms.size and data.value("reasoning_tokens") is not None
        return float(np.percentile(waits_ms, percent)) if is_known else None

    return compute


def requests_scored(data: RunData) -> int | None:
    return None if data.known_scores is None else data.known_scores.size


def task_score(data: RunData) -> float | None:
    return None if data.known_scores is None or not data.known_scores.size else float(data.known_scores.mean())


def prefix_cache_hit_rate(data: RunData) -> float | None:
    """Return the share by the server's counters, else by the answers if all of them report it."""
    rate = _ratio(data.counted.get("prefix_cache_hits"), data.counted.get("prefix_cache_queries"))
    if rate is not None:
        return rate
    cached, prompts = (data.completed.numbers(name) for name in ("cached_prompt_tokens", "prompt_tokens"))
    total = float(prompts.sum())  # NaN if one is unknown
    return float(cached.sum()) / total if total > 0 and not np.isnan(cached).any() else None


def statistics_ms(name: str, samples: Samples | None) -> dict[str, Value]:
    """Return a latency's mean and percentiles by column name; empty without values."""
    if samples is None or not samples.size:
        return {}
    quantiles = zip(PERCENTILES, np.percentile(samples, PERCENTILES).tolist(), strict=True)
    return {f"{name}_mean_ms": float(samples.mean()), **{f"{name}_p{q}_ms": value for q, value in quantiles}}


def whole_sum(counts: Floats) -> int | None:
    """Return the sum of whole numbers; None if there are none or one is unknown (NaN)."""
    return int(counts.sum()) if counts.size and not np.isnan(counts).any() else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    """Return the quotient; None for a zero or unknown whole, and where it overflows."""
    if part is None or not whole:
        return None
    ratio = part / whole
    return ratio if math.isfinite(ratio) else None


def by_round(requests: RequestTable) -> list[RequestTable]:
    """Return the requests of each window in which the run was measured, in order."""
    if not requests.known("round").any():
        return [requests]
    rounds = requests.numbers("round")
    return [requests.where(rounds == number) for number in np.unique(rounds[~np.isnan(rounds)])]


def steady_window(requests: RequestTable, streams: int, *, begins_together: bool = False) -> Window | None:
    """Return the first and last moment at which all `streams` had a request, failed ones included, or None.

    Between them streams may pause briefly: a request ends a little before the next one is sent. Of streams that begin
    together the prompts are all read first, so they make fewer tokens than later: their window begins when the first
    answer has ended, as it ends when one stream has no more to send.
    """
    sent_s, end_s = requests.numbers("sent_s"), requests.numbers("end_s")
    if not requests.is_completed.any():
        return None
    until_s = end_s[requests.is_completed].max()
    begins_s = sent_s[sent_s < until_s]
    ends_s = np.fmin(end_s[sent_s < until_s], until_s)  # of a request without an end, `until_s`
    moments_s, steps = np.concatenate((begins_s, ends_s)), np.repeat((1, -1), begins_s.size)
    order = np.lexsort((-steps, moments_s))  # a request that ends as another is sent hands its stream over
    full = np.flatnonzero(np.cumsum(steps[order])[:-1] >= streams)
    if not full.size:
        return None
    first_s, last_s = float(moments_s[order[full[0]]]), float(moments_s[order[full[-1] + 1]])
    if begins_together:
        first_s = max(first_s, float(ends_s.min()))
    return (first_s, last_s) if last_s > first_s else None


def steady_tokens(requests: RequestTable, window: Window) -> int | None:
    """Return the tokens of completed requests that arrived within the window; None if one request's are unknown.

    A request that crosses a border of the window needs its counts per chunk. Tokens that came in no chunk have no known
    time.
    """
    completed = requests.completed
    chunks = completed.lists("chunk_s")
    within, counts = chunks.sums(_inside(chunks, window)), chunks.lengths
    whole = completed.numbers("completion_tokens")[within == counts]
    crossing = completed.where((within > 0) & (within < counts))
    tokens, times = crossing.lists("chunk_tokens"), crossing.lists("chunk_s")
    if not counts.all() or np.isnan(whole).any() or not np.array_equal(tokens.bounds, times.bounds):
        return None
    if (tokens.sums(tokens.values) != crossing.numbers("completion_tokens")).any():
        return None
    return int(whole.sum()) + int(tokens.values[_inside(times, window)].sum())


def _inside(times_s: Ragged, window: Window) -> Mask:
    return (window[0] < times_s.values) & (times_s.values <= window[1])
