"""Healthy runs: nothing is found, and no check is skipped."""

from __future__ import annotations

import pytest

from lab.metrics.records import RunRecord, ServerCounters
from tests.lab.validity.healthy import healthy


def test_a_healthy_run_is_valid_and_every_check_could_look() -> None:
    verdict = healthy().judged()
    assert verdict.findings == ()
    assert verdict.skipped == ()
    assert verdict.valid


def test_a_healthy_run_with_a_draft_has_only_the_note_that_a_chunk_is_no_token() -> None:
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
    assert {each.check for each in verdict.skipped} == {
        "server_token_count", "server_prompt_count", "counter_reset", "acceptance_adds_up", "few_rounds",
        "request_acceptance_agrees", "preemptions", "warm_prefix_cache", "compilation_in_window", "sampling_overridden",
        "settings_changed_by_speculation", "client_lag", "client_busy", "late_sends", "server_shared", "gpu_throttled",
        "gpu_clock_fell", "gpu_shared",
    }  # fmt: skip
    assert all(each.missing for each in verdict.skipped)


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


@pytest.mark.parametrize("drafted", [True, False])
def test_the_factory_makes_records_that_can_be_stored(*, drafted: bool) -> None:
    run = healthy(drafted=drafted).run
    assert RunRecord.model_validate_json(run.model_dump_json()) == run
