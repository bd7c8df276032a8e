"""Every threshold of the checks of a run: what a check says just below it, just above it, and without what it needs.

The numbers stand here as literals, so that a changed constant in a check is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.metrics.measure import Value
from lab.study import Load, Sessions, Workload
from lab.validity import CHECKS, Finding, Severity, Skipped
from tests.lab.metrics.test_rounds import window
from tests.lab.validity.healthy import STREAMS, Measured
from tests.lab.validity.one_check import answer, few, samples, severity_of
from tests.lab.validity.trapped import RATED, beside, disturbed, drafted, plain, scheduled

Said = Severity | None
FAILED: dict[str, Any] = {"error": "broke", "first_token_s": None, "chunk_s": (), "completion_tokens": None}
LOOP = "round and " * 30
HOT, CAPPED = "sw_thermal_slowdown", "sw_power_cap"
JIT = "Triton kernel JIT compilation during inference: _fwd_kernel."
ONE = Load(max_concurrency=1, num_prompts=16)
TWO = Load(max_concurrency=2, num_prompts=16)
TRACE = Load(max_concurrency=STREAMS, num_prompts=512, arrivals="trace")


def counted_only(failed: int) -> Measured:
    return replace(few(20).with_requests(first=failed, **FAILED), unrecorded=frozenset({"error"}))


def ended_early(trial: Measured) -> Measured:
    return trial.with_run(ended_early="2 of 20 requests had missed the SLO")


def cut(at_limit: int = 3, limit: int = 100, characters: int = 600) -> Measured:
    """Prompts of 40 tokens with 4 characters each, and some at the limit with longer texts."""
    run = few(at_limit + 5, sent_prompt_tokens=None)
    texts = [(f"{place:03}" + "a" * (characters - 3), limit) for place in range(at_limit)]
    texts += [(f"{place:03}" + "b" * 157, 40) for place in range(5)]
    changed = (
        replace(request, prompt=text, prompt_tokens=n) for request, (text, n) in zip(run.requests, texts, strict=True)
    )
    return replace(run, requests=tuple(changed)).with_run(endpoint="chat")


def first_tokens(first_ms: float, later_ms: float, later: int = 3, window_s: float = 10.0) -> Measured:
    """One stream: the time to first token of the first request, and of the later ones."""
    run = few(1 + later).with_run(load=ONE, duration_s=window_s)
    times = [first_ms, *[later_ms] * later]
    moved = [
        replace(request, sent_s=float(place), first_token_s=place + ms / 1000)
        for place, (request, ms) in enumerate(zip(run.requests, times, strict=True))
    ]
    return replace(run, requests=tuple(moved))


def uncounted(share: float, run: Callable[[], Measured] = drafted, method: str = "mtp") -> Measured:
    """512 answers of 64 tokens, whose server counts no round for the steps that gave this share of the tokens."""
    counted = 512 * 63 - share * 512 * 64
    measured = run().with_counters(num_drafts=1000 + counted / 2, num_accepted_tokens=1000 + counted / 2)
    speculation = measured.run.arm.speculation
    assert speculation is not None
    return measured.with_arm(speculation=speculation.model_copy(update={"method": method}))


def compiling(pause_s: float) -> Measured:
    """A line of compilation in a window of 10 s, and a pause as long as this."""
    run = few(1, sent_s=0.0, first_token_s=0.1, chunk_s=(0.1, 0.1 + pause_s), end_s=2.0).with_run(duration_s=10.0)
    return run.with_log_line(JIT)


def answered_in(took_ms: float, of: Measured | None = None) -> Measured:
    """One answer of 64 tokens that came at once."""
    end_s = took_ms / 1000
    return few(1, of, sent_s=0.0, first_token_s=end_s, chunk_s=(end_s, end_s), end_s=end_s, completion_tokens=64)


def texts(tokens: int, *characters: int) -> Measured:
    """Prompts with the same number of tokens, whose texts have so many characters."""
    run = few(len(characters), sent_prompt_tokens=None, prompt_tokens=tokens)
    changed = (replace(request, prompt="a" * count) for request, count in zip(run.requests, characters, strict=True))
    return replace(run, requests=tuple(changed)).with_run(endpoint="chat")


def made_to_length(prompt_tokens: int) -> Measured:
    """Prompts of 10 + 100 tokens by their workload, of which the server read so many."""
    workload = Workload(dataset="prefix_repetition", prefix_tokens=10, input_tokens=100)
    return few(3, sent_prompt_tokens=None, prompt_tokens=prompt_tokens).with_run(workload=workload)


def configured(**config: str) -> Measured:
    """Without a draft, four streams."""
    return plain().with_circumstances(effective_config=config)


def repeated(count: int, output_text: str, first: int) -> Measured:
    """So many requests, the first of them with this output, the others with one that does not loop."""
    looping, sound = replace(plain().requests[0], output_text=output_text), plain().requests[0]
    return replace(plain(), requests=(*[looping] * first, *[sound] * (count - first)))


def lagging(p99_ms: float, *lags_ms: float) -> Measured:
    run = plain().with_client(loop_lag_p99_ms=p99_ms)
    return replace(run, samples=tuple(replace(run.samples[0], loop_lag_ms=lag_ms) for lag_ms in lags_ms))


def waiting_ms(wait_ms: float) -> Measured:
    return few(5, intended_send_s=1.0, sent_s=1.0 + wait_ms / 1000).with_run(load=RATED)


def clocks(first: float, last: float, count: int = 12, use: float = 50.0) -> Measured:
    half = count // 2
    busy = {"gpu_utilisation_percent": use}
    return samples(
        (half, busy | {"gpu_sm_clock_mhz": first}),
        (count - half, busy | {"gpu_sm_clock_mhz": last}),
    )


def idle(busy: int, use: float = 50.0, **doing: int) -> Measured:
    """Seconds without a request of this run, so many with the GPU at work; `doing` is what it did in these."""
    nothing = {"requests_in_flight": 0, "chunks_received": 0, "engine_running": 0}
    at_work = nothing | {"gpu_utilisation_percent": use} | doing
    return samples((3, nothing | {"gpu_utilisation_percent": 0.0}), (busy, at_work))


def speeds(early: Sequence[float], late: Sequence[float]) -> Measured:
    """Requests of 60 tokens at these speeds in tok/s, after and before those that do not count."""
    every = [100.0] * STREAMS + [*early, *late] + [100.0] * STREAMS
    run = few(len(every), completion_tokens=60)
    moved = (
        replace(request, sent_s=float(place), end_s=place + 60 / speed)
        for place, (request, speed) in enumerate(zip(run.requests, every, strict=True))
    )
    return replace(run, requests=tuple(moved))


def tail(all_until_s: float, streams_until_end: int = 1) -> Measured:
    """Four streams in a window of 100 s; so many of them go on to its end."""
    run = few(4, sent_s=0.0).with_run(duration_s=100.0)
    ended = [
        replace(request, end_s=100.0 if place < streams_until_end else all_until_s)
        for place, request in enumerate(run.requests)
    ]
    return replace(run, requests=tuple(ended))


def counted(tokens: float, requests: int = 100) -> Measured:
    """The server's counter of generated tokens grew by this many."""
    return few(requests).with_counters(generation_tokens=1000.0 + tokens)


def prompts_counted(tokens: float) -> Measured:
    return few(100).with_counters(prompt_tokens=1000.0 + tokens)


def whole_answers(at_once: int, of: int = 10, tokens: int = 21, span_s: float = 0.0009) -> Measured:
    """So many answers whose chunks came within this span."""
    slow = few(of, completion_tokens=tokens, chunk_s=(1.0, 2.0))
    return slow.with_requests(first=at_once, chunk_s=(1.0, 1.0 + span_s))


def busy_s(together_s: float) -> Measured:
    """Four requests in a window of 10 s that took this long together."""
    each_s = together_s / 4
    return few(4, sent_s=0.0, first_token_s=0.0, chunk_s=(), end_s=each_s).with_run(duration_s=10.0)


def accepted(by_server: float, of_each: int, requests: int) -> Measured:
    run = few(requests, drafted(), spec_accepted_tokens=of_each)
    return run.with_counters(num_accepted_tokens=1000.0 + by_server)


def captured(tokens: int, **config: str) -> Measured:
    sizes = f"{{'cudagraph_mode': <CUDAGraphMode.FULL: 2>, 'max_cudagraph_capture_size': {tokens}}}"
    return drafted().with_circumstances(effective_config={"compilation_config": sizes, **config})


def chat_of(tokens: int) -> Measured:
    """Two prompts without a common beginning, in a chat."""
    run = few(2, prompt_tokens=tokens).with_run(endpoint="chat")
    return replace(run, requests=(replace(run.requests[0], prompt="ab"), replace(run.requests[1], prompt="ba")))


NO_COUNTERS: dict[str, Any] = {"counters_before": None, "counters_after": None}


def without_log(run: Measured) -> Measured:
    return replace(run, log=None)


Case = tuple[str, Said | str, Callable[[], Finding | Skipped | None]]


def case(check: str, expected: Said | str, run: Callable[[], Measured], **metrics: Value) -> Case:
    return check, expected, lambda: answer(check, run(), **metrics)


CASES: tuple[Case, ...] = (
    case("requests_failed", "warning", lambda: few(20).with_requests(first=1, **FAILED)),
    case("requests_failed", "invalid", lambda: few(20).with_requests(first=2, **FAILED)),
    case("requests_failed", None, lambda: counted_only(0)),
    case("requests_failed", "warning", lambda: counted_only(1)),
    case("requests_failed", "invalid", lambda: counted_only(2)),
    case("requests_not_sent", "note", lambda: few(20).with_requests(first=1, sent_s=None, **FAILED)),
    case("requests_not_sent", "warning", lambda: few(20).with_requests(first=2, sent_s=None, **FAILED)),
    case("requests_not_sent", None, lambda: ended_early(few(20).with_requests(first=2, sent_s=None, **FAILED))),
    case("degenerate_output", None, lambda: few(20).with_requests(first=1, output_text=LOOP)),
    case("degenerate_output", "warning", lambda: few(20).with_requests(first=2, output_text=LOOP)),
    case("degenerate_output", "warning", lambda: few(20).with_requests(first=10, output_text=LOOP)),
    case("degenerate_output", "invalid", lambda: few(20).with_requests(first=11, output_text=LOOP)),
    case(
        "degenerate_output",
        "skipped: outputs long enough to tell whether they loop",
        lambda: few(20, output_text="short"),
    ),
    case("prompt_truncated", None, lambda: few(9, sent_prompt_tokens=100, prompt_tokens=100)),
    case("prompt_truncated", "warning", lambda: few(9, sent_prompt_tokens=100, prompt_tokens=98)),
    case("prompt_truncated", "invalid", lambda: few(9, sent_prompt_tokens=100, prompt_tokens=97)),
    case(
        "prompt_truncated",
        "skipped: the server's count of prompt tokens",
        lambda: few(9).with_requests(first=1, prompt_tokens=None),
    ),
    case("prompt_truncated", "warning", cut),
    case("prompt_truncated", None, lambda: cut(at_limit=2)),
    case("prompt_truncated", None, lambda: cut(characters=599)),
    case("prompt_truncated", "warning", lambda: cut(limit=64, characters=384)),
    case("prompt_truncated", None, lambda: cut(limit=63, characters=384)),
    case("prompt_truncated", None, lambda: few(0)),
    case("prompt_truncated", "warning", lambda: cut(at_limit=4).with_requests(first=1, prompt_tokens=0)),
    case("prompt_truncated", "warning", lambda: texts(100, 300, 350, 450)),
    case("prompt_truncated", None, lambda: texts(100, 300, 350, 449)),
    case("prompt_truncated", None, lambda: texts(100, 300, 450)),
    case("prompt_truncated", None, lambda: made_to_length(prompt_tokens=110)),
    case("prompt_truncated", "warning", lambda: made_to_length(prompt_tokens=109)),
    case("prompt_truncated", "invalid", lambda: made_to_length(prompt_tokens=107)),
    case("slow_first_requests", None, lambda: first_tokens(179.0, 60.0)),
    case("slow_first_requests", "warning", lambda: first_tokens(181.0, 60.0)),
    case("slow_first_requests", None, lambda: first_tokens(139.0, 40.0)),
    case("slow_first_requests", "warning", lambda: first_tokens(141.0, 40.0)),
    case("slow_first_requests", "warning", lambda: first_tokens(599.0, 60.0)),
    case("slow_first_requests", "invalid", lambda: first_tokens(601.0, 60.0)),
    case("slow_first_requests", "warning", lambda: first_tokens(601.0, 60.0, window_s=11.0)),
    case(
        "slow_first_requests",
        "skipped: 3 requests after the first 1 to compare them with",
        lambda: first_tokens(601.0, 60.0, later=2),
    ),
    case("compilation_in_window", "warning", lambda: compiling(0.49)),
    case("compilation_in_window", "invalid", lambda: compiling(0.51)),
    case("short_warm_up", None, lambda: plain().with_run(warmup_requests=4)),
    case("short_warm_up", "warning", lambda: plain().with_run(warmup_requests=3)),
    case("warm_prefix_cache", None, lambda: few(1), prefix_cache_hit_rate=0.05),
    case(
        "warm_prefix_cache",
        None,
        lambda: few(1).with_run(workload=Workload(dataset="prose.jsonl", sessions=Sessions())),
        prefix_cache_hit_rate=0.9,
    ),
    case("warm_prefix_cache", "warning", lambda: few(1), prefix_cache_hit_rate=0.051),
    case("warm_prefix_cache", "warning", lambda: few(1), prefix_cache_hit_rate=0.2),
    case("warm_prefix_cache", "invalid", lambda: few(1), prefix_cache_hit_rate=0.201),
    case("warm_prefix_cache", None, lambda: few(1).with_counters(prefix_cache_queries=1000.0)),
    case("warm_prefix_cache", None, lambda: few(3, prompt=""), prefix_cache_hit_rate=0.05),
    case("warm_prefix_cache", "warning", lambda: few(3, prompt=""), prefix_cache_hit_rate=0.06),
    case("warm_prefix_cache", None, lambda: few(3, prompt="abc"), prefix_cache_hit_rate=0.71),
    case("warm_prefix_cache", "warning", lambda: few(3, prompt="abc"), prefix_cache_hit_rate=0.72),
    case("warm_prefix_cache", None, lambda: chat_of(1000), prefix_cache_hit_rate=0.305),
    case("warm_prefix_cache", "warning", lambda: chat_of(1000), prefix_cache_hit_rate=0.307),
    case(
        "warm_prefix_cache", "skipped: the prefix cache's hits and queries", lambda: few(1), prefix_cache_hit_rate=None
    ),
    case("answers_from_cache", None, lambda: answered_in(3.3), tpot_p90_ms=0.0),
    case("answers_from_cache", "invalid", lambda: answered_in(3.1), tpot_p90_ms=0.0),
    case("answers_from_cache", None, lambda: answered_in(10.0), tpot_p90_ms=3.1),
    case("answers_from_cache", "invalid", lambda: answered_in(10.0), tpot_p90_ms=3.2),
    case("answers_from_cache", None, lambda: answered_in(10.0, drafted()), tpot_p90_ms=12.4),
    case("answers_from_cache", "invalid", lambda: answered_in(10.0, drafted()), tpot_p90_ms=12.6),
    case("answers_from_cache", None, lambda: answered_in(3.3), tpot_p90_ms=None),
    case("answers_from_cache", None, lambda: answered_in(0.0).with_requests(completion_tokens=2)),
    case("answers_from_cache", None, lambda: answered_in(0.0).with_requests(completion_tokens=None)),
    case("answers_from_cache", None, lambda: answered_in(0.0).with_requests(sent_s=None)),
    case("answers_from_cache", None, lambda: answered_in(3.1).with_requests(chunk_s=(0.0, 0.0032))),
    case("client_lag", None, lambda: lagging(20.0)),
    case("client_lag", "warning", lambda: lagging(20.1)),
    case("client_lag", "warning", lambda: lagging(50.0), ttft_p50_ms=100.0),
    case("client_lag", "invalid", lambda: lagging(50.1), ttft_p50_ms=100.0),
    case("client_lag", "warning", lambda: lagging(50.1), ttft_p50_ms=502.0),
    case("client_lag", "invalid", lambda: lagging(50.1), ttft_p50_ms=500.0),
    case("client_lag", "invalid", lambda: lagging(50.1), ttft_p50_ms=None),
    case("client_lag", "warning", lambda: lagging(50.1, 51.0, 51.0, 50.0), ttft_p50_ms=100.0),
    case("client_lag", "invalid", lambda: lagging(50.1, 51.0, 51.0, 51.0), ttft_p50_ms=100.0),
    case("late_sends", None, lambda: plain().with_client(late_send_max_ms=50.0)),
    case("late_sends", "warning", lambda: plain().with_client(late_send_max_ms=50.1)),
    case("late_sends", "warning", lambda: plain().with_client(late_send_max_ms=500.0)),
    case("late_sends", "invalid", lambda: plain().with_client(late_send_max_ms=500.1)),
    case("other_programs", None, plain, other_cpu_percent=10.0),
    case("other_programs", "note", plain, other_cpu_percent=10.1),
    case("other_programs", "note", plain, other_cpu_percent=50.0),
    case("other_programs", "warning", plain, other_cpu_percent=50.1),
    case("other_programs", "warning", lambda: plain().with_circumstances(gpus=()), other_cpu_percent=10.1),
    case("other_programs", "skipped: what other programs took of the processors", plain, other_cpu_percent=None),
    case("other_programs", "warning", lambda: samples((4, {"memory_pressure_percent": 5.1}))),
    case("other_programs", None, lambda: samples((4, {"memory_pressure_percent": 4.9}))),
    case("processors_held_back", None, lambda: samples((4, {"cpu_throttled_percent": 4.9}))),
    case("processors_held_back", "warning", lambda: samples((4, {"cpu_throttled_percent": 5.1}))),
    case("server_shared", "invalid", lambda: samples((1, {"engine_running": 5}))),
    case("server_shared", None, lambda: samples((1, {"engine_running": 5}), (1, {}))),
    case("client_busy", None, lambda: plain().with_run(duration_s=10.0).with_client(cpu_s=7.0)),
    case("client_busy", "warning", lambda: plain().with_run(duration_s=10.0).with_client(cpu_s=7.1)),
    case("client_busy", "warning", lambda: plain().with_run(duration_s=10.0).with_client(cpu_s=9.5)),
    case("client_busy", "invalid", lambda: plain().with_run(duration_s=10.0).with_client(cpu_s=9.6)),
    case("waiting_in_client", None, lambda: waiting_ms(19.0), ttft_mean_ms=100.0),
    case("waiting_in_client", "warning", lambda: waiting_ms(21.0), ttft_mean_ms=100.0),
    case("waiting_in_client", None, lambda: waiting_ms(39.0), ttft_mean_ms=400.0),
    case("waiting_in_client", "warning", lambda: waiting_ms(41.0), ttft_mean_ms=400.0),
    case(
        "waiting_in_client",
        "skipped: the times of sending and of the first token",
        lambda: waiting_ms(41.0),
        ttft_mean_ms=None,
    ),
    case("server_shared", None, lambda: samples((9, {"engine_running": 4}))),
    case("server_shared", None, lambda: samples((1, {"engine_running": 5}), (8, {"engine_running": 4}))),
    case("server_shared", "invalid", lambda: samples((2, {"engine_running": 5}), (7, {"engine_running": 4}))),
    case("server_shared", "invalid", lambda: samples((2, {"engine_running": 3, "engine_waiting": 2}))),
    case("server_shared", None, lambda: samples((9, {"engine_running": 4, "engine_waiting": None}))),
    case("gpu_throttled", None, lambda: samples((1, {"gpu_throttle_reasons": HOT}), (99, {}))),
    case("gpu_throttled", "warning", lambda: samples((2, {"gpu_throttle_reasons": HOT}), (98, {}))),
    case("gpu_throttled", "warning", lambda: samples((20, {"gpu_throttle_reasons": HOT}), (80, {}))),
    case("gpu_throttled", "invalid", lambda: samples((21, {"gpu_throttle_reasons": HOT}), (79, {}))),
    case("gpu_throttled", None, lambda: samples((50, {"gpu_throttle_reasons": CAPPED}), (50, {}))),
    case("gpu_throttled", "note", lambda: samples((51, {"gpu_throttle_reasons": CAPPED}), (49, {}))),
    case(
        "gpu_throttled",
        "skipped: the throttle reasons of the GPUs",
        lambda: samples((9, {"gpu_throttle_reasons": None})),
    ),
    case("gpu_clock_fell", None, lambda: clocks(1000.0, 951.0)),
    case("gpu_clock_fell", "warning", lambda: clocks(1000.0, 949.0)),
    case("gpu_clock_fell", "skipped: the clocks of 12 seconds at work", lambda: clocks(1000.0, 949.0, count=11)),
    case("gpu_clock_fell", "skipped: the clocks of 12 seconds at work", lambda: clocks(1000.0, 949.0, use=49.0)),
    case("gpu_shared", None, lambda: idle(busy=1)),
    case("gpu_shared", "invalid", lambda: idle(busy=2)),
    case("gpu_shared", None, lambda: idle(busy=9, use=49.0)),
    case("gpu_shared", None, lambda: idle(busy=9, requests_in_flight=1)),
    case("gpu_shared", None, lambda: idle(busy=9, chunks_received=1)),
    case("gpu_shared", None, lambda: idle(busy=9, engine_running=1)),
    case("gpu_shared", None, lambda: samples((1, {"gpu_other_processes": 1}), (9, {}))),
    case("gpu_shared", "warning", lambda: samples((2, {"gpu_other_processes": 1}), (8, {}))),
    case("idle_engine_busy", None, lambda: beside(cpu_percent=5.0, gpu_percent=5.0)),
    case("idle_engine_busy", "warning", lambda: beside(cpu_percent=5.1, gpu_percent=5.0)),
    case("idle_engine_busy", "warning", lambda: beside(cpu_percent=5.0, gpu_percent=20.0)),
    case("idle_engine_busy", "invalid", lambda: beside(cpu_percent=20.1, gpu_percent=None)),
    case("idle_engine_busy", "skipped: what the idle engines of beside took", lambda: beside(cpu_percent=1.0)),
    case("idle_engine_busy", "skipped: what the idle engines of beside took", lambda: beside(gpu_percent=0.0)),
    case("work_beside", None, plain),
    case("work_beside", "note", lambda: disturbed("ingest", "new runs", 5.3)),
    case("work_beside", "warning", lambda: disturbed("ingest", "new runs", 5.5)),
    case("work_beside", "warning", lambda: disturbed("job", "job-2", 0.1)),
    case("work_beside", "invalid", lambda: disturbed("job", "job-2", 0.1).with_circumstances(gpus=())),
    case("work_beside", "warning", lambda: disturbed("job", "job-2", 0.1).with_circumstances(gpus=(), command=())),
    case("drift_within_run", None, lambda: speeds([100.0] * 10, [84.0] * 10)),
    case("drift_within_run", "warning", lambda: speeds([100.0] * 10, [83.0] * 10)),
    case("drift_within_run", "warning", lambda: speeds([83.0] * 10, [100.0] * 10)),
    case(
        "drift_within_run",
        "skipped: 20 requests between the first and the last of every stream",
        lambda: speeds([100.0] * 10, [50.0] * 9),
    ),
    case("drift_within_run", None, lambda: speeds([100.0] * 7 + [49.0] * 3, [50.0] * 7 + [101.0] * 3)),
    case("long_tail", None, lambda: tail(75.0)),
    case("long_tail", "note", lambda: tail(74.9)),
    case("long_tail", None, lambda: tail(50.0, streams_until_end=2)),
    case("long_tail", "note", lambda: tail(75.0).with_requests(sent_s=0.1)),
    case("long_tail", None, lambda: tail(50.0).with_run(duration_s=None), duration_s=None),
    case("long_tail", None, lambda: tail(50.0).with_run(load=RATED)),
    case("long_tail", None, lambda: tail(50.0).with_run(windows=(window(0.0, 40.0), window(40.0, 100.0)))),
    case("long_tail", None, lambda: tail(50.0, streams_until_end=0).with_run(load=ONE)),
    case("long_tail", "note", lambda: tail(74.0, streams_until_end=0).with_run(load=TWO)),
    case("drift_within_run", None, lambda: speeds([100.0] * 10, [50.0] * 10).with_run(load=TRACE)),
    case("drift_within_run", "warning", lambda: speeds([100.0] * 10, [86.0] + [80.0] * 5 + [86.0] * 5)),
    case("server_token_count", None, lambda: counted(10_200), completion_tokens=10_000),
    case("server_token_count", "invalid", lambda: counted(10_201), completion_tokens=10_000),
    case("server_token_count", "invalid", lambda: counted(9_799), completion_tokens=10_000),
    case("server_token_count", None, lambda: counted(1_100), completion_tokens=1_000),
    case("server_token_count", "invalid", lambda: counted(1_101), completion_tokens=1_000),
    case(
        "server_token_count",
        "skipped: the generated tokens of every request",
        lambda: counted(1_100),
        completion_tokens=None,
    ),
    case(
        "server_token_count",
        "skipped: the generated tokens of the requests that failed",
        lambda: counted(1_100).with_requests(first=1, **FAILED),
    ),
    case("server_prompt_count", None, lambda: prompts_counted(10_200), prompt_tokens=10_000),
    case("server_prompt_count", "warning", lambda: prompts_counted(10_201), prompt_tokens=10_000),
    case("several_tokens_a_chunk", "note", lambda: few(1, chunk_s=(1.0,) * 10), completion_tokens=12),
    case("several_tokens_a_chunk", None, lambda: few(1, chunk_s=(1.0,) * 10), completion_tokens=11),
    case("answers_at_once", None, lambda: whole_answers(1)),
    case("answers_at_once", "invalid", lambda: whole_answers(2)),
    case("answers_at_once", None, lambda: whole_answers(10, span_s=0.0011)),
    case("answers_at_once", "invalid", lambda: whole_answers(10, tokens=3, span_s=0.0)),
    case("answers_at_once", None, lambda: whole_answers(2).with_client(loop_lag_max_ms=60_000.0)),
    case("answers_at_once", "invalid", lambda: whole_answers(10).with_client(loop_lag_max_ms=60_000.0)),
    case("answers_at_once", None, lambda: whole_answers(10, tokens=2, span_s=0.0)),
    case("figures_contradict", None, lambda: busy_s(40.3)),
    case("figures_contradict", "invalid", lambda: busy_s(40.5)),
    case("acceptance_adds_up", None, drafted, acceptance_length=2.019, acceptance_per_position=(0.5, 0.5)),
    case("acceptance_adds_up", "invalid", drafted, acceptance_length=2.021, acceptance_per_position=(0.5, 0.5)),
    case("acceptance_adds_up", "invalid", drafted, acceptance_length=1.979, acceptance_per_position=(0.5, 0.5)),
    case("acceptance_adds_up", None, drafted, acceptance_length=2.0, acceptance_per_position=(1.0, 0.0)),
    case("acceptance_adds_up", "invalid", drafted, acceptance_length=2.1, acceptance_per_position=(1.1, 0.0)),
    case("acceptance_adds_up", "invalid", drafted, acceptance_length=2.0, acceptance_per_position=(0.4, 0.6)),
    case("acceptance_adds_up", None, drafted, acceptance_rate=1.0),
    case("acceptance_adds_up", "invalid", drafted, acceptance_rate=1.01),
    case("acceptance_adds_up", "skipped: the server's acceptance per position", drafted, acceptance_per_position=None),
    case("request_acceptance_agrees", None, lambda: accepted(1000.0, 95, 10)),
    case("request_acceptance_agrees", "warning", lambda: accepted(1001.0, 95, 10)),
    case("request_acceptance_agrees", None, lambda: accepted(200.0, 1, 100)),
    case("request_acceptance_agrees", "warning", lambda: accepted(201.0, 1, 100)),
    case("steps_without_draft", None, drafted),
    case("steps_without_draft", None, lambda: uncounted(0.049)),
    case("steps_without_draft", "warning", lambda: uncounted(0.051)),
    case("steps_without_draft", None, lambda: uncounted(0.5, method="ngram")),
    case("steps_without_draft", None, lambda: uncounted(0.5, lambda: scheduled(3))),
    case("steps_without_draft", None, lambda: drafted().with_counters(num_drafts=1000.0)),
    case("few_rounds", None, drafted, num_drafts=100),
    case("few_rounds", "note", drafted, num_drafts=99),
    case("few_rounds", "note", drafted, num_drafts=1),
    case("few_rounds", "warning", drafted, num_drafts=0),
    case("few_rounds", "skipped: the server's count of rounds", drafted, num_drafts=None),
    case("preemptions", None, lambda: few(20).with_counters(num_preemptions=1.0)),
    case("preemptions", "warning", lambda: few(20).with_counters(num_preemptions=2.0)),
    case("capture_sizes_too_small", None, lambda: captured(16)),
    case("capture_sizes_too_small", "warning", lambda: captured(15)),
    case("capture_sizes_too_small", None, lambda: captured(15, non_default_args="{'max_num_seqs': 3}")),
    case("capture_sizes_too_small", "warning", lambda: captured(15, non_default_args="{'max_num_seqs': 5}")),
    case("capture_sizes_too_small", "warning", lambda: captured(15, non_default_args="{'max_model_len': 3}")),
    case("capture_sizes_too_small", None, lambda: configured(compilation_config="{'mode': 3}")),
    case("capture_sizes_too_small", None, lambda: configured(cuda_graph_max_bs="4")),
    case("capture_sizes_too_small", "warning", lambda: configured(cuda_graph_max_bs="3")),
    case("capture_sizes_too_small", None, lambda: configured(cuda_graph_max_bs="3", disable_cuda_graph="True")),
    case("capture_sizes_too_small", "warning", lambda: configured(cuda_graph_max_bs="3", disable_cuda_graph="False")),
    case(
        "capture_sizes_too_small",
        "skipped: the sizes that the engine captured graphs for",
        lambda: configured(cuda_graph_max_bs="None"),
    ),
    case("prompts_without_category", None, lambda: few(2, category=None)),
    case("prompts_without_category", None, lambda: few(2, drafted())),
    case("degenerate_output", "warning", lambda: repeated(1999, LOOP, 200)),
    case("client_lag", "skipped: the client's own lag", lambda: plain().with_run(client=None)),
    case("late_sends", "skipped: how late requests were sent", lambda: plain().with_run(client=None)),
    case("late_sends", "skipped: how late requests were sent", lambda: plain().with_client(late_send_max_ms=None)),
    case("client_busy", "skipped: the client's own processor time", lambda: plain().with_run(client=None)),
    case(
        "client_busy",
        "skipped: the client's own processor time",
        lambda: plain().with_run(duration_s=None),
        duration_s=None,
    ),
    case("work_beside", "skipped: what else of Drafthouse ran on the machine", lambda: plain().with_run(beside=None)),
    case(
        "server_shared",
        "skipped: how many requests the engine worked on",
        lambda: samples((9, {"engine_running": None})),
    ),
    case(
        "sampling_overridden",
        "skipped: the engine's log, which says whether the model's own sampling parameters apply",
        lambda: without_log(plain()),
    ),
    case(
        "capture_sizes_too_small",
        "skipped: the sizes that the engine captured graphs for",
        lambda: plain().with_circumstances(effective_config={"max_seq_len": "4096"}),
    ),
    case("settings_changed_by_speculation", "skipped: the engine's log", lambda: without_log(drafted())),
    case("preemptions", "skipped: the server's count of preempted requests", lambda: plain().with_run(**NO_COUNTERS)),
    case(
        "server_token_count",
        "skipped: the server's own counter of generated tokens",
        lambda: plain().with_run(**NO_COUNTERS),
    ),
    case(
        "server_prompt_count",
        "skipped: the server's own counter of prompt tokens",
        lambda: plain().with_run(**NO_COUNTERS),
    ),
    case("server_prompt_count", "skipped: the prompt tokens of every request", plain, prompt_tokens=None),
    case("several_tokens_a_chunk", "skipped: the tokens of every request", plain, completion_tokens=None),
    case(
        "counter_reset",
        "skipped: the server's counters before and after the window",
        lambda: plain().with_run(counters_before=None),
    ),
    case(
        "counter_reset",
        "skipped: the server's counters before and after the window",
        lambda: plain().with_run(counters_after=None),
    ),
    case(
        "counter_reset",
        "skipped: the server's counters before and after the window",
        lambda: plain().with_run(counters_before={}, counters_after={}),
    ),
    case(
        "figures_contradict",
        "skipped: how long the window lasted",
        lambda: few(4).with_run(duration_s=None),
        duration_s=None,
    ),
    case(
        "gpu_shared",
        "skipped: the other processes on the GPU",
        lambda: samples((9, {"gpu_other_processes": None, "gpu_utilisation_percent": None})),
    ),
    case("compilation_in_window", "skipped: the engine's log", lambda: without_log(plain())),
    case(
        "compilation_in_window", "skipped: the engine's log", lambda: plain().with_run(duration_s=None), duration_s=None
    ),
    case(
        "compilation_in_window",
        "skipped: where in the engine's log the window lies",
        lambda: plain().with_run(log_begin_bytes=None),
    ),
    case(
        "request_acceptance_agrees",
        "skipped: accepted tokens of every request and of the server's counters",
        lambda: drafted().with_requests(first=1, spec_accepted_tokens=None),
    ),
    case(
        "request_acceptance_agrees",
        "skipped: accepted tokens of every request and of the server's counters",
        lambda: drafted().with_run(**NO_COUNTERS),
    ),
    case("acceptance_adds_up", "skipped: the server's acceptance per position", drafted, acceptance_length=None),
    case("slow_first_requests", "skipped: 3 requests after the first 4 to compare them with", lambda: few(6)),
)


@pytest.mark.parametrize(("check", "expected", "look"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)])
def test_a_check_changes_at_its_threshold_and_names_what_it_lacks(
    check: str, expected: Said | str, look: Callable[[], Finding | Skipped | None]
) -> None:
    finding = look()
    assert severity_of(finding) == expected, (check, finding)


@pytest.mark.parametrize(
    ("requests", "beyond"), [(500, None), (499, "p99"), (100, "p99"), (99, "p95, p99"), (9, "p50, p90, p95, p99")]
)
def test_a_percentile_needs_five_requests_beyond_it(requests: int, beyond: str | None) -> None:
    finding = answer("few_requests", few(requests))
    if beyond is None:
        assert finding is None
    else:
        assert isinstance(finding, Finding)
        assert f"too few for {beyond}:" in finding.sentence


def test_output_that_is_a_twentieth_too_short_is_still_a_warning() -> None:
    """19 of 20 tokens a request are 95 % of what was asked for."""
    answers_cut = few(20, requested_output_tokens=20)
    assert (
        severity_of(
            answer("output_length", replace(answers_cut, requests=few(20, answers_cut, completion_tokens=20).requests))
        )
        is None
    )
    assert severity_of(answer("output_length", few(20, answers_cut, completion_tokens=19))) == "warning"
    assert severity_of(answer("output_length", few(20, answers_cut, completion_tokens=18))) == "invalid"
    assert severity_of(answer("output_length", few(20, answers_cut, completion_tokens=None))) == (
        "skipped: the server's count of generated tokens"
    )


def test_random_tokens_are_noted_by_dataset_or_category() -> None:
    for dataset in ("random", "prefix_repetition", "burstgpt", "burstgpt_sample", "random_s"):
        assert severity_of(answer("synthetic_prompts", plain().with_run(workload=Workload(dataset=dataset)))) == "note"
    assert severity_of(answer("synthetic_prompts", few(2).with_requests(first=1, category="synthetic"))) == "note"
    assert severity_of(answer("synthetic_prompts", few(2))) is None


@pytest.mark.parametrize("check", ["settings_changed_by_speculation", "acceptance_adds_up", "few_rounds"])
def test_a_check_of_a_draft_lacks_nothing_where_nothing_is_drafted(check: str) -> None:
    assert answer(check, without_log(plain().with_run(**NO_COUNTERS))) is None


@pytest.mark.parametrize("check", ["gpu_throttled", "gpu_clock_fell", "gpu_shared"])
def test_a_check_of_the_gpu_lacks_nothing_on_a_machine_without_one(check: str) -> None:
    nothing = {"gpu_utilisation_percent": None, "gpu_throttle_reasons": None, "gpu_other_processes": None}
    blind = samples((9, nothing))
    assert answer(check, blind.with_circumstances(gpus=())) is None
    elsewhere = blind.with_circumstances(gpus=(), command=())
    assert str(severity_of(answer(check, elsewhere))).startswith("skipped")


def test_checks_of_what_was_not_recorded_are_skipped() -> None:
    everything = replace(plain(), unrecorded=frozenset(name for check in CHECKS for name in check.looks_at))
    verdict = everything.judged()
    assert {skip.check for skip in verdict.skipped} == {check.name for check in CHECKS}
    assert all(skip.missing.endswith(": not recorded") for skip in verdict.skipped)
    assert verdict.findings == ()


def test_what_was_not_recorded_hides_its_parts_and_wholes() -> None:
    for hidden in ("load", "load.max_concurrency"):
        skipped = {skip.check for skip in replace(plain(), unrecorded=frozenset({hidden})).judged().skipped}
        assert {"slow_first_requests", "long_tail"} <= skipped
        assert "requests_failed" not in skipped
