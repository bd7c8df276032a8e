"""Each check of a run fires on records that show its trap, and its sentence has the run's own figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab.study import Workload
from lab.validity import CHECKS, Severity
from tests.lab.validity.healthy import TOKENS, Measured
from tests.lab.validity.trapped import (
    at_once,
    busy_client,
    busy_while_idle,
    cached_prompts,
    crowded,
    cut_prompts,
    drafted,
    forced,
    hiccup,
    long_pause,
    long_prompts,
    long_tail,
    may_end,
    one_stream,
    overlapping,
    plain,
    queued_first,
    ramp,
    same_beginning,
    scheduled,
    short_answers,
    slower_second_half,
    slowing_clock,
    waiting,
)

FAILED: dict[str, Any] = {
    "error": "the connection broke",
    "first_token_s": None,
    "chunk_s": (),
    "completion_tokens": None,
}


LOOP = "round and " * 30
HOT = "sw_thermal_slowdown"
JIT = "Triton kernel JIT compilation during inference: _fwd_kernel. This causes a latency spike."
OVERRIDDEN = (
    "Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{}`. If this"
)
PENALTY = OVERRIDDEN.format("{'repetition_penalty': 1.1, 'temperature': 0.6, 'top_k': 20}")
BUDGET = "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings. This may lead"
SMALL_GRAPHS = "{'cudagraph_mode': <CUDAGraphMode.FULL: 2>, 'max_cudagraph_capture_size': 8}"

REPETITION = Workload(dataset="prefix_repetition", input_tokens=1, output_tokens=TOKENS)
EAGER = {"compilation_config": "{'cudagraph_mode': <CUDAGraphMode.NONE: 0>, 'max_cudagraph_capture_size': 1}"}

#: Name of the check, how grave, what it must say, and the run that shows it.
TRAPS: tuple[tuple[str, Severity, str, Callable[[], Measured]], ...] = (
    ("run_failed", "invalid", "killed", lambda: plain().with_run(status="failed", error="killed")),
    ("requests_failed", "warning", "6 of 512 requests failed (1.17 %)", lambda: plain().with_requests(100, **FAILED)),
    ("requests_failed", "invalid", "103 of 512", lambda: plain().with_requests(5, **FAILED)),
    ("requests_failed", "invalid", "Not one request", lambda: plain().with_requests(**FAILED)),
    ("requests_not_sent", "note", "6 of 512", lambda: plain().with_requests(100, sent_s=None, **FAILED)),
    ("requests_not_sent", "warning", "52 of 512", lambda: plain().with_requests(10, sent_s=None, **FAILED)),
    (
        "output_length",
        "invalid",
        "256 of 512 requests got fewer",
        lambda: plain().with_requests(2, completion_tokens=9),
    ),
    (
        "output_length",
        "warning",
        "6 of 512 requests got fewer",
        lambda: plain().with_requests(100, completion_tokens=9),
    ),
    (
        "output_length",
        "invalid",
        "6 of 512 requests got more",
        lambda: plain().with_requests(100, completion_tokens=65),
    ),
    ("synthetic_prompts", "note", "random", lambda: plain().with_run(workload=Workload(dataset="random_s"))),
    ("synthetic_prompts", "note", "prose.jsonl", lambda: plain().with_requests(first=1, category="synthetic")),
    ("prompts_without_category", "note", "512 of 512", lambda: drafted().with_requests(category=None)),
    ("degenerate_output", "warning", "52 of 512", lambda: plain().with_requests(10, output_text=LOOP)),
    ("degenerate_output", "invalid", "inflates", lambda: drafted().with_requests(output_text=LOOP)),
    ("prompt_truncated", "warning", "exactly 100 prompt tokens", cut_prompts),
    (
        "prompt_truncated",
        "invalid",
        "6 of 512 requests had fewer prompt tokens than were sent: 50 of 100",
        lambda: (
            plain()
            .with_run(workload=Workload(dataset="random", input_tokens=100))
            .with_requests(prompt_tokens=100)
            .with_requests(100, prompt_tokens=50)
        ),
    ),
    (
        "prompt_truncated",
        "invalid",
        "6 of 512 requests had fewer prompt tokens than were sent: 50 of 90",
        lambda: plain().with_requests(prompt_tokens=90, sent_prompt_tokens=90).with_requests(100, prompt_tokens=50),
    ),
    (
        "prompt_truncated",
        "warning",
        "1 of 512 requests had fewer prompt tokens than were sent: 99 of 100",
        lambda: plain().with_requests(prompt_tokens=100, sent_prompt_tokens=100).with_requests(512, prompt_tokens=99),
    ),
    ("sampling_overridden", "warning", "repetition_penalty 1.1.", lambda: plain().with_log_line(PENALTY, -30)),
    (
        "capture_sizes_too_small",
        "warning",
        "up to 8 tokens a step, and 4 streams of 1 + 3 tokens need 16",
        lambda: drafted().with_circumstances(effective_config={"compilation_config": SMALL_GRAPHS}),
    ),
    (
        "capture_sizes_too_small",
        "warning",
        "up to 2 requests a step",
        lambda: plain().with_circumstances(effective_config={"cuda_graph_max_bs": "2"}),
    ),
    ("configuration_unknown", "note", "unknown", lambda: plain().with_circumstances(effective_config={})),
    ("settings_changed_by_speculation", "note", "2048", lambda: drafted().with_log_line(BUDGET, -30)),
    ("preemptions", "warning", "100 times", lambda: plain().with_counters(num_preemptions=100.0)),
    (
        "server_token_count",
        "invalid",
        "usage counts too many",
        lambda: plain().with_counters(generation_tokens=17000.0),
    ),
    ("server_token_count", "invalid", "somebody else", lambda: plain().with_counters(generation_tokens=90000.0)),
    ("server_prompt_count", "warning", "prompt tokens", lambda: plain().with_counters(prompt_tokens=90000.0)),
    (
        "told_tokens_count",
        "warning",
        "2 of 512 requests returned another number of token ids than their usage counts: 3 and 64 in the first",
        lambda: plain().with_requests(output_token_ids=(7,) * 64).with_requests(300, output_token_ids=(7, 7, 7)),
    ),
    ("several_tokens_a_chunk", "note", "2 tokens", drafted),
    ("answers_at_once", "invalid", "512 of 512", at_once),
    ("counter_reset", "invalid", "(generation_tokens)", lambda: plain().with_counters(generation_tokens=10.0)),
    (
        "counter_reset",
        "invalid",
        "(num_accepted_tokens_per_position)",
        lambda: drafted().with_counters(num_accepted_tokens_per_position=(0.0, 0.0, 0.0)),
    ),
    ("figures_contradict", "invalid", "4 streams have only", overlapping),
    ("figures_contradict", "invalid", "run backwards", lambda: plain().with_requests(first=1, first_token_s=-1.0)),
    ("synthetic_acceptance", "invalid", "of 2 tokens", forced),
    (
        "synthetic_acceptance",
        "invalid",
        "forced",
        lambda: drafted().with_circumstances(environment={"SGLANG_SIMULATE_ACC_LEN": "3"}),
    ),
    (
        "acceptance_adds_up",
        "invalid",
        "is 2, but 1 + the sum of its per-position rates is 1.265",
        lambda: drafted().with_counters(num_accepted_tokens_per_position=(5000.0, 346.0, 0.0)),
    ),
    (
        "acceptance_adds_up",
        "invalid",
        "do not fall",
        lambda: drafted().with_counters(num_accepted_tokens_per_position=(750.0, 16634.0, 0.0)),
    ),
    ("request_acceptance_agrees", "warning", "5120", lambda: drafted().with_requests(spec_accepted_tokens=10)),
    ("few_rounds", "note", "50 rounds", lambda: drafted().with_counters(num_drafts=1050.0)),
    ("few_rounds", "note", "as the arm's schedule says", lambda: scheduled(0).with_counters(num_drafts=1000.0)),
    ("few_rounds", "warning", "in the window", lambda: scheduled(2).with_counters(num_drafts=1000.0)),
    ("few_rounds", "warning", "Not one", lambda: drafted().with_counters(num_drafts=1000.0)),
    ("compilation_in_window", "warning", "_fwd_kernel", lambda: plain().with_log_line(JIT)),
    ("compilation_in_window", "invalid", "_fwd_kernel", lambda: long_pause().with_log_line(JIT)),
    (
        "slow_first_requests",
        "warning",
        "ms for its first token, where the later ones suggest 51.3 ms",
        lambda: one_stream(0.2),
    ),
    ("slow_first_requests", "invalid", "1501 ms for its first token", lambda: one_stream(1.5)),
    (
        "short_warm_up",
        "warning",
        "got answers to 1 of its requests, fewer than the 4 streams",
        lambda: plain().with_run(warmup_requests=1),
    ),
    ("warm_prefix_cache", "warning", "came from the prefix cache", lambda: cached_prompts(0.1)),
    ("warm_prefix_cache", "invalid", "came from the prefix cache", lambda: cached_prompts(0.9)),
    ("answers_from_cache", "invalid", "64 tokens in 10 ms", lambda: at_once(0.01, every=20)),
    ("answers_from_cache", "invalid", "512 of 512", lambda: at_once(0.002)),
    ("client_lag", "warning", "30 ms late", lambda: plain().with_client(loop_lag_p99_ms=30.0)),
    (
        "client_lag",
        "invalid",
        "80 ms late",
        lambda: plain().with_client(loop_lag_p99_ms=80.0).with_samples(2, loop_lag_ms=90.0),
    ),
    ("late_sends", "warning", "60 ms after", lambda: plain().with_client(late_send_max_ms=60.0)),
    ("late_sends", "invalid", "700 ms after", lambda: plain().with_client(late_send_max_ms=700.0)),
    ("client_busy", "warning", "busy for 80 %", lambda: busy_client(0.8)),
    ("client_busy", "invalid", "busy for 99 %", lambda: busy_client(0.99)),
    ("waiting_in_client", "warning", "Requests waited", waiting),
    ("server_shared", "invalid", "up to 9 requests", lambda: plain().with_samples(10, engine_running=9)),
    ("gpu_throttled", "note", "power limit", lambda: plain().with_samples(gpu_throttle_reasons="sw_power_cap")),
    ("gpu_throttled", "warning", HOT, lambda: plain().with_samples(20, gpu_throttle_reasons=HOT)),
    ("gpu_throttled", "invalid", "100 %", lambda: plain().with_samples(gpu_throttle_reasons=HOT)),
    ("gpu_clock_fell", "warning", "from 1980 to 1500 MHz", slowing_clock),
    ("gpu_shared", "invalid", "in which this run had no request", busy_while_idle),
    (
        "gpu_shared",
        "warning",
        "2 processes other than the engine's had the GPU open, in 54 of 108",
        lambda: plain().with_samples(2, gpu_other_processes=2),
    ),
    ("drift_within_run", "warning", "tok/s", lambda: slower_second_half(1.5)),
    ("long_tail", "note", "of the 4 streams", long_tail),
    (
        "file_contradicts_itself",
        "warning",
        "ttft_mean_ms: the file says 1, but its own requests give 2.",
        lambda: replace(plain(), doubts=("ttft_mean_ms: the file says 1, but its own requests give 2",)),
    ),
    ("few_requests", "note", "16 answered requests leave fewer than 5 beyond p90, p95, p99", lambda: one_stream(0.05)),
)


@pytest.mark.parametrize(("check", "severity", "words", "run"), TRAPS, ids=[f"{t[0]}-{t[1]}" for t in TRAPS])
def test_a_run_that_shows_the_trap_is_told_so(
    check: str, severity: Severity, words: str, run: Callable[[], Measured]
) -> None:
    finding = run().found(check)
    assert words in finding.sentence
    assert finding.severity == severity
    assert finding.advice


def test_every_check_of_a_run_is_provoked_above() -> None:
    assert {name for name, *_ in TRAPS} == {check.name for check in CHECKS}


def test_each_check_reaches_its_gravest_severity_above_and_nothing_graver() -> None:
    order = ("note", "warning", "invalid")
    declared = {check.name: check.severity for check in CHECKS}
    reached = {name: max((t[1] for t in TRAPS if t[0] == name), key=order.index) for name in declared}
    assert reached == declared


#: What looks like a trap and is none: the check must be silent.
HARMLESS: tuple[tuple[str, str, Callable[[], Measured]], ...] = (
    ("output_length", "it may end by itself", may_end),
    ("server_token_count", "one token a request", lambda: plain().with_counters(generation_tokens=1000.0 + 512 * 63)),
    ("answers_at_once", "two rounds of a draft", short_answers),
    ("answers_at_once", "short answers to long prompts", long_prompts),
    ("answers_from_cache", "slow when others were read", crowded),
    ("gpu_shared", "the second before had requests", lambda: plain().with_samples(2, requests_in_flight=0)),
    ("gpu_shared", "one that had just ended", lambda: plain().with_samples(1000, gpu_other_processes=1)),
    ("prompt_truncated", "counted when sent", lambda: cut_prompts().with_requests(sent_prompt_tokens=1)),
    ("compilation_in_window", "before the window", lambda: plain().with_log_line(JIT, -20)),
    ("compilation_in_window", "after the window", lambda: plain().with_log_line(JIT, 200)),
    ("compilation_in_window", "the same second, before", lambda: plain().with_log_line(JIT, -0.15)),
    ("slow_first_requests", "in a queue", queued_first),
    ("warm_prefix_cache", "shared on purpose", lambda: cached_prompts(0.9).with_run(workload=REPETITION)),
    ("warm_prefix_cache", "the same beginning", same_beginning),
    (
        "sampling_overridden",
        "sent anyway",
        lambda: plain().with_log_line(OVERRIDDEN.format("{'temperature': 1.0}"), -30),
    ),
    ("capture_sizes_too_small", "no graphs", lambda: plain().with_circumstances(effective_config=EAGER)),
    ("client_lag", "one hiccup", hiccup),
    ("gpu_clock_fell", "nothing to do", lambda: plain().with_samples(gpu_utilisation_percent=0.0)),
    ("drift_within_run", "a ramp", ramp),
    ("waiting_in_client", "a closed loop", lambda: waiting().with_run(load=plain().run.load)),
)


@pytest.mark.parametrize(("check", "why", "run"), HARMLESS, ids=[f"{h[0]}: {h[1]}" for h in HARMLESS])
def test_a_check_is_silent_where_there_is_a_good_reason(check: str, why: str, run: Callable[[], Measured]) -> None:
    found = [finding for finding in run().judged().findings if finding.check == check]
    assert not found, why


def test_every_check_that_needs_what_was_not_recorded_says_so_and_says_nothing_else() -> None:
    everything = replace(plain(), unrecorded=frozenset(name for check in CHECKS for name in check.looks_at))
    verdict = everything.judged()
    assert {each.check for each in verdict.skipped} == {check.name for check in CHECKS}
    assert all(each.missing.endswith(": not recorded") for each in verdict.skipped)
    assert verdict.findings == ()


def test_what_was_not_recorded_hides_its_parts_and_what_it_is_part_of() -> None:
    for hidden in ("load", "load.max_concurrency"):
        skipped = {each.check for each in replace(plain(), unrecorded=frozenset({hidden})).judged().skipped}
        assert {"slow_first_requests", "long_tail"} <= skipped
        assert "requests_failed" not in skipped


def test_failed_requests_that_a_file_only_counts_are_told_all_the_same() -> None:
    counted = replace(plain().with_requests(2, **FAILED), unrecorded=frozenset({"error"}))
    finding = counted.found("requests_failed")
    assert finding.severity == "invalid"
    assert finding.sentence == "256 of 512 requests failed (50 %); the file does not say why."
