"""Sentences of checks in their rarer forms: what is left out where it is unknown, one beside many, several at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.metrics.measure import Value
from lab.validity import Finding
from tests.lab.validity.healthy import STREAMS, Measured
from tests.lab.validity.one_check import answer, few, samples
from tests.lab.validity.test_thresholds import (
    JIT,
    captured,
    first_tokens,
    lagging,
    tail,
    waiting_ms,
)
from tests.lab.validity.trapped import drafted, forced, plain

Case = tuple[str, str, Callable[[], Measured], dict[str, Value]]
BUDGET = "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings"
OVERLAP = "Overlap scheduler is disabled because of speculative decoding"


def logged(*lines: str, of: Measured | None = None) -> Measured:
    return replace(of or plain(), log="\n".join(lines))


def waits() -> Measured:
    """Requests that waited 10 and 50 ms, and one of which it is not known."""
    short, long, unknown, *_ = waiting_ms(10.0).requests
    some = (short, replace(long, sent_s=1.05), replace(unknown, sent_s=None))
    return replace(waiting_ms(10.0), requests=some)


def four_at_once(first_ms: float, later_ms: float) -> Measured:
    """Four streams: the time to first token of the first requests, and of three later ones."""
    alone = first_tokens(first_ms, later_ms)
    first, *later = alone.requests
    return replace(alone, requests=(*[first] * STREAMS, *later)).with_run(load=plain().run.load)


SENTENCES: tuple[Case, ...] = (
    (
        "sampling_overridden",
        "The model's generation_config applied to every request, as far as requests do not set it: top_k 20.",
        lambda: logged("Using default chat sampling params from model: {'temperature': 0.6, 'top_k': 20}").with_run(
            sampling={"temperature": 1.0}
        ),
        {},
    ),
    (
        "settings_changed_by_speculation",
        f"Speculation changed other settings too: {BUDGET}, {OVERLAP}.",
        lambda: logged(BUDGET, f"{OVERLAP}. And more", BUDGET, of=drafted()),
        {},
    ),
    (
        "capture_sizes_too_small",
        (
            "Graphs were captured for up to 7 tokens a step, and 2 streams of 1 + 3 tokens need 8: larger steps ran "
            "without a graph."
        ),
        lambda: captured(7, non_default_args="{'max_num_seqs': 2}"),
        {},
    ),
    (
        "client_lag",
        (
            "The client's event loop was up to 20.1 ms late (p99; worst 2 ms): every latency may include that much of "
            "the client's own."
        ),
        lambda: lagging(20.1),
        {"ttft_p50_ms": None},
    ),
    (
        "waiting_in_client",
        (
            "Requests waited 30 ms in the client for a free stream on average (at most 50 ms); TTFT, 100 ms on "
            "average, does not count it."
        ),
        waits,
        {"ttft_mean_ms": 100.0},
    ),
    (
        "long_tail",
        (
            "For 26 % of the window fewer than half of the 4 streams had a request, while tokens per second count all "
            "of it."
        ),
        lambda: tail(74.0),
        {"steady_output_tok_per_s": None},
    ),
    (
        "synthetic_acceptance",
        "The acceptance was forced by a setting of the engine; no draft reached it.",
        forced,
        {"acceptance_length": None},
    ),
    (
        "acceptance_adds_up",
        "More tokens were accepted than drafted (101 %).",
        drafted,
        {"acceptance_rate": 1.01},
    ),
    (
        "gpu_shared",
        "Up to 1 process other than the engine's had the GPU open, in 2 of 10 seconds.",
        lambda: samples((2, {"gpu_other_processes": 1}), (8, {})),
        {},
    ),
    (
        "slow_first_requests",
        (
            "The quickest of the first 4 requests waited 1300 ms for its first token, where the later ones suggest 240 "
            "ms (their median is 60 ms)."
        ),
        lambda: four_at_once(1300.0, 60.0),
        {},
    ),
    (
        "compilation_in_window",
        (
            f"The engine compiled within the measured window (2 lines of its log, the first: {JIT}); the longest pause "
            "of a request was 0.01 of 10 s."
        ),
        lambda: (
            few(1, sent_s=0.0, first_token_s=0.01, chunk_s=(0.01,), end_s=2.0)
            .with_run(duration_s=10.0)
            .with_log_line(JIT)
            .with_log_line(JIT)
        ),
        {},
    ),
)


@pytest.mark.parametrize(
    ("check", "sentence", "run", "metrics"), SENTENCES, ids=[f"{s[0]}-{n}" for n, s in enumerate(SENTENCES)]
)
def test_a_sentence_is_whole(check: str, sentence: str, run: Callable[[], Measured], metrics: dict[str, Value]) -> None:
    finding = answer(check, run(), **metrics)
    assert isinstance(finding, Finding), finding
    assert finding.sentence == sentence


@pytest.mark.parametrize(
    "line",
    [
        "Using default chat sampling params from model: {'top_k': ",
        "Using default chat sampling params from model: {1: 2}",
        "Using default chat sampling params from model: {'top_k', 'min_p'}",
        "Using default chat sampling params from model: {'top_k': 20, 'min_p': 0.1, 'seed': 7, 'max_new_tokens': 5}",
    ],
)
def test_unreadable_or_irrelevant_sampling_parameters_are_no_finding(line: str) -> None:
    assert answer("sampling_overridden", logged(line)) is None
