"""Engines that fall into a trap, measured as a user's study is: each is told so, and the healthy ones are not."""

from __future__ import annotations

import pytest

from lab.validity import Severity, judge_study
from tests.validity_for_real.conftest import MAY_BE_HELD_UP, OURS, THEIRS, Judged, not_as_meant
from tests.validity_for_real.expected import EXPECTED, OF_SHORT_RUNS, OF_THEIRS, is_believed, noise

OF_THE_STUDY = {
    "single_repeat", "single_concurrency", "settings_differ", "synthetic_acceptance_mixed", "baseline_of_other_engine",
    "prompt_tokens_differ", "prompts_not_answered",
}  # fmt: skip
OTHER_TEXT = "outputs_differ"

#: The study is measured in the first test that asks for it.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(5400)]


@pytest.mark.parametrize(("arm", "check", "severity", "words"), EXPECTED, ids=[f"{e[0]}-{e[1]}" for e in EXPECTED])
def test_an_engine_that_falls_into_a_trap_is_told_so(
    study: dict[str, Judged], arm: str, check: str, severity: Severity, words: str
) -> None:
    verdict = study[arm].verdict
    fired = [finding for finding in verdict.findings if finding.check == check]
    assert len(fired) == 1, verdict
    assert words in fired[0].sentence
    assert fired[0].severity == severity


def test_a_whole_study_is_told_hardly_anything_false(tries: list[dict[str, Judged]]) -> None:
    """A check that speaks up without a reason now and then would otherwise pass: one of several tries is soon good."""
    false = [not_as_meant(tried) for tried in tries if len(tried) == 33]
    print(f"arms not as meant, study by study: {false}")
    assert min(map(len, false)) <= MAY_BE_HELD_UP, false


def test_every_arm_is_spoken_of() -> None:
    assert {arm for arm, *_ in EXPECTED} | {"healthy"} == {*OURS, *THEIRS}


def test_the_healthy_engine_is_told_nothing(study: dict[str, Judged]) -> None:
    verdict = study["healthy"].verdict
    assert {finding.check for finding in verdict.findings} <= OF_SHORT_RUNS, verdict.findings
    assert is_believed(verdict)
    skipped = {skip.check for skip in verdict.skipped}
    assert skipped <= {"drift_within_run", "server_shared", "events_in_bursts"}  # the window was too short for these


def test_a_healthy_foreign_server_is_told_only_that_its_settings_are_unknown(study: dict[str, Judged]) -> None:
    verdict = study["none"].verdict
    assert {finding.check for finding in verdict.findings} <= OF_SHORT_RUNS | OF_THEIRS, verdict.findings
    assert {finding.check for finding in verdict.findings} >= OF_THEIRS
    assert {"compilation_in_window", "sampling_overridden"} <= {skip.check for skip in verdict.skipped}


def test_the_healthy_drafted_engine_is_told_that_a_chunk_is_no_token(study: dict[str, Judged]) -> None:
    verdict = study["healthy draft"].verdict
    assert {finding.check for finding in verdict.findings} <= OF_SHORT_RUNS | {"several_tokens_a_chunk"}
    assert is_believed(verdict)


def test_a_trap_makes_no_noise_elsewhere(study: dict[str, Judged]) -> None:
    """What is told of an engine is what it does, and what follows from that."""
    assert {arm: noise(arm, judged.verdict) for arm, judged in study.items()} == {arm: set() for arm in study}


def test_the_study_says_what_its_arms_have_not_in_common(tries: list[dict[str, Judged]]) -> None:
    verdict = judge_study([judged.in_study for judged in tries[0].values()])
    by_check = {finding.check: finding for finding in verdict.findings if finding.check != OTHER_TEXT}
    assert set(by_check) == OF_THE_STUDY
    assert "max_cudagraph_capture_size 512 -> 2" in by_check["settings_differ"].sentence
    assert "'small_graphs'" in by_check["settings_differ"].sentence


def test_an_arm_that_writes_another_text_than_the_baseline_is_told_so(
    tries: list[dict[str, Judged]],
) -> None:
    verdict = judge_study([judged.in_study for judged in tries[0].values()])
    by_arm = {finding.sentence.split("'")[1]: finding for finding in verdict.findings if finding.check == OTHER_TEXT}
    assert set(by_arm) == {"one_token", "ends_early"}
    assert {finding.severity for finding in by_arm.values()} == {"warning"}
    assert (
        "gave the same output as the baseline for 0 of 6 prompts (0 %; 95 % interval 0 % to"
        in by_arm["one_token"].sentence
    )
