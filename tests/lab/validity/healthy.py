"""A healthy run on a GPU, in which no check finds anything and every check can look; with small changes to it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np

from lab.metrics.measure import measure
from lab.metrics.records import EngineLog, RequestRecord, RunRecord, ServerCounters, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.study import Load, Speculation, Workload
from lab.validity import Finding, Verdict, judge
from tests.warehouse.runs import circumstances, run_record

STREAMS, REQUESTS, TOKENS, ROUNDS = 4, 512, 64, 32
TTFT_S, STEP_S = 0.05, 0.01
LOAD = Load(max_concurrency=STREAMS, num_prompts=REQUESTS)
WORKLOAD = Workload(dataset="prose.jsonl", output_tokens=TOKENS)
DRAFT = Speculation(method="draft_model", model="draft", num_speculative_tokens=3)
STARTED = datetime(2026, 11, 21, 4, 0, 0, 200_000, tzinfo=UTC)
GPU = "NVIDIA H200 (GPU-1)"
CONFIG = {
    "compilation_config": "{'cudagraph_mode': <CUDAGraphMode.FULL: 2>, 'max_cudagraph_capture_size': 512}",
    "max_seq_len": "4096",
}
_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz      "))


@dataclass(frozen=True)
class Measured:
    """A run with all that belongs to it; metrics are always computed from it."""

    run: RunRecord
    requests: tuple[RequestRecord, ...]
    samples: tuple[TelemetrySample, ...] = ()
    log: str | None = None
    doubts: tuple[str, ...] = ()
    unrecorded: frozenset[str] = frozenset()

    def judged(self) -> Verdict:
        requests = RequestTable.of(self.requests)
        metrics = measure(self.run, requests, self.samples)
        run, doubts, unrecorded = self.run, self.doubts, self.unrecorded
        return judge(run, requests, self.samples, metrics, self.engine_log, unrecorded=unrecorded, doubts=doubts)

    @property
    def engine_log(self) -> EngineLog | None:
        places = self.run.log_begin_bytes, self.run.log_end_bytes
        return None if self.log is None else EngineLog(self.log.encode(), *places)

    def finding(self, check: str) -> Finding:
        """What this check found; fails where it found nothing."""
        verdict = self.judged()
        firing = [finding for finding in verdict.findings if finding.check == check]
        assert firing, [*verdict.findings, *verdict.skipped]
        return firing[0]

    def with_run(self, **changes: Any) -> Measured:
        return replace(self, run=RunRecord.model_validate(self.run.model_dump() | changes))

    def with_arm(self, **changes: Any) -> Measured:
        return self.with_run(arm=self.run.arm.model_copy(update=changes))

    def with_circumstances(self, **changes: Any) -> Measured:
        return self.with_run(circumstances=self.run.circumstances.model_copy(update=changes))

    def with_counters(self, **changes: Any) -> Measured:
        """The counters after the window, changed."""
        after = self.run.counters_after or ServerCounters()
        return self.with_run(counters_after=after.model_copy(update=changes))

    def with_client(self, **changes: Any) -> Measured:
        assert self.run.client is not None
        return self.with_run(client=self.run.client.model_copy(update=changes))

    def with_requests(self, every: int = 1, first: int | None = None, **changes: Any) -> Measured:
        """Every so-manieth request changed, of the first so many (or all)."""
        some = tuple(
            replace(request, **changes) if place % every == 0 and (first is None or place < first) else request
            for place, request in enumerate(self.requests)
        )
        return replace(self, requests=some)

    def with_samples(self, every: int = 1, **changes: Any) -> Measured:
        some = (
            replace(sample, **changes) if place % every == 0 else sample for place, sample in enumerate(self.samples)
        )
        return replace(self, samples=tuple(some))

    def with_log_line(self, text: str, at_s: float = 5.0) -> Measured:
        """A line of the engine's log, so many seconds after the window began."""
        log, line = self.log or "", f"{log_line(text, at_s)}\n"
        begin, end = self.run.log_begin_bytes or 0, self.run.log_end_bytes or 0
        if at_s < 0:
            log, begin, end = line + log, begin + len(line), end + len(line)
        elif at_s <= (self.run.duration_s or 0.0):
            log, end = log[:end] + line + log[end:], end + len(line)
        else:
            log += line
        return replace(self.with_run(log_begin_bytes=begin, log_end_bytes=end), log=log)


def text_of(seed: int, characters: int) -> str:
    return "".join(np.random.default_rng(seed).choice(_LETTERS, characters))


def log_line(text: str, at_s: float) -> str:
    """As vLLM writes it: local time without a zone."""
    moment = (STARTED + timedelta(seconds=at_s)).astimezone(timezone(timedelta(hours=2)))
    return f"(EngineCore pid=7) INFO {moment:%m-%d %H:%M:%S} [core.py:1] {text}"


@functools.cache
def healthy(*, drafted: bool = False) -> Measured:
    """Without speculation (nothing at all is found), or with a draft of three tokens."""
    requests = tuple(_request(place, drafted=drafted) for place in range(REQUESTS))
    window_s = max(request.end_s or 0.0 for request in requests)
    run = run_record(
        arm={"name": "drafted", "speculation": DRAFT} if drafted else {"name": "plain", "baseline": True},
        is_baseline=not drafted,
        workload=WORKLOAD,
        load=LOAD,
        started_at=STARTED.isoformat(),
        duration_s=window_s,
        warmup_requests=STREAMS,
        counters_before=_counters(1000.0, drafted=drafted),
        counters_after=_counters(1000.0, requests, drafted=drafted),
        circumstances=circumstances(effective_config=CONFIG, gpus=(GPU,), hardware="NVIDIA H200", engine="vllm"),
    )
    samples = tuple(_sample(float(second)) for second in range(1, int(window_s) + 1))
    idle = replace(
        _sample(window_s), requests_in_flight=0, chunks_received=0, engine_running=0, gpu_utilisation_percent=0.0
    )
    measured = Measured(run, requests, (*samples, idle, idle), "").with_log_line("Resetting prefix cache...", -0.1)
    for second in range(10, int(window_s), 10):
        measured = measured.with_log_line("Engine 000: Running: 4 reqs", second)
    return measured


def _request(place: int, *, drafted: bool) -> RequestRecord:
    """Times vary by a tenth, by chance."""
    chance = np.random.default_rng(place)
    rounds, tokens_a_round = (ROUNDS, TOKENS // ROUNDS) if drafted else (TOKENS, 1)
    sent_s = (place // STREAMS) * (1.3 * TTFT_S + 1.2 * STEP_S * rounds)
    first_s = sent_s + TTFT_S * chance.uniform(0.9, 1.1)
    chunk_s = first_s + np.cumsum([0.0, *(STEP_S * chance.uniform(0.9, 1.1, rounds - 1))])
    of_prompt = np.random.default_rng(place)  # the same in every arm
    of_prompt.uniform(size=TOKENS)
    prompt = text_of(place, int(of_prompt.integers(80, 800)))
    return RequestRecord(
        index=place,
        prompt_id=f"p{place}",
        category="prose",
        prompt=prompt,
        requested_output_tokens=TOKENS,
        intended_send_s=sent_s,
        sent_s=sent_s,
        first_token_s=first_s,
        end_s=float(chunk_s[-1]),
        chunk_s=tuple(chunk_s.tolist()),
        chunk_tokens=(tokens_a_round,) * rounds,
        prompt_tokens=len(prompt) // 4,
        completion_tokens=TOKENS,
        finish_reason="length",
        error=None,
        output_text=text_of(-place % 10_007, 4 * TOKENS),
        spec_drafts=rounds if drafted else None,
        spec_draft_tokens=3 * rounds if drafted else None,
        spec_accepted_tokens=TOKENS - rounds if drafted else None,
        resent=0,
    )


def _counters(base: float, requests: tuple[RequestRecord, ...] = (), *, drafted: bool) -> ServerCounters:
    rounds = base + ROUNDS * len(requests)
    prompt_tokens = base + sum(request.prompt_tokens or 0 for request in requests)
    return ServerCounters(
        prompt_tokens=prompt_tokens,
        generation_tokens=base + TOKENS * len(requests),
        num_drafts=rounds if drafted else None,
        num_draft_tokens=3 * rounds if drafted else None,
        num_accepted_tokens=rounds if drafted else None,
        num_accepted_tokens_per_position=(0.75 * rounds, 0.25 * rounds, 0.0) if drafted else None,
        prefix_cache_queries=prompt_tokens,
        prefix_cache_hits=base,
        num_preemptions=0.0,
    )


def _sample(t_s: float) -> TelemetrySample:
    return TelemetrySample(
        t_s=t_s,
        loop_lag_ms=2.0,
        requests_in_flight=STREAMS,
        requests_done=7,
        chunks_received=400,
        engine_running=STREAMS,
        engine_waiting=0,
        gpu_utilisation_percent=95.0,
        gpu_sm_clock_mhz=1980.0,
        gpu_power_w=600.0,
        gpu_throttle_reasons="",
        gpu_other_processes=0,
        other_cpu_percent=2.0,
        run_queue=3,
        memory_pressure_percent=0.0,
        cpu_mhz=3000.0,
    )
