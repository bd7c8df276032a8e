"""Healthy runs, and runs that look like a trap and are none: nothing is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.metrics.records import ServerCounters
from lab.study import Workload
from tests.lab.validity.healthy import TOKENS, Measured, healthy
from tests.lab.validity.trapped import (
    JIT,
    OVERRIDDEN,
    cached_prompts,
    crowded,
    cut_prompts,
    hiccup,
    long_prompts,
    may_end,
    plain,
    queued_first,
    ramp,
    same_beginning,
    short_answers,
    waiting,
)


def test_a_healthy_run_is_valid_and_every_check_could_look() -> None:
    verdict = healthy().judged()
    assert verdict.findings == ()
    assert verdict.skipped == ()
    assert verdict.valid


def test_a_healthy_drafted_run_has_only_the_note_on_chunks() -> None:
    verdict = healthy(drafted=True).judged()
    assert [(finding.check, finding.severity) for finding in verdict.findings] == [("several_tokens_a_chunk", "note")]
    assert "carries 2 tokens on average" in verdict.findings[0].sentence
    assert verdict.skipped == ()


def test_what_is_unknown_is_unjudged_and_does_not_pass_in_silence() -> None:
    run = healthy(drafted=True)
    blind = run.with_run(counters_before=ServerCounters(), counters_after=ServerCounters(), client=None)
    blind = blind.with_requests(spec_accepted_tokens=None)
    verdict = type(blind)(blind.run, blind.requests).judged()
    assert verdict.valid
    assert {skipped.check for skipped in verdict.skipped} == {
        "server_token_count", "server_prompt_count", "counter_reset", "acceptance_adds_up", "few_rounds",
        "steps_without_draft", "request_acceptance_agrees", "acceptance_only_of_the_run",
        "preemptions", "warm_prefix_cache",
        "compilation_in_window", "sampling_overridden",
        "settings_changed_by_speculation", "client_lag", "client_busy", "late_sends", "server_shared", "gpu_throttled",
        "gpu_clock_fell", "gpu_shared", "other_programs",
    }  # fmt: skip
    assert all(skipped.missing for skipped in verdict.skipped)


def test_on_a_machine_without_a_gpu_nothing_is_said_of_gpus() -> None:
    without = healthy().with_circumstances(gpus=()).with_samples(
        gpu_utilisation_percent=None, gpu_sm_clock_mhz=None, gpu_throttle_reasons=None
    )  # fmt: skip
    verdict = without.judged()
    assert (verdict.findings, verdict.skipped) == ((), ())


def test_a_failed_run_says_that_it_failed_and_nothing_else() -> None:
    verdict = healthy().with_run(status="failed", error="the engine was killed\nand more").judged()
    assert [finding.sentence for finding in verdict.findings] == ["The run failed: the engine was killed and more"]
    assert not verdict.valid
    assert verdict.skipped == ()


REPETITION = Workload(dataset="prefix_repetition", input_tokens=1, output_tokens=TOKENS)
EAGER = {"compilation_config": "{'cudagraph_mode': <CUDAGraphMode.NONE: 0>, 'max_cudagraph_capture_size': 1}"}

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
    fired = [finding for finding in run().judged().findings if finding.check == check]
    assert not fired, why
