"""Numbers by turn and by length of context."""

from __future__ import annotations

import pytest

from lab.metrics.groups import context_steps, groups, turn_steps
from lab.metrics.request_table import RequestTable
from lab.study.workload import NO_TEXT
from tests.warehouse.runs import failed_request, request, run_record


def test_contexts_are_put_into_powers_of_two_and_late_turns_together() -> None:
    lengths = (1, 256, 257, 512, 513, 131_072, 131_073)
    table = RequestTable.of([request(prompt_tokens=tokens, turn=1) for tokens in lengths])
    assert context_steps(table).tolist() == [256, 256, 512, 512, 1024, 131_072, 262_144]
    turns = RequestTable.of([request(turn=turn) for turn in (1, 8, 9, 16, 17, 32, 33)])
    assert turn_steps(turns).tolist() == [1, 8, 9, 9, 17, 17, 33]


def test_each_turn_has_the_acceptance_and_latencies_of_its_requests() -> None:
    told = {"spec_drafts": 4, "spec_draft_tokens": 12}
    table = RequestTable.of(
        [
            request(index=0, turn=1, prompt_tokens=100, spec_accepted_tokens=2, **told),
            request(index=1, turn=1, prompt_tokens=300, spec_accepted_tokens=4, **told),
            request(index=2, turn=2, prompt_tokens=600, spec_accepted_tokens=8, first_token_s=0.3, **told),
            failed_request(index=3, turn=3),
        ]
    )
    found = groups(run_record(), table)
    by_turn = {row["turn"]: row for row in found if row["grain"] == "turn"}
    assert set(by_turn) == {1, 2}
    assert (by_turn[1]["requests"], by_turn[1]["acceptance_length"]) == (2, 1 + 6 / 8)
    assert (by_turn[2]["acceptance_length"], by_turn[2]["acceptance_rate"]) == (3.0, 8 / 12)
    assert by_turn[2]["ttft_mean_ms"] == pytest.approx(200.0)
    contexts = [(row["context_tokens"], row["requests"]) for row in found if row["grain"] == "context"]
    assert contexts == [(256, 1), (512, 1), (1024, 1)]
    both = [(row["turn"], row["context_tokens"]) for row in found if row["grain"] == "turn and context"]
    assert both == [(1, 256), (1, 512), (2, 1024)]


def test_single_turns_have_contexts_alone_and_a_failed_run_nothing() -> None:
    table = RequestTable.of([request()])
    assert [row["grain"] for row in groups(run_record(), table)] == ["context"]
    assert groups(run_record(status="failed", error="x"), table) == []


def test_what_one_request_of_a_turn_lacks_is_unknown_of_the_turn() -> None:
    uncounted = request(index=1, turn=1, prompt_tokens=None, completion_tokens=None)
    found = groups(run_record(), RequestTable.of([request(turn=1), uncounted]))
    (of_turn,) = [row for row in found if row["grain"] == "turn"]
    assert (of_turn["requests"], of_turn["prompt_tokens_mean"], of_turn.get("tpot_mean_ms")) == (2, None, None)
    assert of_turn["ttft_mean_ms"] is not None


def test_a_trace_without_texts_has_rounds_but_no_acceptance() -> None:
    table = RequestTable.of([request(category=NO_TEXT, spec_drafts=4, spec_draft_tokens=8, spec_accepted_tokens=4)])
    (row,) = groups(run_record(), table)
    unknown = ("num_accepted_tokens", "acceptance_length", "acceptance_rate")
    assert (row["num_drafts"], *(row[name] for name in unknown)) == (4, None, None, None)
    assert row["tpot_mean_ms"] is not None
