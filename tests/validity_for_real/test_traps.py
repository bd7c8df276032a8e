"""Engines that fall into a trap, measured as a user's study is: each is told so, and the healthy ones are not."""

from __future__ import annotations

import pytest

from lab.validity import Severity, judge_study
from tests.validity_for_real.conftest import OURS, THEIRS, Judged

pytestmark = pytest.mark.timeout(300)  # the study is measured in the first test that asks for it

#: Short runs have too few requests for percentiles, and this machine may be busy with other tests while they run.
OF_SHORT_RUNS = {"few_requests", "few_rounds", "client_lag", "late_sends"}
#: Nothing is known of how a server is set that somebody else started.
OF_THEIRS = {"configuration_unknown"}
EXPECTED: tuple[tuple[str, str, Severity, str], ...] = (
    ("counts_wrongly", "server_token_count", "invalid", "counted 384 generated tokens in the window"),
    ("hangs_up", "requests_failed", "invalid", "4 of 12 requests failed"),
    ("compiles_late", "compilation_in_window", "invalid", "_fwd_kernel"),
    ("compiles_late", "slow_first_requests", "invalid", "The quickest of the first 2 requests"),
    ("keeps_answers", "answers_from_cache", "invalid", "answers from a cache"),
    ("one_token", "degenerate_output", "invalid", "12 of 12 outputs (100 %)"),
    ("forgets", "counter_reset", "invalid", "it was restarted"),
    ("truncates", "prompt_truncated", "warning", "exactly 64 prompt tokens"),
    ("holds_back", "answers_at_once", "invalid", "12 of 12 requests"),
    ("warm_cache", "warm_prefix_cache", "invalid", "90 % of the prompt tokens"),
    ("ends_early", "output_length", "invalid", "120 tokens were served where 384 were asked"),
    ("is_shared", "server_token_count", "invalid", "somebody else used the server"),
    ("own_sampling", "sampling_overridden", "warning", "repetition_penalty 1.1"),
    ("healthy draft", "several_tokens_a_chunk", "note", "2 tokens on average"),
    ("counts_positions", "acceptance_adds_up", "invalid", "is 2, but 1 + the sum of its per-position rates is 1.7"),
    ("small_graphs", "capture_sizes_too_small", "warning", "2 streams of 1 + 3 tokens need 8"),
    ("forced", "synthetic_acceptance", "invalid", "of 2 tokens a round was forced"),
)


@pytest.mark.parametrize(("arm", "check", "severity", "words"), EXPECTED, ids=[f"{e[0]}-{e[1]}" for e in EXPECTED])
def test_an_engine_that_falls_into_a_trap_is_told_so(
    study: dict[str, Judged], arm: str, check: str, severity: Severity, words: str
) -> None:
    verdict = study[arm].verdict
    found = [finding for finding in verdict.findings if finding.check == check]
    assert len(found) == 1, verdict
    assert words in found[0].sentence
    assert found[0].severity == severity


def test_every_arm_is_spoken_of() -> None:
    assert {arm for arm, *_ in EXPECTED} | {"healthy"} == {*OURS, *THEIRS}


def test_the_healthy_engine_is_told_nothing(study: dict[str, Judged]) -> None:
    verdict = study["healthy"].verdict
    assert {finding.check for finding in verdict.findings} <= OF_SHORT_RUNS, verdict.findings
    assert verdict.valid
    unjudged = {each.check for each in verdict.unjudged}
    assert unjudged <= {"drift_within_run", "server_shared"}  # the window was too short for these


def test_a_healthy_server_of_somebody_else_is_told_only_that_its_settings_are_unknown(study: dict[str, Judged]) -> None:
    verdict = study["none"].verdict
    assert {finding.check for finding in verdict.findings} <= OF_SHORT_RUNS | OF_THEIRS, verdict.findings
    assert {finding.check for finding in verdict.findings} >= OF_THEIRS
    assert {"compilation_in_window", "sampling_overridden"} <= {each.check for each in verdict.unjudged}


def test_the_healthy_engine_with_a_draft_is_told_that_a_chunk_is_no_token(study: dict[str, Judged]) -> None:
    verdict = study["healthy draft"].verdict
    assert {finding.check for finding in verdict.findings} <= OF_SHORT_RUNS | {"several_tokens_a_chunk"}
    assert verdict.valid


def test_a_trap_makes_no_noise_elsewhere(study: dict[str, Judged]) -> None:
    """What is told of an engine is what it does, and what follows from that."""
    follows = {"counts_wrongly": {"output_length"}, "keeps_answers": {"answers_at_once"}}
    for arm, judged in study.items():
        meant = {check for name, check, *_ in EXPECTED if name == arm} | follows.get(arm, set())
        told = {finding.check for finding in judged.verdict.findings} - OF_SHORT_RUNS - OF_THEIRS
        assert told <= meant | {"several_tokens_a_chunk"}, (arm, judged.verdict.findings)


def test_the_study_as_a_whole_says_what_its_arms_have_not_in_common(study: dict[str, Judged]) -> None:
    verdict = judge_study([(judged.bundle.run, judged.metrics) for judged in study.values()])
    found = {finding.check: finding for finding in verdict.findings}
    assert set(found) == {
        "single_repeat", "single_concurrency", "settings_differ", "synthetic_acceptance_mixed",
        "baseline_of_other_engine",
    }  # fmt: skip
    assert "max_cudagraph_capture_size 512 -> 2" in found["settings_differ"].sentence
    assert "'small_graphs'" in found["settings_differ"].sentence
