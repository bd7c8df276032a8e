"""A check that lacks something is skipped and names what it lacks, in the words that users read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab.metrics.measure import Value
from lab.validity import CHECKS
from tests.lab.validity.healthy import Measured
from tests.lab.validity.one_check import answer, few, samples, severity_of
from tests.lab.validity.trapped import drafted, plain

NO_COUNTERS: dict[str, Any] = {"counters_before": None, "counters_after": None}


def without_log(run: Measured) -> Measured:
    return replace(run, log=None)


Case = tuple[str, str, Callable[[], Measured], dict[str, Value]]
SKIPPED: tuple[Case, ...] = (
    ("client_lag", "the client's own lag", lambda: plain().with_run(client=None), {}),
    ("late_sends", "how late requests were sent", lambda: plain().with_run(client=None), {}),
    ("late_sends", "how late requests were sent", lambda: plain().with_client(late_send_max_ms=None), {}),
    ("client_busy", "the client's own processor time", lambda: plain().with_run(client=None), {}),
    (
        "client_busy",
        "the client's own processor time",
        lambda: plain().with_run(duration_s=None),
        {"duration_s": None},
    ),
    ("work_beside", "what else of Drafthouse ran on the machine", lambda: plain().with_run(beside=None), {}),
    (
        "server_shared",
        "how many requests the engine worked on",
        lambda: samples((9, {"engine_running": None})),
        {},
    ),
    (
        "sampling_overridden",
        "the engine's log, which says whether the model's own sampling parameters apply",
        lambda: without_log(plain()),
        {},
    ),
    (
        "capture_sizes_too_small",
        "the sizes that the engine captured graphs for",
        lambda: plain().with_circumstances(effective_config={"max_seq_len": "4096"}),
        {},
    ),
    ("settings_changed_by_speculation", "the engine's log", lambda: without_log(drafted()), {}),
    ("preemptions", "the server's count of preempted requests", lambda: plain().with_run(**NO_COUNTERS), {}),
    (
        "server_token_count",
        "the server's own counter of generated tokens",
        lambda: plain().with_run(**NO_COUNTERS),
        {},
    ),
    ("server_prompt_count", "the server's own counter of prompt tokens", lambda: plain().with_run(**NO_COUNTERS), {}),
    ("server_prompt_count", "the prompt tokens of every request", plain, {"prompt_tokens": None}),
    ("several_tokens_a_chunk", "the tokens of every request", plain, {"completion_tokens": None}),
    (
        "counter_reset",
        "the server's counters before and after the window",
        lambda: plain().with_run(counters_before=None),
        {},
    ),
    (
        "counter_reset",
        "the server's counters before and after the window",
        lambda: plain().with_run(counters_after=None),
        {},
    ),
    (
        "counter_reset",
        "the server's counters before and after the window",
        lambda: plain().with_run(counters_before={}, counters_after={}),
        {},
    ),
    (
        "figures_contradict",
        "how long the window lasted",
        lambda: few(4).with_run(duration_s=None),
        {"duration_s": None},
    ),
    (
        "gpu_shared",
        "the other processes on the GPU",
        lambda: samples((9, {"gpu_other_processes": None, "gpu_utilisation_percent": None})),
        {},
    ),
    ("compilation_in_window", "the engine's log", lambda: without_log(plain()), {}),
    ("compilation_in_window", "the engine's log", lambda: plain().with_run(duration_s=None), {"duration_s": None}),
    (
        "compilation_in_window",
        "where in the engine's log the window lies",
        lambda: plain().with_run(log_begin_bytes=None),
        {},
    ),
    (
        "request_acceptance_agrees",
        "accepted tokens of every request and of the server's counters",
        lambda: drafted().with_requests(first=1, spec_accepted_tokens=None),
        {},
    ),
    (
        "request_acceptance_agrees",
        "accepted tokens of every request and of the server's counters",
        lambda: drafted().with_run(**NO_COUNTERS),
        {},
    ),
    (
        "acceptance_adds_up",
        "the server's acceptance per position",
        drafted,
        {"acceptance_length": None},
    ),
    (
        "slow_first_requests",
        "3 requests after the first 4 to compare them with",
        lambda: few(6),
        {},
    ),
)


@pytest.mark.parametrize(
    ("check", "missing", "run", "metrics"), SKIPPED, ids=[f"{c[0]}-{n}" for n, c in enumerate(SKIPPED)]
)
def test_a_check_names_what_it_lacks(
    check: str, missing: str, run: Callable[[], Measured], metrics: dict[str, Value]
) -> None:
    assert severity_of(answer(check, run(), **metrics)) == f"skipped: {missing}"


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


def test_every_check_that_needs_what_was_not_recorded_says_so_and_says_nothing_else() -> None:
    everything = replace(plain(), unrecorded=frozenset(name for check in CHECKS for name in check.looks_at))
    verdict = everything.judged()
    assert {skip.check for skip in verdict.skipped} == {check.name for check in CHECKS}
    assert all(skip.missing.endswith(": not recorded") for skip in verdict.skipped)
    assert verdict.findings == ()


def test_what_was_not_recorded_hides_its_parts_and_what_it_is_part_of() -> None:
    for hidden in ("load", "load.max_concurrency"):
        skipped = {skip.check for skip in replace(plain(), unrecorded=frozenset({hidden})).judged().skipped}
        assert {"slow_first_requests", "long_tail"} <= skipped
        assert "requests_failed" not in skipped
