"""Each check of a run fires on records that show its trap, and its sentence has the run's own figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab.study import Sessions, Workload
from lab.validity import CHECKS, Severity
from tests.lab.validity.healthy import Measured
from tests.lab.validity.lies import Server
from tests.lab.validity.trapped import (
    JIT,
    OVERRIDDEN,
    at_once,
    beside,
    busy_client,
    busy_while_idle,
    cached_by_usage,
    cached_prompts,
    cut_prompts,
    cut_to,
    disturbed,
    drafted,
    forced,
    hot_processors,
    long_pause,
    long_tail,
    one_stream,
    overlapping,
    plain,
    scheduled,
    slower_second_half,
    slowing_clock,
    three_at_once,
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
PENALTY = OVERRIDDEN.format("{'repetition_penalty': 1.1, 'presence_penalty': 0.5, 'temperature': 0.6, 'top_k': 20}")
BUDGET = "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings. This may lead"
SMALL_GRAPHS = "{'cudagraph_mode': <CUDAGraphMode.FULL: 2>, 'max_cudagraph_capture_size': 8}"

#: Name of the check, how grave, the whole sentence that users read, and the run that shows it.
TRAPS: tuple[tuple[str, Severity, str, Callable[[], Measured]], ...] = (
    ("run_failed", "invalid", "The run failed: killed", lambda: plain().with_run(status="failed", error="killed")),
    (
        "requests_failed",
        "invalid",
        "103 of 512 requests failed (20.1 %), because: the connection broke",
        lambda: plain().with_requests(5, **FAILED),
    ),
    ("requests_failed", "invalid", "Not one request was answered.", lambda: plain().with_requests(**FAILED)),
    (
        "requests_not_sent",
        "warning",
        "52 of 512 requests never left the client, because: an earlier turn of its session failed.",
        lambda: plain().with_requests(
            10, sent_s=None, **FAILED | {"error": "not sent: an earlier turn of its session failed"}
        ),
    ),
    (
        "output_length",
        "invalid",
        "256 of 512 requests got fewer tokens than they asked for: 18688 tokens were served of 32768 requested (57 %).",
        lambda: plain().with_requests(2, completion_tokens=9),
    ),
    (
        "output_length",
        "invalid",
        "6 of 512 requests got more tokens than they asked for: 32774 tokens were served of 32768 requested (100 %).",
        lambda: plain().with_requests(100, completion_tokens=65),
    ),
    (
        "synthetic_prompts",
        "note",
        "Synthetic prompts: random_s is random tokens, so acceptance is not that of text.",
        lambda: plain().with_run(workload=Workload(dataset="random_s")),
    ),
    (
        "tokens_below_chunks",
        "invalid",
        (
            "512 of 512 requests came in more chunks with output than their usage has tokens: 64 chunks and 16 tokens "
            "in one of them."
        ),
        lambda: plain().with_requests(completion_tokens=16),
    ),
    (
        "tokens_below_chunks",
        "warning",
        (
            "6 of 512 requests came in more chunks with output than their usage has tokens: 64 chunks and 16 tokens "
            "in one of them."
        ),
        lambda: plain().with_requests(100, completion_tokens=16),
    ),
    (
        "requests_sent_again",
        "note",
        (
            "52 of 512 requests were sent again on a new connection, because the server had closed the used one: "
            "their TTFT includes the first attempt."
        ),
        lambda: plain().with_requests(10, resent=1),
    ),
    (
        "warm_prefix_cache",
        "invalid",
        (
            "99.1 % of the prompt tokens came from the prefix cache, though the prompts of this run share only "
            "0.304 % among themselves: the server had seen them before."
        ),
        cached_by_usage,
    ),
    (
        "prompt_truncated",
        "invalid",
        (
            "512 of 512 prompts have fewer tokens than words by the server's count: 64 tokens for 196 words in one of "
            "them. They were truncated, or its usage leaves cached tokens out."
        ),
        lambda: cut_to(64),
    ),
    (
        "prompt_truncated",
        "warning",
        (
            "All 512 prompts have exactly 300 tokens by the server's count, though their texts have 1000 to 1099 "
            "characters: they seem to be truncated."
        ),
        lambda: cut_to(300),
    ),
    (
        "prefix_cache_not_reset",
        "warning",
        "The server's prefix cache was not reset before the window: HTTP 500",
        lambda: plain().with_run(reset_problem="HTTP 500"),
    ),
    (
        "counters_unread",
        "note",
        "The server's own counters are unknown: http://s/metrics answered HTTP 500",
        lambda: plain().with_run(counters_problem="http://s/metrics answered HTTP 500"),
    ),
    (
        "trace_without_text",
        "warning",
        (
            "512 of 512 requests come from a trace without texts, so random tokens were sent: the load is that of the "
            "trace, the acceptance would mean nothing and is left empty."
        ),
        lambda: drafted().with_requests(category="no_text"),
    ),
    (
        "prefix_cache_of_sessions",
        "note",
        (
            "90 % of the prompt tokens of these sessions came from the prefix cache: TTFT and throughput are those of "
            "a server that keeps earlier turns."
        ),
        lambda: cached_prompts(0.9).with_run(workload=Workload(dataset="prose.jsonl", sessions=Sessions())),
    ),
    (
        "prompts_without_category",
        "note",
        "512 of 512 requests have no category, so acceptance by category is unknown.",
        lambda: drafted().with_requests(category=None),
    ),
    (
        "degenerate_output",
        "warning",
        "52 of 512 outputs (10.2 %) repeat themselves in a loop.",
        lambda: plain().with_requests(10, output_text=LOOP),
    ),
    (
        "degenerate_output",
        "invalid",
        "512 of 512 outputs (100 %) repeat themselves in a loop, which inflates acceptance and speed.",
        lambda: drafted().with_requests(output_text=LOOP),
    ),
    (
        "prompt_truncated",
        "warning",
        (
            "296 of 512 requests have exactly 100 prompt tokens, though their texts are up to 2 times as long as "
            "that many tokens hold elsewhere: they seem to be truncated."
        ),
        cut_prompts,
    ),
    (
        "prompt_truncated",
        "invalid",
        "6 of 512 requests had fewer prompt tokens than were sent: 50 of 100.",
        lambda: (
            plain()
            .with_run(workload=Workload(dataset="random", input_tokens=100))
            .with_requests(prompt_tokens=100)
            .with_requests(100, prompt_tokens=50)
        ),
    ),
    (
        "sampling_overridden",
        "warning",
        (
            "The model's generation_config applied to every request, as far as requests do not set it: "
            "presence_penalty 0.5, repetition_penalty 1.1."
        ),
        lambda: plain().with_log_line(PENALTY, -30),
    ),
    (
        "capture_sizes_too_small",
        "warning",
        (
            "Graphs were captured for up to 8 tokens a step, and 4 streams of 1 + 3 tokens need 16: larger steps "
            "ran without a graph."
        ),
        lambda: drafted().with_circumstances(effective_config={"compilation_config": SMALL_GRAPHS}),
    ),
    (
        "capture_sizes_too_small",
        "warning",
        (
            "Graphs were captured for up to 2 requests a step, and 4 streams of 1 + 0 tokens need 4: larger "
            "steps ran without a graph."
        ),
        lambda: plain().with_circumstances(effective_config={"cuda_graph_max_bs": "2"}),
    ),
    (
        "configuration_unknown",
        "note",
        "The engine's effective configuration is unknown, so it cannot be seen what else speculation changed.",
        lambda: plain().with_circumstances(effective_config={}),
    ),
    (
        "settings_changed_by_speculation",
        "note",
        (
            "Speculation changed other settings too: max_num_scheduled_tokens is set to 2048 based on the "
            "speculative decoding settings."
        ),
        lambda: drafted().with_log_line(BUDGET, -30),
    ),
    (
        "preemptions",
        "warning",
        (
            "The engine preempted requests 100 times because the KV cache was full, with 512 requests: their "
            "work was done twice."
        ),
        lambda: plain().with_counters(num_preemptions=100.0),
    ),
    (
        "server_token_count",
        "invalid",
        (
            "The server counted 16000 generated tokens in the window, the usage of its answers adds up to 32768: "
            "usage counts too many."
        ),
        lambda: plain().with_counters(generation_tokens=17000.0),
    ),
    (
        "server_token_count",
        "invalid",
        (
            "The server counted 89000 generated tokens in the window, the usage of its answers adds up to 32768: "
            "somebody else used the server, or usage omits tokens."
        ),
        lambda: plain().with_counters(generation_tokens=90000.0),
    ),
    (
        "server_prompt_count",
        "warning",
        (
            "The server counted 89000 prompt tokens in the window, the usage of its answers adds up to 57308: "
            "somebody else used the server, or usage omits tokens."
        ),
        lambda: plain().with_counters(prompt_tokens=90000.0),
    ),
    (
        "told_tokens_count",
        "warning",
        (
            "2 of 512 requests returned another number of token ids than their usage counts: 3 and 64 in the "
            "first of them."
        ),
        lambda: plain().with_requests(output_token_ids=(7,) * 64).with_requests(300, output_token_ids=(7, 7, 7)),
    ),
    (
        "several_tokens_a_chunk",
        "note",
        (
            "A chunk carries 2 tokens on average, so the gap between chunks (ICL) is the time of a step, not a "
            "token latency."
        ),
        drafted,
    ),
    (
        "answers_at_once",
        "invalid",
        (
            "512 of 512 requests got a long answer all at once, 64 tokens in the first of them: the server does "
            "not stream, so TTFT is the whole time and TPOT is meaningless."
        ),
        at_once,
    ),
    (
        "counter_reset",
        "invalid",
        (
            "The server's counters fell during the run (generation_tokens): it was restarted, or several "
            "servers answer in turn."
        ),
        lambda: plain().with_counters(generation_tokens=10.0),
    ),
    (
        "counter_reset",
        "invalid",
        (
            "The server's counters fell during the run (num_accepted_tokens_per_position): it was restarted, or "
            "several servers answer in turn."
        ),
        lambda: drafted().with_counters(num_accepted_tokens_per_position=(0.0, 0.0, 0.0)),
    ),
    (
        "figures_contradict",
        "invalid",
        "The requests took 349 s together, but 4 streams have only 142 s in a window of 35.5 s.",
        overlapping,
    ),
    (
        "figures_contradict",
        "invalid",
        "The times of 1 of 512 requests run backwards.",
        lambda: plain().with_requests(first=1, first_token_s=-1.0),
    ),
    (
        "synthetic_acceptance",
        "invalid",
        "The acceptance of 2 tokens a round was forced by a setting of the engine; no draft reached it.",
        forced,
    ),
    (
        "synthetic_acceptance",
        "invalid",
        "The acceptance of 2 tokens a round was forced by a setting of the engine; no draft reached it.",
        lambda: drafted().with_circumstances(environment={"SGLANG_SIMULATE_ACC_LEN": "3"}),
    ),
    (
        "acceptance_adds_up",
        "invalid",
        "The acceptance length is 2, but 1 + the sum of its per-position rates is 1.265.",
        lambda: drafted().with_counters(num_accepted_tokens_per_position=(5000.0, 346.0, 0.0)),
    ),
    (
        "acceptance_adds_up",
        "invalid",
        "The acceptance rates 0, 1, 0 do not fall by position.",
        lambda: drafted().with_counters(num_accepted_tokens_per_position=(750.0, 16634.0, 0.0)),
    ),
    (
        "request_acceptance_agrees",
        "warning",
        "The server's counters grew by 16384 accepted tokens, but its answers add up to 5120.",
        lambda: drafted().with_requests(spec_accepted_tokens=10),
    ),
    (
        "request_acceptance_agrees",
        "warning",
        "The rounds that 512 answers list do not add up to their own counts.",
        lambda: drafted().with_requests(rounds_drafted=(3,), rounds_accepted=(1,), rounds_count=(9,)),
    ),
    (
        "acceptance_only_of_the_run",
        "note",
        (
            "Acceptance is that of the whole run, from the server's counters: of each request and category it is "
            "unknown."
        ),
        lambda: drafted().with_requests(spec_drafts=None, spec_draft_tokens=None, spec_accepted_tokens=None),
    ),
    (
        "acceptance_only_of_the_run",
        "note",
        "Acceptance is that of the whole run, from the server's counters: by position it is unknown.",
        lambda: drafted().with_counters(num_accepted_tokens_per_position=None),
    ),
    (
        "steps_without_draft",
        "warning",
        (
            "48.4 % of the tokens came from steps that the server counts no round for: the acceptance length is that "
            "of the other 8192 rounds."
        ),
        lambda: drafted().with_counters(num_drafts=9192.0, num_accepted_tokens=9192.0),
    ),
    ("few_rounds", "note", "Acceptance rests on 50 rounds.", lambda: drafted().with_counters(num_drafts=1050.0)),
    (
        "few_rounds",
        "note",
        "Not one token was drafted, as the arm's schedule says for this many requests at once.",
        lambda: scheduled(0).with_counters(num_drafts=1000.0),
    ),
    (
        "few_rounds",
        "warning",
        "Not one token was drafted in the window, though the arm speculates.",
        lambda: scheduled(2).with_counters(num_drafts=1000.0),
    ),
    (
        "compilation_in_window",
        "invalid",
        (
            "The engine compiled within the measured window (1 line of its log, the first: Triton kernel JIT "
            "compilation during inference: _fwd_kernel. This causes a latency spike.); the longest pause of a "
            "request was 11 of 106 s."
        ),
        lambda: long_pause().with_log_line(JIT),
    ),
    (
        "slow_first_requests",
        "invalid",
        (
            "The first request waited 1501 ms for its first token, where the later ones suggest 51.3 ms (their "
            "median is 51.3 ms)."
        ),
        lambda: one_stream(1.5),
    ),
    (
        "short_warm_up",
        "warning",
        "The warm-up got answers to 1 of its requests, fewer than the 4 streams of the load.",
        lambda: plain().with_run(warmup_requests=1),
    ),
    (
        "warm_prefix_cache",
        "invalid",
        (
            "90 % of the prompt tokens came from the prefix cache, though the prompts of this run share only "
            "0.304 % among themselves: the server had seen them before."
        ),
        lambda: cached_prompts(0.9),
    ),
    (
        "answers_from_cache",
        "invalid",
        (
            "26 of 512 requests were answered faster than any model can: 64 tokens in 10 ms for the prompt p160. "
            "The server answers from a cache."
        ),
        lambda: at_once(0.01, every=20),
    ),
    (
        "client_lag",
        "invalid",
        (
            "The client's event loop was up to 80 ms late (p99; worst 2 ms), where the median TTFT is 50.6 ms: "
            "every latency may include that much of the client's own."
        ),
        lambda: plain().with_client(loop_lag_p99_ms=80.0).with_samples(2, loop_lag_ms=90.0),
    ),
    (
        "late_sends",
        "invalid",
        "A request left the client 700 ms after its intended moment.",
        lambda: plain().with_client(late_send_max_ms=700.0),
    ),
    ("client_busy", "invalid", "The client itself was busy for 99 % of the window.", lambda: busy_client(0.99)),
    (
        "waiting_in_client",
        "warning",
        (
            "Requests waited 100 ms in the client for a free stream on average (at most 100 ms); TTFT, 50.3 ms "
            "on average, does not count it."
        ),
        waiting,
    ),
    (
        "server_shared",
        "invalid",
        (
            "The engine had up to 9 requests at once in 11 of 108 seconds, while this run sends 4 at most: "
            "somebody else used the server."
        ),
        lambda: plain().with_samples(10, engine_running=9),
    ),
    (
        "gpu_throttled",
        "note",
        "The GPU was at its power limit in 100 % of the seconds.",
        lambda: plain().with_samples(gpu_throttle_reasons="sw_power_cap"),
    ),
    (
        "gpu_throttled",
        "invalid",
        "The GPU was slowed down in 100 % of the seconds: sw_thermal_slowdown.",
        lambda: plain().with_samples(gpu_throttle_reasons=HOT),
    ),
    ("gpu_clock_fell", "warning", "The GPU's clock fell from 1980 to 1500 MHz within the window.", slowing_clock),
    (
        "gpu_shared",
        "invalid",
        "The GPU was at work in 3 of 4 seconds in which this run had no request in flight: something else uses it.",
        busy_while_idle,
    ),
    (
        "idle_engine_busy",
        "warning",
        "The engine of 'beside', which should have been idle, took 9 % of a processor during the window.",
        lambda: beside(cpu_percent=9.0, gpu_percent=0.0),
    ),
    (
        "idle_engine_busy",
        "invalid",
        "The engine of 'beside', which should have been idle, took 45.5 % of a GPU during the window.",
        lambda: beside(cpu_percent=1.2, gpu_percent=45.52),
    ),
    (
        "work_beside",
        "note",
        "Drafthouse itself worked on the machine in 0.423 % of the window: the page's question 'results' (0.45 s).",
        lambda: disturbed("question", "results", 0.45),
    ),
    (
        "work_beside",
        "warning",
        (
            "Drafthouse itself worked on the machine in 6.57 % of the window: the ingestion of new runs (5 s), "
            "'drafthouse compare' (2 s)."
        ),
        lambda: plain().with_run(
            beside=[
                {"kind": "ingest", "what": "new runs", "seconds": 5.0},
                {"kind": "command", "what": "drafthouse compare", "seconds": 2.0},
            ]
        ),
    ),
    (
        "work_beside",
        "invalid",
        "Another worker of this machine was busy with job-2 for 12.3 of the 106 s of the window.",
        lambda: disturbed("job", "job-2", 12.3).with_circumstances(gpus=()),
    ),
    (
        "gpu_shared",
        "warning",
        "Up to 2 processes other than the engine's had the GPU open, in 54 of 108 seconds.",
        lambda: plain().with_samples(2, gpu_other_processes=2),
    ),
    (
        "drift_within_run",
        "warning",
        (
            "A request of the first half ran at 94 tok/s (median), one of the second half at 62.7 tok/s: the run "
            "was not steady."
        ),
        lambda: slower_second_half(1.5),
    ),
    (
        "long_tail",
        "note",
        (
            "For 59 % of the window fewer than half of the 4 streams had a request, while tokens per second "
            "count all of it; without that they are 307.7 tok/s."
        ),
        long_tail,
    ),
    (
        "file_contradicts_itself",
        "warning",
        "The file contradicts itself: ttft_mean_ms: the file says 1, but its own requests give 2.",
        lambda: replace(plain(), doubts=("ttft_mean_ms: the file says 1, but its own requests give 2",)),
    ),
    (
        "few_requests",
        "note",
        "16 answered requests are too few for p90, p95, p99: fewer than 5 lie beyond.",
        lambda: one_stream(0.05),
    ),
    (
        "events_in_bursts",
        "warning",
        (
            "8 tokens came with an answer's first event (median), where a step makes 1 at most: TTFT waits for all of "
            "them, and TPOT, 8.01 ms, counts no time for them; over the tokens after them it is 11.5 ms."
        ),
        lambda: Server("merges").run(),
    ),
    (
        "events_in_bursts",
        "note",
        (
            "66.7 % of the events came together with the one before, about 3 at once: the gaps between events (ICL, "
            "ITL) are those of writing, not of steps."
        ),
        three_at_once,
    ),
    (
        "early_first_event",
        "warning",
        (
            "The first event of an answer came after 3 ms, sooner than a step of the model (11.5 ms), and the second "
            "61.4 ms later (medians): TTFT is not the time to a token of the model, which took about 64.4 ms."
        ),
        lambda: Server("space first").run(),
    ),
    (
        "few_answers_paused",
        "warning",
        (
            "3 of 24 requests stopped for up to 1.5 s, where the usual gap is 11.5 ms: these few pauses were 37.1 % of "
            "the streams' time. Throughput is 169.6 tok/s with them, and about 302.1 without."
        ),
        lambda: Server("stalls").run(),
    ),
    (
        "streams_not_served",
        "warning",
        (
            "While 8 streams had requests, the server worked on 1 at a time in 83.3 % of the time: the others waited "
            "for it (median TTFT 2268 ms of 2532 ms in all)."
        ),
        lambda: Server("one at a time", streams=8).run(),
    ),
    (
        "speculation_not_seen",
        "warning",
        (
            "The arm speculates (draft_model), and nothing shows it: the server counts no rounds, its answers report "
            "none, and each of 552 events carried one token, a step apart. It may be switched off."
        ),
        lambda: Server("silent", drafts=True).run(),
    ),
    (
        "failures_differ",
        "warning",
        (
            "The 4 requests that failed are not like the others: they had prompts of 884 characters (median), the "
            "others of 508. The figures are those of the rest alone."
        ),
        lambda: Server("refuses", prompts=96).run(),
    ),
    (
        "failures_differ",
        "warning",
        (
            "The 12 requests that failed are not like the others: they had the numbers 6 (median) in the order of "
            "sending, the others 262. The figures are those of the rest alone."
        ),
        lambda: plain().with_requests(first=12, **FAILED),
    ),
    (
        "other_programs",
        "warning",
        (
            "Other programs took 80 % of this machine's processors during the window (up to 80 % in a second; up to 12 "
            "threads wanted one of 2); programs waited for memory in 30 % of it."
        ),
        lambda: plain().with_samples(other_cpu_percent=80.0, run_queue=12, memory_pressure_percent=30.0),
    ),
    (
        "other_programs",
        "warning",
        "Memory was short during the window: programs waited for memory in 30 % of it.",
        lambda: plain().with_samples(memory_pressure_percent=30.0),
    ),
    (
        "processors_held_back",
        "warning",
        "The container's quota held the processors back in 40 % of its periods: the engine could do more.",
        lambda: plain().with_samples(cpu_throttled_percent=40.0),
    ),
    (
        "processors_held_back",
        "warning",
        "The processors' clock fell from 3000 to 2000 MHz within the window.",
        hot_processors,
    ),
)


@pytest.mark.parametrize(("check", "severity", "sentence", "run"), TRAPS, ids=[f"{t[0]}-{t[1]}" for t in TRAPS])
def test_a_run_that_shows_the_trap_is_told_so(
    check: str, severity: Severity, sentence: str, run: Callable[[], Measured]
) -> None:
    finding = run().finding(check)
    assert finding.sentence == sentence
    assert finding.severity == severity
    assert finding.advice


def test_every_check_of_a_run_is_provoked_above() -> None:
    assert {name for name, *_ in TRAPS} == {check.name for check in CHECKS}


def test_each_check_reaches_its_gravest_severity_above_and_nothing_graver() -> None:
    order = ("note", "warning", "invalid")
    declared = {check.name: check.severity for check in CHECKS}
    reached = {name: max((t[1] for t in TRAPS if t[0] == name), key=order.index) for name in declared}
    assert reached == declared


def test_failed_requests_that_a_file_only_counts_are_told_all_the_same() -> None:
    counted = replace(plain().with_requests(2, **FAILED), unrecorded=frozenset({"error"}))
    finding = counted.finding("requests_failed")
    assert finding.severity == "invalid"
    assert finding.sentence == "256 of 512 requests failed (50 %); the file does not say why."
