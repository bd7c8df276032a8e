"""Runs in rounds on real vLLM, with another engine beside it."""

from __future__ import annotations

import pytest

from lab.metrics.measure import measure
from lab.metrics.rounds import rounds_of
from lab.validity import judge
from warehouse.bundles.run_bundle import Bundle, read_log

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def test_rounds_add_up_to_the_run(vllm_study: list[Bundle]) -> None:
    for bundle in vllm_study:
        run, values = bundle.run, measure(bundle.run, bundle.requests, bundle.telemetry)
        rounds = rounds_of(run, bundle.requests, bundle.telemetry)
        assert len(rounds) == len(run.windows or ()) == 2
        for name in ("completion_tokens", "server_generation_tokens", "num_drafts", "num_accepted_tokens"):
            of_rounds = [each.data.number(name) for each in rounds]
            assert values[name] == (None if None in of_rounds else sum(number or 0 for number in of_rounds)), name
        lengths_s = [each.data.number("duration_s") or 0.0 for each in rounds]
        assert values["duration_s"] == pytest.approx(sum(lengths_s), rel=0.01)
        assert values["steady_output_tok_per_s"] is not None


def test_what_the_server_counted_agrees_with_the_answers_of_all_windows(vllm_study: list[Bundle]) -> None:
    of_counters = {"server_token_count", "server_prompt_count", "counters_unread", "told_tokens_count"}
    for bundle in vllm_study:
        run, values = bundle.run, measure(bundle.run, bundle.requests, bundle.telemetry)
        verdict = judge(run, bundle.requests, bundle.telemetry, values, read_log(bundle.folder, run))
        wrong = [finding for finding in verdict.findings if finding.severity != "note"]
        assert not [finding for finding in wrong if finding.check in of_counters]
